# SPDX-License-Identifier: GPL-2.0-or-later
"""The claims of the project's own series: each can hold, and each can be refuted."""

from __future__ import annotations

import math

import guests
import pytest

from lab.base.stats import Interval
from lab.inputs import profile, series
from lab.inputs.terms import Engine, Verdict
from lab.judge import experiment, verdict
from lab.judge.experiment import Experiment
from lab.judge.finding import Evidence

STANDARD = profile.get("standard")
# A host that has all that an expectation may ask for.
EVERYTHING = guests.report(*Engine, cpus=128)
# Far beyond any bound, as a factor.
FAR = 30.0


def asked(name: str) -> list[Experiment]:
    """All expectations of a series that the profile does not leave out."""
    own = series.get(name)
    found = experiment.experiments(own, STANDARD, EVERYTHING, host_time=True)
    return [one for one in found if not one.skipped]


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


def evidence(one: Experiment, seen: float) -> Evidence:
    """As many boots as decide, all alike; the first arm is as it was published."""
    boots = one.rounds if one.timed else one.seed_counts[-1]
    if one.expectation.value:
        return Evidence(((max(seen, 0.0),) * boots,))
    published = one.expectation.published
    level = (published.before if published else None) or 100.0
    values = ((level,) * boots, (level * max(1 + seen, 1e-9),) * boots)
    factors = one.sides[0].cell.variants
    return Evidence(values, variants=dict.fromkeys(factors, values))


@pytest.mark.parametrize("name", series.known())
def test_every_expectation_can_hold_and_can_be_refuted(name: str) -> None:
    experiments = asked(name)
    assert experiments
    for one in experiments:
        bound = one.expectation.bound.interval
        for seen, expected in (
            (inside(bound), Verdict.HOLDS),
            (outside(bound), Verdict.REFUTED),
        ):
            (judged,) = verdict.judge([(one, evidence(one, seen))], STANDARD.alpha)
            where = (one.claim, one.expectation.metric, str(one.expectation.bound), seen)
            assert judged.verdict is expected, (where, judged.reason)


def test_nothing_is_claimed_that_no_machine_can_answer() -> None:
    assert not [(name, one.claim) for name in series.known() for one in asked(name) if one.lacking]
