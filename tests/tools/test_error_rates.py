# SPDX-License-Identifier: GPL-2.0-or-later
"""How often the rule for rounds errs, on made-up noise."""

from __future__ import annotations

import math

import pytest

from tools import error_rates

ALPHA = 0.05
RUNS = 150
# The mean of what fits the promise, and what a count of runs may be off by chance: 4 deviations.
MOST = RUNS * ALPHA / 2 + 4 * math.sqrt(RUNS * ALPHA / 2)


@pytest.mark.slow
def test_symmetric_noise_errs_no_more_often_than_promised_and_large_effects_are_found() -> None:
    rates = {(row.noise, row.truth): row for row in error_rates.simulate(RUNS, 24, ALPHA)}
    assert len(rates) == 6 * len(error_rates.TRUTHS)
    for noise in ("normal", "heavy tails"):
        at_bound = rates[noise, 0.5]
        assert at_bound.holds <= MOST
        assert at_bound.refuted <= MOST
        for truth, which in ((0.0, "refuted"), (1.0, "holds"), (2.0, "holds")):
            row = rates[noise, truth]
            assert getattr(row, which) >= 0.95 * RUNS
            assert row.rounds < 10
    # What the rule cannot know of: the documentation says by how much it errs then.
    assert rates["two modes", 0.5].holds > MOST


def test_equal_seeds_make_equal_runs() -> None:
    assert [*error_rates.simulate(2, 8, ALPHA)] == [*error_rates.simulate(2, 8, ALPHA)]


def test_the_table_has_the_share_of_runs_by_verdict() -> None:
    rates = [error_rates.Rates("normal", 0.5, 200, 3, 1, 15.25)]
    table = error_rates.table(rates, ALPHA)
    assert table.rows == (("normal", "+18.3 %", "1.5 %", "0.5 %", "15.2"),)
    assert "at most 2.5 % of runs" in table.notes[0]
