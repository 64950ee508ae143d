# SPDX-License-Identifier: GPL-2.0-or-later
"""Two kernels on the exact engine: what is a change, what is chance, and what is asked again."""

from __future__ import annotations

import itertools

import guests as fakes
import pytest
from guests import FakeSession, Guests

from lab.commands import cost_diff
from lab.commands.cost_diff import CHANGED, CellChange, Threshold
from lab.inputs import profile
from lab.inputs.terms import Engine, Verdict
from lab.measure.cost import Cost

CELL = fakes.planned(fakes.cell("nullb_mq", "none", engine=Engine.EXACT, cpus=1))
REST = {f"f{number}": 10.0 for number in range(300)}


@pytest.fixture
def session(guests: Guests) -> FakeSession:
    return FakeSession(profile.get("quick"))


def measured(session: FakeSession, threshold: Threshold = CHANGED) -> CellChange:
    kernels = fakes.kernel("old"), fakes.kernel("new")
    (change,) = cost_diff.measure(session, kernels, [CELL], threshold)
    return change


def two_valued(guests: Guests, more: float) -> None:
    """A function whose work is one of two; another that costs more on the new kernel."""
    modes = itertools.cycle((152.0, 158.0, 158.0, 152.0, 152.0))

    def cost_of(kernel: str) -> Cost:
        cost = 100.0 + more * (kernel == "new")
        return fakes.insns(sbitmap_get=next(modes), bio_init=cost, **REST)

    guests.cost_of = cost_of


def test_what_a_function_surely_costs_more_is_a_change_whatever_hides_it(
    session: FakeSession, guests: Guests
) -> None:
    two_valued(guests, more=10.0)
    change = measured(session)
    assert change.finding.verdict is Verdict.REFUTED
    assert "functions that surely differ add up to +0.3" in change.finding.reason
    assert [row.function for row in change.functions if row.sure] == ["bio_init"]


@pytest.mark.parametrize("more", [0.0, 1.0])
def test_what_is_less_than_a_change_is_none(
    session: FakeSession, guests: Guests, more: float
) -> None:
    two_valued(guests, more)
    assert measured(session).finding.verdict is not Verdict.REFUTED


def test_a_saving_is_a_change_only_where_it_is_asked_for(
    session: FakeSession, guests: Guests
) -> None:
    two_valued(guests, more=-10.0)
    assert measured(session).finding.verdict is Verdict.REFUTED
    assert measured(session, Threshold(0.001, 6)).finding.verdict is Verdict.HOLDS


def test_a_change_is_asked_again_with_other_seeds(session: FakeSession, guests: Guests) -> None:
    new = itertools.chain([1050.0] * 3, itertools.repeat(1000.0))
    guests.cost_of = lambda kernel: fakes.insns(
        submit_bio=1000.0 if kernel == "old" else next(new), **REST
    )
    change = measured(session)
    assert change.finding.verdict is Verdict.HOLDS
    assert change.finding.reason == "+1.25 % and +0.00 %, with some seeds and with others"
    seeds = {(job.task.kernel.id, job.cell.seed) for job in guests.booted}
    assert seeds == {(kernel, seed) for kernel in ("old", "new") for seed in (1, 2, 3, 7, 8, 9)}


def test_what_is_equal_takes_one_boot_of_each(session: FakeSession, guests: Guests) -> None:
    guests.cost_of = lambda kernel: fakes.insns(submit_bio=1000.0)
    change = measured(session)
    assert (change.equal, change.change, change.finding.verdict) == (True, 0.0, Verdict.HOLDS)
    assert change.finding.reason == "equal to the last digit"
    assert len(guests.booted) == 2


@pytest.mark.parametrize("least", [0.0, 1e-7, 1e-5, 0.1])
def test_any_threshold_can_be_written_as_a_bound(
    session: FakeSession, guests: Guests, least: float
) -> None:
    two_valued(guests, more=10.0)
    change = measured(session, Threshold(least, 6, savings=True))
    assert change.finding.verdict is (Verdict.HOLDS if least == 0.1 else Verdict.REFUTED)
