# SPDX-License-Identifier: GPL-2.0-or-later
"""The A/A control: a change is called as often as the statistics promise, and no more."""

from __future__ import annotations

from pathlib import Path

import guests as fakes
import numpy as np
import pytest
from guests import FakeSession, Guests

from lab.base.errors import GuestError, LabError
from lab.base.stats import paired
from lab.inputs import profile
from lab.inputs.terms import Engine
from lab.measure.job import Job
from lab.report import tables
from tools import control
from tools.control import CellRepetition, Comparison

CELL = fakes.planned(fakes.cell())


def comparison(before: list[float], after: list[float]) -> Comparison:
    return Comparison(CELL, ("a1", "a2"), paired(before, after))


def test_equal_boots_call_nothing_and_another_kernel_is_called() -> None:
    assert not comparison([1.0, 2.0] * 4, [1.0, 2.0] * 4).called(0.05)
    assert comparison([1.0] * 8, [1.1] * 8).called(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [6, 8, 12])
def test_noise_is_called_a_change_at_the_nominal_rate(rounds: int) -> None:
    """2,000 comparisons of equal, noisy boots; four standard errors of a rate of 5 % are 2 %."""
    random = np.random.default_rng(rounds)
    calls = 0
    for _ in range(2000):
        before, after = np.exp(random.normal(10, 0.2, (2, rounds)))
        calls += comparison(list(before), list(after)).called(0.05)
    assert calls / 2000 <= 0.05 + 0.02


def test_the_cells_are_all_schedulers_on_disks_in_the_guest() -> None:
    cells = control.cells(profile.get("quick"), Engine.TCG, 5)
    assert len(cells) == 5
    assert len({planned.cell.scheduler for planned in cells}) == 4
    assert {planned.cell.topology for planned in cells} <= {"nullb", "nullb_mq"}


def test_the_hosts_noise_is_nothing_that_was_measured_of_a_guest() -> None:
    values = {"kernel_insns_per_io": 4902.1, "iops": 7.0, "host_steal": 1.5, "measured_share": 3.1}
    assert control.values_of_guest(values) == {"kernel_insns_per_io": 4902.1, "iops": 7.0}


def test_the_report_counts_what_was_called() -> None:
    same = comparison([1.0, 2.0] * 4, [1.0, 2.0] * 4)
    changed = comparison([1.0] * 8, [1.1] * 8)
    repeated = [
        CellRepetition(CELL, True),
        CellRepetition(CELL, False),
        CellRepetition(CELL, False, "BUG: x"),
    ]
    text = tables.text(control.table_of_names([same, changed, same, same], repeated, 0.05))
    said = " ".join(text.split())
    assert "1 of 4 comparisons called a change: a rate of 0.6 to 80.6 %; nominal 5 %" in said
    assert "1 of 2 cells differ when repeated" in text
    assert "failed: BUG: x" in text
    assert "nothing was compared" in tables.text(control.table_of_names([], [], 0.05))


@pytest.fixture
def session() -> FakeSession:
    return FakeSession(profile.get("quick"), engines=(Engine.KVM, Engine.EXACT))


def test_a_deterministic_guest_that_fails_is_reported_and_the_others_are_measured(
    session: FakeSession, guests: Guests
) -> None:
    guests.answers = {0: GuestError("panic", "BUG: x", where="console.log")}
    guests.says = lambda job: {"iops": 7.0}
    failed, *repeated = control.repeat_exact_cells(session, 3)
    assert (failed.equal, failed.failure) == (False, "BUG: x (console.log)")
    assert [(repetition.equal, repetition.failure) for repetition in repeated] == [(True, "")] * 2
    text = tables.text(control.table_of_names([], [failed, *repeated], 0.05))
    assert "0 of 2 cells differ when repeated" in text
    assert "failed: BUG: x" in text


def test_a_cell_that_differs_when_repeated_is_told(session: FakeSession, guests: Guests) -> None:
    guests.answers = {0: {"iops": 7.0}, 1: {"iops": 7.0}, 2: {"iops": 7.0}, 3: {"iops": 8.0}}
    assert [repetition.equal for repetition in control.repeat_exact_cells(session, 2)] == [
        True,
        False,
    ]


@pytest.mark.slow
def test_every_name_is_compared_with_every_other(session: FakeSession, guests: Guests) -> None:
    guests.says = lambda job: {"iops": 100.0}
    comparisons = control.compare_by_wall_clock(session, Engine.KVM, 2, 3)
    assert [comparison.arms for comparison in comparisons] == [
        ("a1", "a2"),
        ("a1", "a3"),
        ("a2", "a3"),
    ] * 2
    assert {comparison.pairs.pairs for comparison in comparisons} == {session.profile.rounds}
    assert not any(comparison.called(0.05) for comparison in comparisons)
    assert len({job.task.kernel.id for job in guests.booted}) == 1


def test_rounds_before_a_failure_are_compared_all_the_same(
    session: FakeSession, guests: Guests
) -> None:
    # Two rounds, then three in a row that fail; the next cell fails at once.
    guests.answers = {n: GuestError("panic", "BUG: x") for n in (5, 6, 8)}
    guests.answers |= {n: GuestError("panic", "BUG: y") for n in (10, 12, 14)}
    comparisons = control.compare_by_wall_clock(session, Engine.KVM, 2, 2)
    assert [comparison.pairs.pairs for comparison in comparisons] == [2]
    assert "only 2 rounds: BUG: x" in session.said
    assert "only 0 rounds: BUG: y" in session.said


def test_every_seed_is_compared_with_every_other_and_with_the_same_of_a_patched_kernel(
    guests: Guests, tmp_path: Path
) -> None:
    session = FakeSession(profile.get("quick"), engines=(Engine.SIM,))
    (tmp_path / "moved.patch").touch()

    def says(job: Job) -> dict[str, float]:
        moved = "moved" in job.task.kernel.id
        return {"iops": 100.0 + job.cell.seed / 100 + (20.0 if moved else 0.0)}

    guests.says = says
    comparisons = control.compare_simulated(session, 2, 3, [tmp_path / "moved.patch"])
    stock = [comparison for comparison in comparisons if comparison.kernels == ("stock", "stock")]
    moved = [
        comparison for comparison in comparisons if comparison.kernels == ("stock", "moved.patch")
    ]
    assert (len(stock), len(moved)) == (2 * 3, 2 * 3)
    assert not any(comparison.called for comparison in stock)
    assert all(comparison.called for comparison in moved)
    assert moved[0].change == pytest.approx(120.01 / 100.01 - 1)
    text = tables.text(control.table_of_seeds(comparisons))
    assert "stock: 0 of 6 comparisons called a change" in text
    assert "moved.patch: 6 of 6 comparisons called a change" in text


def test_a_simulated_guest_that_fails_ends_the_control(guests: Guests) -> None:
    session = FakeSession(profile.get("quick"), engines=(Engine.SIM,))
    guests.answers = {0: GuestError("panic", "BUG: x")}
    with pytest.raises(LabError, match="failed: BUG: x"):
        control.compare_simulated(session, 1, 2)
