# SPDX-License-Identifier: GPL-2.0-or-later
"""What was judged becomes a record: every number, every boot, each cell once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import examples
import guests
import pytest
from examples import KERNEL
from pages import page

from lab.base.errors import GuestError
from lab.inputs.bounds import Bound
from lab.inputs.claims import Expectation
from lab.inputs.terms import Level
from lab.judge import verdict
from lab.judge.finding import Evidence
from lab.judge.verdict import Judged
from lab.measure.boot_store import BootStore, Provenance
from lab.measure.cell import Task
from lab.measure.runner import Outcome
from lab.measure.sampling import Sample
from lab.report.run_builder import RunBuilder
from lab.report.run_record import RunRecord


@pytest.fixture
def store(tmp_path: Path) -> BootStore:
    return BootStore(tmp_path)


def boot(
    store: BootStore, task: Task, value: float, metric: str = "iops", round_id: str = ""
) -> str:
    identity = store.new_boot()
    sample = Sample({metric: value}, {"release": "6.12"}, {})
    origin = Provenance("k", f"kernel-{task.arm}", "q", "h", round_id)
    store.add(identity, task, origin, 1.0, sample)
    return identity


def counted(store: BootStore, identity: str, cost: str, moved: str = "") -> None:
    """Write what a boot cost by function, and the lines that it moved."""
    folder = store.boot_folder(identity)
    folder.mkdir(parents=True)
    (folder / "cost.tsv").write_text(f"[user]\t5.0\n{cost}")
    if moved:
        (folder / "lines.tsv").write_text(moved)


def judged(store: BootStore, level: Level = Level.WALL, rounds: int = 8, **more: Any) -> Judged:
    """A series with one claim, 40 % more in so many rounds; more has fields of the evidence."""
    metric = "kernel_insns_per_io" if level is Level.COST else "iops"
    machine: dict[str, Any] = {"machine": "xeon16"} if level is Level.SIMULATED else {}
    expectation = Expectation(
        metric=metric,
        change=Bound(0.2, None, "%"),
        because="half",
        published=examples.figure("+40%"),
        **machine,
    )
    experiment = examples.experiment(expectation, claim="faster", level=level)
    values = ((100.0,) * rounds, (140.0,) * rounds)
    boots = tuple(
        tuple(
            boot(store, Task(cell=side.cell, kernel=KERNEL, arm=side.arm), value, metric, f"t{n}")
            for n, value in enumerate(side_values)
        )
        for side, side_values in zip(experiment.sides, values, strict=True)
    )
    claim = examples.claimed(expectation)
    findings = verdict.judge([(experiment, Evidence(values, boots=boots, **more))], 0.05)
    return Judged(examples.judged_series({"faster": claim}), tuple(findings))


def twice(judged_series: Judged) -> Judged:
    return Judged(judged_series.series, judged_series.findings * 2)


def made(store: BootStore, judged_series: Judged) -> RunRecord:
    return RunBuilder(examples.session(store), "title").judged([judged_series])


def test_a_finding_keeps_what_was_measured_and_where(store: BootStore) -> None:
    run = made(store, judged(store, rejected=3))
    (finding,) = run.series[0].claims[0].findings
    assert finding.verdict == "HOLDS"
    assert finding.values == ((100.0,) * 8, (140.0,) * 8)
    assert finding.measured_change == pytest.approx(0.4)
    assert finding.rejected == 3
    before, after = (run.cells[place] for place in finding.cells)
    assert (before.arm, after.arm) == ("before", "after")
    assert after.values() == (140.0,) * 8
    assert {record.kernel for record in after.boots} == {"kernel-after"}
    assert [record.round for record in after.boots] == [f"t{n}" for n in range(8)]
    assert after.facts == {"release": "6.12"}
    assert run.series[0].verdict == "HOLDS"
    assert not run.host.engines[0].works


def test_a_cell_that_two_findings_share_stands_once(store: BootStore) -> None:
    assert len(made(store, twice(judged(store))).cells) == 2


def test_the_cost_by_function_is_kept_where_it_was_counted(store: BootStore) -> None:
    judged_series = judged(store, Level.COST)
    for arm, insns in zip(judged_series.findings[0].evidence.boots, (10.0, 25.0), strict=True):
        counted(store, arm[-1], f"submit_bio\t{insns}\nsame\t7.0\n")
    (cost,) = made(store, judged_series).costs
    assert cost.claim == "own.faster"
    assert cost.functions == (("submit_bio", 10.0, 25.0),)
    assert cost.totals == (17.0, 32.0)


def test_what_is_simulated_is_kept_with_its_machine_and_the_lines_that_move(
    store: BootStore,
) -> None:
    variants = dict.fromkeys(("transfers x0.5", "transfers x2"), ((100.0,), (130.0,)))
    judged_series = judged(store, Level.SIMULATED, rounds=1, variants=variants)
    boots = judged_series.findings[0].evidence.boots
    for (identity,), waited in zip(boots, (10.0, 25.0), strict=True):
        moved = f"ffffffff82000040\tplanted\tsubmit_bio\t{waited}\n"
        counted(store, identity, f"submit_bio\t{waited}\n", moved)
    run = made(store, twice(judged_series))
    kept, _ = run.series[0].claims[0].findings
    assert kept.machine == run.cells[0].machine == "xeon16"
    assert kept.sensitivity == pytest.approx({"transfers x0.5": 0.3, "transfers x2": 0.3})
    (cost,) = run.costs  # once for both findings
    assert (cost.unit, cost.functions) == ("ns", (("submit_bio", 10.0, 25.0),))
    assert [[(line.place, line.by) for line in arm_lines] for arm_lines in cost.lines] == [
        [("planted", {"submit_bio": 10.0})],
        [("planted", {"submit_bio": 25.0})],
    ]
    text = page(run).words
    assert "by function, ns, sim xeon16" in text
    assert "planted" in text
    assert "simulated (sim xeon16)" in text
    assert "transfers x0.5 +30.0 %, x2 +30.0 %" in text


def test_a_series_that_could_not_be_judged_says_why(store: BootStore) -> None:
    judged_series = judged(store)
    run = made(store, Judged(judged_series.series, (), "patch 2 does not apply"))
    assert run.series[0].verdict == "ERROR"
    assert run.series[0].error == "patch 2 does not apply"
    assert run.series[0].claims == ()


def test_a_matrix_is_recorded_with_its_failures(store: BootStore) -> None:
    task = Task(cell=guests.cell(), kernel=KERNEL)
    boot(store, task, 5.0)
    failed = Outcome(task, (), GuestError("panic", "BUG"))
    fine = Outcome(task, tuple(store.finished("k")))
    run = RunBuilder(examples.session(store), "title").measured([fine, failed])
    assert [cell.values() for cell in run.cells] == [(5.0,), ()]
    assert "BUG" in run.cells[1].error


def test_what_is_compared_without_a_claim_is_kept_by_function(store: BootStore) -> None:
    sides = []
    for arm, insns in (("before", 10.0), ("after", 25.0)):
        task = Task(cell=guests.cell(), kernel=KERNEL, arm=arm)
        identity = boot(store, task, insns)
        counted(store, identity, f"submit_bio\t{insns}\n")
        sides.append(Outcome(task, (store.boots([identity])[identity],)))
    failed = Outcome(sides[1].task, (), GuestError("panic", "BUG"))
    before, after = sides
    run = RunBuilder(examples.session(store), "title").measured(
        [*sides, failed], compared=[(before, after), (before, failed)]
    )
    (difference,) = run.costs
    assert (difference.claim, difference.cells) == ("", (0, 1))
    assert difference.arms == ("before", "after")
    assert difference.functions == (("submit_bio", 10.0, 25.0),)
    assert len(run.cells) == 3


def test_a_metric_that_a_boot_lacks_has_no_history(store: BootStore) -> None:
    identity = boot(store, Task(cell=guests.cell(), kernel=KERNEL), 5.0)
    assert store.history(identity, "absent") == []
