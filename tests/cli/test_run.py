# SPDX-License-Identifier: GPL-2.0-or-later
"""What `lab run` prints, records and exits with, whatever was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import examples
import guests
import pytest
from click.testing import CliRunner, Result

from lab.base.errors import UsageError
from lab.cli import main, run
from lab.inputs import series
from lab.inputs.series import Series
from lab.inputs.terms import Verdict
from lab.judge import judge
from lab.judge.finding import Evidence, Finding
from lab.judge.verdict import Judged
from lab.measure.boot_store import BootStore
from lab.measure.session import Session
from lab.report import record_store

NAME = "bfq_burst_merge"


def lab(*words: str) -> Result:
    return CliRunner().invoke(main.lab, words, catch_exceptions=False, standalone_mode=False)


def judged_as(verdict: Verdict, error: str = "") -> Judged:
    """The series with an expectation found so that has no known miss; with an error nothing of it
    was judged.
    """
    patch_series = series.get(NAME)
    title, claim, expectation = next(
        (title, claim, expectation)
        for title, claim in patch_series.claims.items()
        for expectation in claim.expect
        if expectation.change and not expectation.known_miss
    )
    cell = guests.cell(topology=claim.topology, scheduler=claim.scheduler, work=claim.workload)
    experiment = examples.experiment(expectation, series=NAME, claim=title, cell=cell)
    finding = Finding(
        experiment=experiment,
        evidence=Evidence(((100.0,), (150.0,))),
        verdict=verdict,
        reason="why",
        measured=(100.0, 150.0),
        measured_change=0.5,
    )
    return Judged(patch_series, () if error else (finding,), error)


@dataclass
class Judge:
    """A judge that finds what it is told; it has a testbed unless nothing could be prepared."""

    series: Judged
    checked: bool = True

    def __call__(
        self,
        wanted: Sequence[Series],
        session: Session,
        finished: Callable[[Judged], None],
        **_: object,
    ) -> tuple[Judged, ...]:
        if self.checked:
            session.checked = examples.session().checked
        finished(self.series)
        return (self.series,)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Judge:
    fake_judge = Judge(judged_as(Verdict.HOLDS))
    monkeypatch.setattr(judge, "judge", fake_judge)
    return fake_judge


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (Verdict.HOLDS, 0),
        (Verdict.SKIPPED, 0),
        (Verdict.REFUTED, 1),
        (Verdict.ERROR, 3),
        (Verdict.INCONCLUSIVE, 4),
    ],
)
def test_a_verdict_is_printed_recorded_and_the_exit_code(
    judged: Judge, verdict: Verdict, status: int
) -> None:
    judged.series = judged_as(verdict)
    done = lab("run", NAME)
    assert done.return_value == status
    assert f"\n{NAME}: {verdict}\n" in done.output
    assert f"{NAME}: {verdict}, after " in done.stderr
    folder = record_store.find(BootStore().folder, "last")
    assert record_store.load(folder).series[0].verdict is verdict
    assert f"Report: {folder / 'report.html'}\nRecord: {folder}\n" in done.output
    assert f"{NAME}: {verdict}\n" in lab("show").output


@pytest.mark.parametrize("checked", [False, True])
def test_a_series_that_could_not_be_judged_leaves_a_record_too(
    judged: Judge, checked: bool
) -> None:
    judged.series, judged.checked = judged_as(Verdict.ERROR, "0001.patch does not apply"), checked
    done = lab("run", NAME)
    assert done.return_value == 3
    assert "0001.patch does not apply" in done.output
    run = record_store.load(record_store.find(BootStore().folder, "last"))
    assert run.series[0].error == "0001.patch does not apply"
    assert Path(BootStore().folder, "runs", run.id, "report.html").exists()


def test_without_qemu_the_record_says_so(judged: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    judged.series, judged.checked = judged_as(Verdict.ERROR, "QEMU is missing"), False
    assert lab("run", NAME).return_value == 3
    host = record_store.load(record_store.find(BootStore().folder, "last")).host
    assert "qemu" in host.facts.qemu
    assert host.engines == ()


@pytest.mark.parametrize(("profile_name", "count"), [("quick", 9), ("standard", 0)])
def test_without_a_name_the_series_of_the_profile_are_judged(
    profile_name: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged_names: list[str] = []

    def chosen(wanted: Sequence[Series], _claims: Sequence[str]) -> None:
        judged_names.extend(patch_series.name for patch_series in wanted)
        raise UsageError("enough")

    monkeypatch.setattr(run, "chosen", chosen)
    with pytest.raises(UsageError, match="enough"):
        lab("run", "--profile", profile_name)
    assert set(judged_names) <= set(series.known())
    assert len(judged_names) == (count or len(series.known()))
