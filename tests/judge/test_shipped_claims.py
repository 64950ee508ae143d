# SPDX-License-Identifier: GPL-2.0-or-later
"""The claims of the project's own series: each can hold, and each can be refuted."""

from __future__ import annotations

import math

import guests
import pytest

from lab.base.stats import Interval
from lab.inputs import profile, series
from lab.inputs.terms import Engine, Verdict
from lab.judge import verdict
from lab.judge.experiment import Experiment
from lab.judge.experiment import experiments as experiments_of
from lab.judge.finding import Evidence

STANDARD = profile.get("standard")
# A host that has all that an expectation may ask for.
EVERYTHING = guests.report(*Engine, cpus=128)
# Far beyond any bound, as a factor.
FAR = 30.0


def planned_experiments(name: str) -> list[Experiment]:
    """All expectations of a series that the profile does not leave out."""
    patch_series = series.get(name)
    experiments = experiments_of(patch_series, STANDARD, EVERYTHING, host_time=True)
    return [experiment for experiment in experiments if not experiment.skipped]


def inside(bound: Interval) -> float:
    """A change, or a value, well within a bound."""
    if math.isinf(bound.low):
        return bound.high - (1 + bound.high) / 2 if bound.high > -1 else bound.high
    if math.isinf(bound.high):
        return bound.low + (1 + bound.low) * 2
    return (bound.low + bound.high) / 2


def outside(bound: Interval) -> float:
    """One far beyond."""
    if math.isfinite(bound.high):
        return (1 + abs(bound.high)) * FAR
    return (1 + bound.low) / FAR - 1


def evidence(experiment: Experiment, seen: float) -> Evidence:
    """As many boots as decide, all alike; the first arm is as it was published."""
    boots = experiment.rounds if experiment.timed else experiment.seed_counts[-1]
    if experiment.expectation.value:
        return Evidence(((max(seen, 0.0),) * boots,))
    published = experiment.expectation.published
    level = (published.before if published else None) or 100.0
    values = ((level,) * boots, (level * max(1 + seen, 1e-9),) * boots)
    scaled = experiment.sides[0].cell.variants
    return Evidence(values, variants=dict.fromkeys(scaled, values))


@pytest.mark.parametrize("name", series.known())
def test_every_expectation_can_hold_and_can_be_refuted(name: str) -> None:
    experiments = planned_experiments(name)
    assert experiments
    for experiment in experiments:
        bound = experiment.expectation.bound.interval
        for seen, expected in ((inside(bound), Verdict.HOLDS), (outside(bound), Verdict.REFUTED)):
            (judged,) = verdict.judge([(experiment, evidence(experiment, seen))], STANDARD.alpha)
            where = experiment.claim, experiment.expectation.metric, bound, seen
            assert judged.verdict is expected, (where, judged.reason)


def test_nothing_is_claimed_that_no_machine_can_answer() -> None:
    assert not [
        (name, experiment.claim)
        for name in series.known()
        for experiment in planned_experiments(name)
        if experiment.lacking
    ]
