# SPDX-License-Identifier: GPL-2.0-or-later
"""The gate: red for a regression, green for noise, and a memory of what was good."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from examples import HOST

from lab.base.errors import BuildError, GuestError, LabError, UsageError
from lab.base.progress import Progress
from lab.build import source
from lab.cli import nightly
from lab.commands import cost_diff, gate
from lab.commands.cost_diff import CellChange
from lab.commands.gate import Tools
from lab.commands.gate_history import GateHistory
from lab.inputs import profile
from lab.inputs.terms import Engine
from lab.measure import session
from lab.measure.boot_store import BootStore, Provenance
from lab.measure.cell import Cell
from lab.measure.cost import Change
from lab.measure.runner import Outcome
from lab.measure.sampling import Sample
from lab.report import exports, run_builder, tables

CELL = Cell("nullb_mq", "none", "randread_burst", (("numjobs", 10),), Engine.ICOUNT, 1)
CONFIG = 'threshold = "0.3%"\n[branches.next]\nsource = "git:/linux@next"\n'


class Lab:
    """A gate whose kernels cost what it is told: by state of the branch."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = BootStore(folder)
        self.history = GateHistory(self.store.folder)
        self.state = "c0"
        self.costs: dict[str, float | BaseException] = {"c0": 1000.0}
        self.config = folder / "gate.toml"
        self.config.write_text(CONFIG)
        monkeypatch.setattr(source, "resolve", self._resolve)
        monkeypatch.setattr(session, "prepare_kernel", self._kernel)
        monkeypatch.setattr(cost_diff, "measure", self._measure)

    def gate_run(self, state: str, cost: float | BaseException) -> gate.Result:
        """A gate_run on which the branch is at state, whose kernel costs so much."""
        self.state, self.costs[state] = state, cost
        quick = profile.get("quick")
        made = run_builder.RunBuilder(self.store, quick, HOST, "gate")
        testbed: Any = SimpleNamespace(host=HOST)
        own = gate.read(self.config)
        tools = Tools(own, quick, self.store, self.history, made, testbed, Progress())
        (result,) = gate.judge(tools)
        run = made.run(0.0, (result.series,))
        gate.remember([result], run.id, self.history)
        self.text = tables.text(nightly._table([result])) + exports.markdown(run)
        return result

    def _resolve(self, spec: str, progress: Progress) -> Any:
        return SimpleNamespace(version=self.state, tree=f"tree-{self.state}")

    def _kernel(self, spec: str, *rest: object) -> Any:
        state = spec.rpartition("@")[2]
        found = self.costs[state]
        if isinstance(found, LabError) and not isinstance(found, GuestError):
            raise found
        return SimpleNamespace(id=state)

    def _measure(
        self, testbed: object, kernels: tuple[Any, Any], cells: Sequence[Cell], *rest: object
    ) -> list[CellChange]:
        before, after = (self._outcome(kernel.id) for kernel in kernels)
        values = [outcome.value(cost_diff.METRIC) or 0.0 for outcome in (before, after)]
        functions = (Change("submit_bio", values[0], values[1]),)
        return [CellChange(CELL, before, after, functions)]

    def _outcome(self, state: str) -> Outcome:
        cost = self.costs[state]
        if isinstance(cost, GuestError):
            return Outcome(CELL, (), cost)
        assert isinstance(cost, float)
        if not self.store.finished(state):
            sample = Sample({cost_diff.METRIC: cost}, {cost_diff.METRIC: "?"}, {}, {})
            origin = Provenance(state, state, "q", "h")
            self.store.add(self.store.new_boot(), CELL, origin, 1.0, sample)
        return Outcome(CELL, tuple(self.store.finished(state)))


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(tmp_path, monkeypatch)


def test_nights_without_a_change_are_green_and_equal(lab: Lab) -> None:
    for _ in range(30):
        found = lab.gate_run("c0", 1000.0)
        assert not found.red
        assert set(found.changes.values()) == {0.0}
    assert len(lab.history.gate_runs("next")) == 30


def test_a_regression_is_red_and_names_the_function(lab: Lab) -> None:
    lab.gate_run("c0", 1000.0)
    found = lab.gate_run("c1", 1005.0)
    assert found.red
    assert "submit_bio +5.0" in lab.text
    assert "RED" in lab.text
    assert lab.history.gate_runs("next")[-1].reason.startswith("dearer: nullb_mq/none/")


