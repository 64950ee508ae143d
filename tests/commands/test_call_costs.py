# SPDX-License-Identifier: GPL-2.0-or-later
"""Who calls a function, in two measurements."""

from __future__ import annotations

import pytest

from lab.base.errors import UsageError
from lab.commands import call_costs
from lab.measure.call_tree import CallTree, Node

ARMS = ("before", "after")
BEFORE = CallTree(
    {1: Node(0, "entry", 5.0, 1.0), 2: Node(1, "submit", 30.0, 1.0), 3: Node(2, "alloc", 10.0, 2.0)}
)
AFTER = CallTree(
    {
        1: Node(0, "entry", 5.0, 1.0),
        2: Node(1, "submit", 31.0, 1.0),
        3: Node(2, "alloc", 5.0, 1.0),
        4: Node(1, "batch", 2.0, 0.125),
        5: Node(4, "alloc", 3.0, 0.5),
    }
)


def test_callers_stand_with_calls_and_costs_of_both_sides_and_their_sum() -> None:
    callers, callees = call_costs.of_function(ARMS, [BEFORE, AFTER], "alloc", 20)
    assert callers.rows == (
        ("submit", "2.000", "1.000", "10.00", "5.00", "-5.00"),
        ("batch", "0.000", "0.500", "0.00", "3.00", "+3.00"),
    )
    assert callers.totals == (("all", "2.000", "1.500", "10.00", "8.00", "-2.00"),)
    assert callees.rows == (("itself", "0.000", "0.000", "10.00", "8.00", "-2.00"),)


def test_what_begins_in_the_kernel_has_no_caller() -> None:
    callers, callees = call_costs.of_function(ARMS, [BEFORE, AFTER], "entry", 20)
    assert callers.rows == (("(entry of the kernel)", "1.000", "1.000", "45.00", "46.00", "+1.00"),)
    assert [row[0] for row in callees.rows] == ["submit", "batch", "itself"]


def test_rows_that_are_not_shown_are_added_up() -> None:
    callers, _ = call_costs.of_function(ARMS, [BEFORE, AFTER], "alloc", 1)
    assert callers.rows[1] == ("1 more", "0.000", "0.500", "0.00", "3.00", "+3.00")


def test_a_function_that_nothing_executes_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="no I/O executes 'allok'") as refused:
        call_costs.of_function(ARMS, [BEFORE, AFTER], "allok", 20)
    assert "alloc" in refused.value.hint
