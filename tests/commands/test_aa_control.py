# SPDX-License-Identifier: GPL-2.0-or-later
"""The A/A control: a change is called as often as the statistics promise, and no more."""

from __future__ import annotations

import guests as fakes
import numpy as np
import pytest

from lab.base.stats import paired
from lab.commands import aa_control, result_tables
from lab.commands.aa_control import Comparison, Repetition
from lab.inputs import profile
from lab.inputs.terms import Engine
from lab.report import tables

CELL = fakes.planned(fakes.cell())


def comparison(before: list[float], after: list[float]) -> Comparison:
    return Comparison(CELL, ("a1", "a2"), paired(before, after))


def test_equal_boots_call_nothing_and_another_kernel_is_called() -> None:
    assert not comparison([1.0, 2.0] * 4, [1.0, 2.0] * 4).called(0.05)
    assert comparison([1.0] * 8, [1.1] * 8).called(0.05)


@pytest.mark.parametrize("rounds", [6, 8, 12])
def test_noise_is_called_a_change_at_the_nominal_rate(rounds: int) -> None:
    """2,000 comparisons of equal, noisy boots; four standard errors of a rate of 5 % are 2 %."""
    random = np.random.default_rng(rounds)
    calls = 0
    for _ in range(2000):
        one, other = np.exp(random.normal(10, 0.2, (2, rounds)))
        calls += comparison(list(one), list(other)).called(0.05)
    assert calls / 2000 <= 0.05 + 0.02


def test_the_cells_are_all_schedulers_on_disks_in_the_guest() -> None:
    found = aa_control.cells(profile.get("quick"), Engine.TCG, 5)
    assert len(found) == 5
    assert len({one.cell.scheduler for one in found}) == 4
    assert {one.cell.topology for one in found} <= {"nullb", "nullb_mq"}


def test_the_hosts_noise_is_nothing_that_was_measured_of_a_guest() -> None:
    values = {"kernel_insns_per_io": 4902.1, "iops": 7.0, "host_steal": 1.5, "measured_share": 3.1}
    assert aa_control.measured(values) == {"kernel_insns_per_io": 4902.1, "iops": 7.0}


def test_the_report_counts_what_was_called() -> None:
    same = comparison([1.0, 2.0] * 4, [1.0, 2.0] * 4)
    other = comparison([1.0] * 8, [1.1] * 8)
    repeated = [Repetition(CELL, True), Repetition(CELL, False), Repetition(CELL, False, "BUG: x")]
    text = tables.text(result_tables.of_control([same, other, same, same], repeated, 0.05))
    assert "1 of 4 comparisons called a change (25.0 %, nominal 5 %)" in text
    assert "1 of 2 cells differ when repeated" in text
    assert "failed: BUG: x" in text
    assert "0 of 0 comparisons" in tables.text(result_tables.of_control([], [], 0.05))
