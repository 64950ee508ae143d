# SPDX-License-Identifier: GPL-2.0-or-later
"""What `lab run` prints, records and exits with, whatever was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import examples
import pytest
from click.testing import CliRunner, Result

from lab.cli import main
from lab.inputs import series
from lab.inputs.terms import Engine, Level, Verdict
from lab.judge import judge
from lab.judge.experiment import Experiment
from lab.judge.verdict import Evidence, Finding, Judged
from lab.measure.boot_store import BootStore
from lab.measure.cell import Cell
from lab.measure.host import Report
from lab.report import run_record

NAME = "bfq_burst_merge"


def lab(*words: str) -> Result:
    return CliRunner().invoke(main.lab, words, catch_exceptions=False, standalone_mode=False)


def found(verdict: Verdict, error: str = "") -> Judged:
    """The series with its first expectation found so; with an error nothing of it was judged."""
    own = series.get(NAME)
    title, claim = next(pair for pair in own.claims.items() if pair[1].expect[0].change)
    cells = tuple(
        Cell(claim.topology, claim.scheduler, claim.workload, (), Engine.TCG, arm=arm)
        for arm in ("before", "after")
    )
    asked = Experiment(NAME, title, claim.expect[0], claim.topology, Level.WALL, Engine.TCG, cells)
    finding = Finding(asked, Evidence(((100.0,), (150.0,))), verdict, "why", (100.0, 150.0), 0.5)
    return Judged(NAME, own, () if error else (finding,), error)


@dataclass
class Judge:
    """A judge that finds what it is told."""

    series: Judged
    host: Report | None = field(default_factory=lambda: examples.HOST)

    def __call__(self, *_: object, **__: object) -> judge.Judgement:
        return judge.Judgement((self.series,), self.host)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Judge:
    own = Judge(found(Verdict.HOLDS))
    monkeypatch.setattr(judge, "judge", own)
    return own


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (Verdict.HOLDS, 0),
        (Verdict.LEFT_OUT, 0),
        (Verdict.REFUTED, 1),
        (Verdict.ERROR, 3),
        (Verdict.INCONCLUSIVE, 4),
    ],
)
def test_a_verdict_is_printed_recorded_and_the_exit_code(
    judged: Judge, verdict: Verdict, status: int
) -> None:
    judged.series = found(verdict)
    done = lab("run", NAME)
    assert done.return_value == status
    assert f"\n{NAME}: {verdict}\n" in done.output
    folder = run_record.find(BootStore().folder, "last")
    assert run_record.load(folder).series[0].verdict is verdict
    assert f"Report: {folder / 'report.html'}\nRecord: {folder}\n" in done.output
    assert lab("show").output in done.output


@pytest.mark.parametrize("host", [None, examples.HOST])
def test_a_series_that_could_not_be_judged_leaves_a_record_too(
    judged: Judge, host: Report | None
) -> None:
    judged.series, judged.host = found(Verdict.ERROR, "0001.patch does not apply"), host
    done = lab("run", NAME)
    assert done.return_value == 3
    assert "0001.patch does not apply" in done.output
    run = run_record.load(run_record.find(BootStore().folder, "last"))
    assert run.series[0].error == "0001.patch does not apply"
    assert Path(BootStore().folder, "runs", run.id, "report.html").exists()


def test_without_qemu_the_record_says_so(judged: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    judged.series, judged.host = found(Verdict.ERROR, "QEMU is missing"), None
    assert lab("run", NAME).return_value == 3
    host = run_record.load(run_record.find(BootStore().folder, "last")).host
    assert "qemu" in host.qemu
    assert host.engines == ()
