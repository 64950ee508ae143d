# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands that show runs, as a user types them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import examples
import pytest
from click.testing import CliRunner, Result

from lab.base.errors import UsageError
from lab.cli import main
from lab.measure.boot_store import BootStore
from lab.report import finish, record_store, run_record
from lab.report.finish import FORMATS, PROFILES


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAB_RESULTS", str(tmp_path))
    return tmp_path


def lab(*words: str) -> Result:
    return CliRunner().invoke(main.lab, words, catch_exceptions=False, standalone_mode=False)


def test_show_prints_the_details_of_what_the_command_printed(results: Path) -> None:
    done = finish.finish(examples.paired_run(), BootStore())
    assert done.text.splitlines()[1] == "own: HOLDS"
    shown = lab("show").output
    assert shown.startswith("own: HOLDS\n")
    assert "expected  before -> after >= +20%" in shown


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_report_prints_every_format(results: Path, name: str) -> None:
    record_store.save(examples.swept_run(), results)
    printed = lab("report", "--format", name).output
    target = results / "out"
    lab("report", "last", "--format", name, "--output", str(target))
    assert target.read_text() == printed
    assert printed


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_report_prints_every_profile_of_the_cells_that_are_named(results: Path, name: str) -> None:
    run = counted(results)
    every = lab("report", "--format", name).output
    assert "nullb bfq randread_burst, exact" in every
    target = results / "out"
    lab("report", run.id, "--format", name, "--cell", "raid64", "--output", str(target))
    assert "raid64 bfq" in target.read_text()
    assert "nullb bfq" not in target.read_text()


def test_a_profile_of_nothing_is_refused(results: Path) -> None:
    counted(results)
    with pytest.raises(UsageError, match="no cell was counted by function with 'kyber' in its"):
        lab("report", "--format", "folded", "--cell", "kyber")
    with pytest.raises(UsageError, match="--cell chooses nothing from csv"):
        lab("report", "--format", "csv", "--cell", "kyber")
    record_store.save(examples.paired_run(), results)
    with pytest.raises(UsageError, match="no two cells were compared by function") as caught:
        lab("report", examples.paired_run().id, "--format", "svg")
    assert "exact and sim" in caught.value.hint


def counted(results: Path) -> run_record.RunRecord:
    """A run whose boots have what an I/O cost by function, two of them damaged."""
    cells = [
        examples.cell(arm, (1.0, 2.0), topology=topology, engine="exact", cpus=1)
        for topology in ("nullb", "raid64")
        for arm in ("before", "after")
    ]
    differences = [
        run_record.CostDifference(
            claim="", arms=("before", "after"), cells=places, functions=(), totals=(9.0, 9.0)
        )
        for places in ((0, 1), (2, 3))
    ]
    run = examples.run(cells=cells, costs=tuple(differences), id="20260101-120000-cost")
    record_store.save(run, results)
    for place, cell in enumerate(cells):
        for boot, text in zip(cell.boots, (f"[user]\t1.0\nf\t{place}.5\n", "junk"), strict=True):
            folder = results / "boots" / boot.id
            folder.mkdir(parents=True)
            (folder / "cost.tsv").write_text(text)
    return run


def test_report_writes_a_page_into_the_run(results: Path) -> None:
    run = examples.paired_run()
    folder = record_store.save(run, results)
    assert lab("report").output.strip() == str(folder / "report.html")
    assert "<!doctype html>" in (folder / "report.html").read_text()


def test_compare_takes_the_last_run_by_itself(results: Path) -> None:
    record_store.save(examples.paired_run(), results)
    assert "all 1 verdicts are the same" in lab("compare", "last").output


def test_list_shows_runs(results: Path) -> None:
    assert "Runs" not in lab("list").output
    record_store.save(examples.paired_run(), results)
    assert "20260101-120000-abcd       Verdicts on own" in lab("list").output


@pytest.mark.parametrize("poison", ["Infinity", "-Infinity", "NaN", "1e400", '"many"', "null"])
def test_a_record_with_a_number_that_is_none_is_refused_and_hides_no_other(
    results: Path, poison: str
) -> None:
    record_store.save(examples.paired_run(), results)
    bad = record_store.save(examples.paired_run().model_copy(update={"id": "bad"}), results)
    record = bad / "run.json"
    text = re.sub(r'"iops":\s*[\d.]+', f'"iops": {poison}', record.read_text(), count=1)
    assert text != record.read_text()
    record.write_text(text)
    for command in (("show", "bad"), ("report", "bad"), ("compare", "bad", "2026")):
        with pytest.raises(UsageError, match="not a record of schema version"):
            lab(*command)
    listed = lab("list").output
    assert "20260101-120000-abcd       Verdicts on own" in listed
    assert "bad                        (not a record" in listed


@pytest.mark.parametrize("what", ["run", "series", "topology", "workload", "counter", "profile"])
def test_schemas_are_json(what: str) -> None:
    assert json.loads(lab("schema", what).output)["type"] == "object"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script(shell: str) -> None:
    assert "_LAB_COMPLETE" in lab("completion", shell).output
