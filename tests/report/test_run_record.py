# SPDX-License-Identifier: GPL-2.0-or-later
"""Records: written whole, read back equal, found by any name, refused when foreign."""

from __future__ import annotations

import json
from pathlib import Path

import examples
import pytest
from pydantic import ValidationError

from lab.base.errors import UsageError
from lab.inputs.terms import Engine, Level, Verdict
from lab.report import record_store, run_record, tables


def test_verdicts_levels_and_engines_are_words_in_json_and_values_when_read(tmp_path: Path) -> None:
    run = examples.paired_run()
    folder = record_store.save(run, tmp_path)
    text = (folder / "run.json").read_text()
    assert '"verdict": "HOLDS"' in text
    assert '"level": "wall clock"' in text
    (claim,) = record_store.load(folder).series[0].claims
    (finding,) = claim.findings
    assert (claim.verdict, finding.level, finding.engine) == (Verdict.HOLDS, Level.WALL, Engine.TCG)
    assert {type(finding.verdict), type(finding.level)} == {Verdict, Level}


@pytest.mark.parametrize(
    ("key", "word"), [("verdict", "HOLDS"), ("level", "wall clock"), ("engine", "tcg")]
)
def test_a_word_that_nobody_knows_is_refused(tmp_path: Path, key: str, word: str) -> None:
    path = record_store.save(examples.paired_run(), tmp_path) / "run.json"
    path.write_text(path.read_text().replace(f'"{key}": "{word}"', f'"{key}": "perhaps"'))
    with pytest.raises(UsageError, match=key):
        record_store.load(path.parent)


def test_a_record_keeps_the_infinite_end_of_an_interval_as_nothing(tmp_path: Path) -> None:
    finding = examples.finding(interval=(-1.0, None))
    run = examples.run(examples.series(examples.claim(finding)), cells=examples.paired_run().cells)
    text = (record_store.save(run, tmp_path) / "run.json").read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert record_store.load(tmp_path / "runs" / run.id) == run


@pytest.fixture
def three_runs(tmp_path: Path) -> Path:
    """Results with three runs, the newest of which was written first."""
    for run_id in ("20260103-000000-cccc", "20260101-000000-aaaa", "20260102-000000-bbbb"):
        record_store.save(examples.run(id=run_id), tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("last", "20260103-000000-cccc"),
        ("last~1", "20260102-000000-bbbb"),
        ("last~2", "20260101-000000-aaaa"),
        ("20260102", "20260102-000000-bbbb"),
        ("20260101-000000-aaaa", "20260101-000000-aaaa"),
    ],
)
def test_a_run_is_found_by_any_of_its_names(three_runs: Path, name: str, expected: str) -> None:
    assert record_store.find(three_runs, name).name == expected


@pytest.mark.parametrize(
    "name", ["2026", "2025", "last~3", "last~x", "last~²", f"last~{'9' * 5000}", "lats"]
)
def test_a_name_that_fits_none_or_several_is_refused(three_runs: Path, name: str) -> None:
    with pytest.raises(UsageError):
        record_store.find(three_runs, name)


def test_without_a_run_it_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lab run"):
        record_store.find(tmp_path, "last")


@pytest.mark.parametrize(
    ("key", "value"), [("schema_version", run_record.SCHEMA_VERSION + 1), ("surprise", 1)]
)
def test_a_foreign_record_is_refused(tmp_path: Path, key: str, value: int) -> None:
    path = record_store.save(examples.paired_run(), tmp_path) / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(UsageError, match=key):
        record_store.load(path.parent)


def test_a_row_has_a_cell_for_each_column() -> None:
    with pytest.raises(ValidationError, match="as many cells"):
        run_record.TableRecord(title="t", columns=tables.columns("a", "b"), rows=(("1",),))


def test_the_schema_describes_a_record() -> None:
    schema = run_record.RunRecord.model_json_schema()
    assert schema["properties"]["schema_version"]["maximum"] == run_record.SCHEMA_VERSION
    assert {"series", "cells", "host", "tables"} <= schema["properties"].keys()


def test_ids_sort_by_time_also_when_the_clock_was_set_back(tmp_path: Path) -> None:
    ids = []
    for started in (1.7e9, 1.7e9 - 86400, 1.7e9 - 86400, 1.7e9 + 5):
        ids.append(record_store.new_id(tmp_path, started))
        record_store.save(examples.matrix_run(1).model_copy(update={"id": ids[-1]}), tmp_path)
    assert ids == sorted(ids) == record_store.known(tmp_path)
    assert [name[-7:-5] for name in ids] == ["20", "21", "22", "25"]
