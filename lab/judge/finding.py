# SPDX-License-Identifier: GPL-2.0-or-later
"""Findings: what was measured for an experiment, and the answer to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.base.stats import Interval
from lab.inputs.terms import Miss, Verdict
from lab.judge.experiment import Experiment
from lab.measure.boot_store import Ends


@dataclass(frozen=True)
class Failure:
    """A guest that failed: of which arm, with or without series/, in which way, what it said."""

    arm: str
    patched: bool
    outcome: str
    what: str


@dataclass(frozen=True)
class Evidence:
    """What was measured for an experiment: values by arm in its order, one a boot.

    The boots of a wall-clock experiment are pairs: equal places belong together. same tells that
    both arms run the same kernel on the same machine. boots are the ids that the values come from.
    variants are the values with other costs of the machine model, if simulated. ends are
    how all boots on record of the patched kernels ended, and of the others. noise is how far the
    ratio of two seeds may be off, a fraction, where boots on record of these cells tell. doubt is
    why the arms cannot be compared, where that is so. rest is what the kernel costs beside the
    block layer, where values are the block layer's. unchanged is how many functions both arms
    executed, where it is proven that none of them differs; else 0.
    """

    values: tuple[tuple[float, ...], ...] = ()
    rejected: int = 0
    failure: Failure | None = None
    same: bool = False
    boots: tuple[tuple[str, ...], ...] = ()
    variants: Mapping[str, tuple[tuple[float, ...], ...]] = field(default_factory=dict)
    ends: tuple[Ends, Ends] = (Ends(), Ends())
    noise: float | None = None
    doubt: str = ""
    rest: tuple[tuple[float, ...], ...] = ()
    unchanged: int = 0


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The answer to an experiment.

    measured is the mean value of each arm; measured_change (a fraction) and interval belong to an
    expectation about a change. For wall clock, p is the chance of what was seen if the verdict
    were wrong, after correction for the number of expectations. sensitivity is the change, or the
    value, with other costs of the machine model, by their names, if simulated. broken tells
    that the patched kernel itself fails, which refutes a series whoever supposed the expectation.
    """

    experiment: Experiment
    evidence: Evidence
    verdict: Verdict
    reason: str
    measured: tuple[float, ...] = ()
    measured_change: float | None = None
    interval: Interval | None = None
    p: float | None = None
    sensitivity: Mapping[str, float] = field(default_factory=dict)
    broken: bool = False

    @property
    def miss(self) -> Miss | None:
        """What became of the expectation's known miss; None without one, or where it cannot tell.

        The interval that was recorded says by how much chance alone moves the number. One that
        reaches into the bound says that the question is open, and then HOLDS is no surprise.
        """
        expectation = self.experiment.expectation
        known = expectation.known_miss
        if known is None or self.broken or self.verdict in (Verdict.ERROR, Verdict.SKIPPED):
            return None
        seen = (
            self.measured_change if expectation.bound.is_change else next(iter(self.measured), None)
        )
        if seen is None:
            return None
        holds = self.verdict is Verdict.HOLDS
        if Interval(seen, seen).within(known.measured.interval):
            return None if holds else Miss.KNOWN
        return Miss.HOLDS if holds else Miss.MOVED

    @property
    def open_as_recorded(self) -> bool:
        """Whether it is a known miss whose recorded interval reaches into the bound."""
        known, bound = self.experiment.expectation.known_miss, self.experiment.expectation.bound
        if known is None or self.miss is not Miss.KNOWN:
            return False
        return not known.measured.interval.apart(bound.interval)

    @property
    def counts_as(self) -> Verdict:
        """The verdict as the exit code counts it: a known miss is as expected, one that holds or
        has moved is not.
        """
        if self.miss is None:
            return self.verdict
        return Verdict.REFUTED if self.miss.outdated else Verdict.HOLDS
