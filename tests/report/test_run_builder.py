# SPDX-License-Identifier: GPL-2.0-or-later
"""What was judged becomes a record: every number, every boot, each cell once."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples import HOST

from lab.inputs import profile
from lab.inputs.series import Arm, Claim, Expectation, Series
from lab.inputs.terms import Engine, Level
from lab.judge import verdict
from lab.judge.experiment import Experiment
from lab.judge.verdict import Evidence, Judged
from lab.measure.boot_store import BootStore, Provenance
from lab.measure.cell import Cell
from lab.measure.runner import Outcome
from lab.measure.sampling import Sample
from lab.report import run_builder
from lab.report.run_record import Run

QUICK = profile.get("quick")
ARMS = {"before": Arm(patches="base"), "after": Arm(patches="series")}


@pytest.fixture
def store(tmp_path: Path) -> BootStore:
    return BootStore(tmp_path)


def boot(store: BootStore, own: Cell, value: float, metric: str = "iops", round: str = "") -> str:
    identity = store.new_boot()
    sample = Sample({metric: value}, {metric: "?"}, {"release": "6.12"}, {})
    store.add(identity, own, Provenance("k", f"kernel-{own.arm}", "q", "h", round), 1.0, sample)
    return identity


def judged(store: BootStore, costs: bool = False) -> Judged:
    engine = Engine.ICOUNT if costs else Engine.TCG
    metric = "kernel_insns_per_io" if costs else "iops"
    cells = tuple(
        Cell("nullb", "bfq", "randread_burst", (("numjobs", 10),), engine, arm=arm)
        for arm in ("before", "after")
    )
    values = ((100.0,) * 8, (140.0,) * 8)
    boots = tuple(
        tuple(boot(store, cell, value, metric, f"t{n}") for n, value in enumerate(own))
        for cell, own in zip(cells, values, strict=True)
    )
    asked = Expectation(metric=metric, change=">= +20%", because="half", published="+40 %")
    level = Level.COST if costs else Level.WALL
    experiment = Experiment("own", "faster", asked, "nullb", level, engine, cells)
    evidence = Evidence(values, 3, boots=boots)
    claim = Claim(
        published="p", topology="nullb", scheduler="bfq", workload="randread_burst", expect=(asked,)
    )
    found = verdict.judge([(experiment, evidence)], [ARMS], 0.05)
    return Judged("own", Series(title="t", origin="o", claims={"faster": claim}), tuple(found))


def made(store: BootStore, one: Judged) -> Run:
    return run_builder.RunBuilder(store, QUICK, HOST, "title").judged([one], 1000.0)


def test_a_finding_keeps_what_was_measured_and_where(store: BootStore) -> None:
    run = made(store, judged(store))
    ((finding,),) = ([c.findings for c in run.series[0].claims],)
    (found,) = finding
    assert found.verdict == "HOLDS"
    assert found.values == ((100.0,) * 8, (140.0,) * 8)
    assert found.change == pytest.approx(0.4)
    assert found.rejected == 3
    before, after = (run.cells[place] for place in found.cells)
    assert (before.arm, after.arm) == ("before", "after")
    assert after.values() == (140.0,) * 8
    assert {own.kernel for own in after.boots} == {"kernel-after"}
    assert [own.round for own in after.boots] == [f"t{n}" for n in range(8)]
    assert after.facts == {"release": "6.12"}
    assert run.series[0].verdict == "HOLDS"
    assert not run.host.engines[0].works


def test_a_cell_that_two_findings_share_stands_once(store: BootStore) -> None:
    one = judged(store)
    twice = Judged(one.name, one.series, one.findings * 2)
    assert len(made(store, twice).cells) == 2


def test_the_cost_by_function_is_kept_where_it_was_counted(store: BootStore) -> None:
    one = judged(store, costs=True)
    for arm, insns in zip(one.findings[0].evidence.boots, (10.0, 25.0), strict=True):
        folder = store.boot_folder(arm[-1])
        folder.mkdir(parents=True)
        (folder / "cost.tsv").write_text(f"[user]\t5.0\nsubmit_bio\t{insns}\nsame\t7.0\n")
    (cost,) = made(store, one).costs
    assert cost.claim == "own.faster"
    assert cost.functions == (("submit_bio", 10.0, 25.0),)
    assert cost.totals == (17.0, 32.0)


def test_a_series_that_could_not_be_judged_says_why(store: BootStore) -> None:
    one = judged(store)
    run = made(store, Judged("own", one.series, (), "patch 2 does not apply"))
    assert run.series[0].verdict == "ERROR"
    assert run.series[0].error == "patch 2 does not apply"
    assert run.series[0].claims == ()


def test_a_matrix_is_recorded_with_its_failures(store: BootStore) -> None:
    own = Cell("nullb", "bfq", "randread_burst", (("numjobs", 10),), Engine.TCG)
    boot(store, own, 5.0)
    from lab.base.errors import GuestError

    failed = Outcome(own, (), GuestError("panic", "BUG"))
    fine = Outcome(own, tuple(store.finished("k")))
    run = run_builder.RunBuilder(store, QUICK, HOST, "title").measured([fine, failed], 1000.0)
    assert [cell.values() for cell in run.cells] == [(5.0,), ()]
    assert "BUG" in run.cells[1].error


def test_the_history_of_a_cell_spans_kernels(store: BootStore) -> None:
    own = Cell("nullb", "bfq", "randread_burst", (("numjobs", 10),), Engine.TCG, arm="after")
    other = Cell("nullb", "none", "randread_burst", (("numjobs", 10),), Engine.TCG, arm="after")
    boot(store, other, 1.0)
    first, second = boot(store, own, 5.0), boot(store, own, 6.0)
    assert [value for _, _, value in store.history(first, "iops")] == [5.0, 6.0]
    assert store.history(second, "absent") == []
