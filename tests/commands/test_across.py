# SPDX-License-Identifier: GPL-2.0-or-later
"""One cell on several kernels: totals, the functions that differ, and kernels that fail."""

from __future__ import annotations

import guests as fakes
import pytest
from command_line import invoke
from guests import FakeSession, Guests

from lab.base.errors import GuestError, UsageError
from lab.commands import across
from lab.inputs import profile
from lab.inputs.terms import Engine
from lab.measure.cell import PlannedCell
from lab.measure.cost import Cost

SPECS = ("git:linux@old", "git:linux@middle", "git:linux@new")
COSTS = {
    "old": {"submit_bio": 100.0, "bfq_merge": 50.0, "tiny": 0.2},
    "middle": {"submit_bio": 100.0, "bfq_merge": 50.0, "bfq_merge.cold": 30.0, "tiny": 0.4},
    "new": {"submit_bio": 90.0, "added": 10.0, "tiny": 0.1},
}


@pytest.fixture
def session(guests: Guests) -> FakeSession:
    guests.cost_of = lambda kernel: Cost(0.0, COSTS[kernel])
    return FakeSession(profile.get("quick"), engines=(Engine.EXACT,))


def cells(*schedulers: str) -> list[PlannedCell]:
    return [fakes.planned(fakes.cell(scheduler=name, engine=Engine.EXACT)) for name in schedulers]


def test_totals_are_by_scheduler_and_kernel(session: FakeSession) -> None:
    measured = across.measure(session, SPECS, cells("none", "bfq"))
    assert [[each.total for each in by_kernel] for by_kernel in measured] == [
        pytest.approx([150.2, 180.4, 100.1])
    ] * 2
    totals, *_ = across.tables(measured, 9)
    assert [row[0] for row in totals.rows] == ["none", "bfq"]
    assert totals.rows[0][-1] == "-33.4 %"
    assert totals.curves
    assert totals.curves.labels == SPECS  # all have one release here


def test_functions_are_ordered_by_their_largest_step(session: FakeSession) -> None:
    measured = across.measure(session, SPECS, cells("bfq"))
    _, functions = across.tables(measured, 9)
    assert functions.title == "By function: bfq"
    assert [row[0] for row in functions.rows] == ["bfq_merge", "added", "submit_bio"]
    assert functions.rows[0][1:] == ("50.0", "80.0", "-")
    assert functions.totals[0][1:] == ("0.2", "0.4", "0.1")
    (_, only_one) = across.tables(measured, 1)
    assert len(only_one.rows) == 1


def test_a_kernel_whose_guest_failed_leaves_a_gap(session: FakeSession, guests: Guests) -> None:
    guests.answers = {1: GuestError("panic", "BUG: x")}
    measured = across.measure(session, SPECS, cells("bfq"))
    totals, functions = across.tables(measured, 9)
    assert sum(each.total is None for each in measured[0]) == 1
    assert "failed" in totals.rows[0]
    assert "BUG: x" in totals.notes[0]
    assert len(functions.columns) == 3


@pytest.mark.parametrize("times", [0, 1, 2])
def test_one_kernel_is_nothing_to_compare(times: int) -> None:
    with pytest.raises(UsageError, match="compared with nothing"):
        invoke("across", *["debian:6.12"] * times)
