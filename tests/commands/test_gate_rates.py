# SPDX-License-Identifier: GPL-2.0-or-later
"""How often the gate errs, on made-up nights whose noise is that of real seeds."""

from __future__ import annotations

import random

import guests as fakes
import pytest

from lab.base.stats import SEED_COUNTS
from lab.commands import cost_diff, gate
from lab.inputs.bounds import Bound
from lab.inputs.terms import Engine, Verdict
from lab.judge import verdict
from lab.judge.finding import Evidence

CELL = fakes.planned(fakes.cell("nullb_mq", engine=Engine.EXACT))
THRESHOLD, ALPHA = cost_diff.Threshold(0.0025, seeds=gate._SEEDS), 0.05
# Standard deviations of the block layer's instructions over seeds, as they were measured
# (docs/notes/2026-11-verdicts.md): null_blk, megasas, raid64 with streams and with the rest.
SPREADS = (0.00002, 0.0001, 0.0003, 0.0006, 0.0026, 0.012)
# What another layout of the same code makes: the same for every seed of a kernel.
LAYOUT = 0.0002


class Nights:
    """A gate's cell: seeds of a baseline and of a branch, judged as the gate does."""

    def __init__(self, spread: float, seed: int = 1, outliers: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.spread, self.outliers = spread, outliers

    def seed(self, cost: float) -> float:
        """One seed; of some cells one in so many does something else altogether."""
        if self.random.random() < self.outliers:
            return cost * 1.15
        return cost * self.random.gauss(1, self.spread)

    def once(self, change: float, bound: float) -> Verdict:
        """The verdict on seeds that nobody saw before."""
        shift = 1 + change + self.random.gauss(0, LAYOUT)
        seeds = THRESHOLD.seeds
        before = [self.seed(1000.0) for _ in range(seeds)]
        after = [self.seed(1000.0 * shift) for _ in range(seeds)]
        limit, outcome = Bound(None, bound, "%"), Verdict.INCONCLUSIVE
        for count in (n for n in SEED_COUNTS if n <= seeds):
            evidence = Evidence(values=(tuple(before[:count]), tuple(after[:count])))
            experiment = cost_diff.of_block_layer(CELL, limit)
            outcome = verdict.judge([(experiment, evidence)], ALPHA)[0].verdict
            if outcome.decided:
                break
        return outcome

    def night(self, change: float) -> Verdict:
        """The gate's verdict on a branch that changes a cell by so much."""
        known = [[self.seed(1000.0) for _ in range(3)] for _ in range(4)]
        bound = THRESHOLD.widened(known, ALPHA)
        first = self.once(change, bound)
        return self.once(change, bound) if first is Verdict.REFUTED else first


@pytest.mark.slow
@pytest.mark.parametrize("spread", SPREADS)
def test_equal_nights_are_green(spread: float) -> None:
    """100 cells in 250 nights are 25,000: one red is allowed among them, none among 1,000."""
    cell = Nights(spread)
    verdicts = [cell.night(0.0) for _ in range(1000)]
    assert verdicts.count(Verdict.REFUTED) == 0
    assert verdicts.count(Verdict.INCONCLUSIVE) <= 30


@pytest.mark.slow
@pytest.mark.parametrize("spread", [spread for spread in SPREADS if spread < 0.001])
def test_twice_the_threshold_is_red(spread: float) -> None:
    cell = Nights(spread)
    verdicts = [cell.night(2 * THRESHOLD.change) for _ in range(200)]
    assert verdicts.count(Verdict.REFUTED) >= 190
    assert verdicts.count(Verdict.HOLDS) == 0


@pytest.mark.slow
def test_a_cell_with_two_modes_is_open_rather_than_red() -> None:
    cell = Nights(0.005, outliers=1 / 8)
    verdicts = [cell.night(0.0) for _ in range(400)]
    assert verdicts.count(Verdict.REFUTED) == 0
