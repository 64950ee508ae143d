# SPDX-License-Identifier: GPL-2.0-or-later
"""How a run ends: record, page and text, whatever the command was."""

from __future__ import annotations

from pathlib import Path

import examples
import junitparser
import pytest

from lab.measure.boot_store import BootStore
from lab.report import finish, record_store, run_record, terminal


@pytest.mark.parametrize(
    "run",
    [
        examples.paired_run(),
        examples.swept_run(),
        examples.matrix_run(4),
        examples.tables_run(),
        examples.run(examples.series(error="no", verdict="ERROR")),
    ],
)
def test_a_finished_run_has_a_record_a_page_and_a_text(
    tmp_path: Path, run: run_record.RunRecord
) -> None:
    done = finish.finish(run, BootStore(tmp_path))
    assert record_store.load(done.folder) == run
    assert done.page == done.folder / "report.html"
    assert done.page.read_text().lstrip().startswith("<!doctype html>")
    assert done.text == (terminal.screen(run) if run.series else terminal.text(run))
    assert sorted(path.name for path in done.folder.iterdir()) == ["report.html", "run.json"]


def test_what_is_printed_names_the_phases_and_the_places(tmp_path: Path) -> None:
    done = finish.finish(examples.paired_run(), BootStore(tmp_path))
    lines = done.ending("measuring 1 min").splitlines()
    assert lines[2] == "own: HOLDS"
    assert lines[-4:] == [
        "Time: measuring 1 min",
        f"Report: {done.page}",
        f"Record: {done.folder}",
        f"Raw files: {tmp_path / 'boots'}",
    ]
    assert "Time:" not in done.ending()


def test_ci_gets_its_files(tmp_path: Path) -> None:
    done = finish.finish(examples.paired_run(), BootStore(tmp_path), for_ci=True)
    assert (done.folder / "summary.md").read_text().startswith("# Verdicts on own")
    (suite,) = junitparser.JUnitXml.fromstring((done.folder / "junit.xml").read_bytes())
    assert suite.tests == 1


def test_a_summary_fits_into_a_ci_page() -> None:
    text = "| a | b |\n" * 200_000
    short = finish.short(text, Path("/runs/x"))
    assert len(short.encode()) < 1_048_576
    assert short.endswith("This is not all: /runs/x/report.html\n")
    assert finish.short("short\n", Path("/runs/x")) == "short\n"