@pytest.mark.parametrize(
    ("cost", "shown"), [(1002.9, "+0.29 %"), (997.0, "-0.30 %"), (500.0, "-50.0 %")]
)
def test_less_than_the_threshold_and_savings_are_green_and_shown(
    lab: Lab, cost: float, shown: str
) -> None:
    lab.gate_run("c0", 1000.0)
    assert not lab.gate_run("c1", cost).red
    assert shown in lab.text


def test_a_red_night_does_not_move_the_baseline(lab: Lab) -> None:
    lab.gate_run("c0", 1000.0)
    lab.gate_run("c1", 1100.0)
    assert lab.gate_run("c2", 1100.0).red  # still, though nothing got worse since yesterday
    assert not lab.gate_run("c3", 1001.0).red
    assert lab.history.last_good("next") == "git:/linux@c3"


def test_small_steps_add_up_against_a_fixed_baseline(lab: Lab) -> None:
    lab.config.write_text(CONFIG + 'baseline = "git:/linux@c0"\n')
    verdicts = [lab.gate_run(f"c{n}", 1000.0 + n).red for n in range(6)]
    assert verdicts == [False, False, False, False, True, True]


def test_accepting_moves_the_baseline_and_keeps_the_reason(lab: Lab) -> None:
    lab.gate_run("c0", 1000.0)
    assert lab.gate_run("c1", 1100.0).red
    own = gate.read(lab.config)
    assert gate.accept(own, "next", "worth it", lab.history, Progress()) == "git:/linux@c1"
    assert not lab.gate_run("c2", 1101.0).red
    assert "worth it" in {gate_run.reason for gate_run in lab.history.gate_runs("next")}
    with pytest.raises(UsageError, match="did you mean 'next'"):
        gate.accept(own, "nxt", "x", lab.history, Progress())


def test_a_noisy_history_widens_the_threshold_of_its_cell(lab: Lab) -> None:
    """Good states that differ by 0.2 % up and down: 0.4 % more is not news, 2 % are."""
    cost = 1000.0
    for number in range(8):
        cost += 2.5 if number % 2 else -2.5
        assert not lab.gate_run(f"c{number}", cost).red
    assert not lab.gate_run("d0", cost + 5.0).red
    assert lab.gate_run("d1", cost + 25.0).red


def test_a_kernel_that_breaks_is_red(lab: Lab) -> None:
    lab.gate_run("c0", 1000.0)
    found = lab.gate_run("c1", GuestError("panic", "BUG: null pointer"))
    assert found.red
    assert "BUG: null pointer" in lab.text


def test_a_branch_that_does_not_build_is_red_and_the_lab_failing_is_not(lab: Lab) -> None:
    lab.gate_run("c0", 1000.0)
    assert lab.gate_run("c1", BuildError("blk-mq.c:1: expected ;")).red
    broken = lab.gate_run("c2", LabError("the disk is full"))
    assert not broken.red
    assert broken.series.verdict == "ERROR"
    assert "the disk is full" in lab.text
    assert lab.history.last_good("next") == "git:/linux@c0"
    assert len(lab.history.gate_runs("next")) == 1


@pytest.mark.parametrize("failure", [GuestError("panic", "BUG"), BuildError("expected ;")])
def test_a_broken_baseline_is_the_labs_error(lab: Lab, failure: LabError) -> None:
    lab.config.write_text(CONFIG + 'baseline = "git:/linux@c0"\n')
    lab.costs["c0"] = failure
    found = lab.gate_run("c1", 1000.0)
    assert found.series.verdict == "ERROR"
    assert not found.red


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (CONFIG.replace("threshold", "treshold"), "threshold"),
        (CONFIG.replace("0.3%", "0.3"), "0.25%"),
        ('threshold = "1%"\n', "branches"),
        (CONFIG.replace("source", "sorce"), "source"),
    ],
)
def test_a_wrong_configuration_says_what_is_wrong(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "gate.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=complaint):
        gate.read(path)


def test_a_night_that_is_cut_off_leaves_nothing(lab: Lab) -> None:
    with pytest.raises(sqlite3.Error):
        lab.history.add("next", "git:/linux@c0", "r", "", {"cell": object()})  # type: ignore[dict-item]
    assert lab.history.gate_runs("next") == []
