# SPDX-License-Identifier: GPL-2.0-or-later
"""How far seeds of one kernel differ, and where a change is, as the seeds of two arms tell."""

from __future__ import annotations

from collections.abc import Sequence

from lab.base.stats import SEED_COUNTS, Interval, Seeds, paired
from lab.inputs import counters, workload
from lab.inputs.terms import Engine
from lab.judge.experiment import Experiment
from lab.measure import cost

# What the exact engine gives is exact and one seed all the same: other random numbers, or a build
# that places code elsewhere, move requests against each other. So many seeds speak for themselves.
SEEDS = SEED_COUNTS[0]


def change_of(
    before: Sequence[float], after: Sequence[float], bound: Interval, margin: float, alpha: float
) -> Interval:
    """Where the change is, as the seeds of two arms tell, paired in their order.

    Fewer than SEEDS may be off by margin, which is by how much one is at most.
    """
    if len(before) == len(after) >= SEEDS and min(after) > 0:
        ratios = Seeds(paired(before, after).log_ratios)
        return ratios.interval(bound.log_ratios(), alpha).changes()
    # Seeds differ by a part of a value, and so does the ratio of two.
    low, high = min(after) / max(before) / (1 + margin), max(after) / min(before) * (1 + margin)
    return Interval(low - 1, high - 1)


def seed_margin(experiment: Experiment, noise: float | None) -> float:
    """How far one seed may be from another, as a fraction: what boots on record of the very cells
    tell, else what the workload says; nothing for the wall clock, which has rounds.
    """
    if experiment.timed:
        return 0.0
    if noise is not None:
        return noise
    return seed_noise(experiment.workload, experiment.engine, experiment.expectation.metric)


def seed_noise(work: str, engine: Engine, metric: str) -> float:
    """How far seeds of one kernel differ in a workload: what it counts or executes, or its time."""
    noise = workload.noise(work)
    if metric in noise.counted or metric in counters.known():
        return noise.of_counter(metric)
    if engine.simulated:
        return noise.simulated
    return noise.insns if metric in cost.METRICS else noise.time
