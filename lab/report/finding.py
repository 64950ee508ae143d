# SPDX-License-Identifier: GPL-2.0-or-later
"""A finding in words: the parts that every output puts together in its own way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lab.base.stats import SEED_COUNTS
from lab.base.text import number, percent
from lab.inputs.terms import Level, Miss, Verdict
from lab.inputs.workload import Value
from lab.report.run_record import ClaimRecord, FindingRecord, SeriesRecord

ARROW = " -> "
# So many options are named that differ in the configuration.
_OPTIONS = 12
# What decides a claim, the more telling first.
_LEVELS = (Level.WALL, Level.SIMULATED, Level.COST, Level.MECHANISM)


@dataclass(frozen=True)
class Parts:
    """What is said of a finding; a part of which there is nothing to say is empty.

    certainty is what tells how sure the change is: chance, boots. reason is why
    the verdict is what it is, where the measured values do not say that it holds.
    """

    verdict: Verdict
    evidence: str
    subject: str
    published: str
    known_miss: str
    expected: str
    because: str
    means: str
    unit: str
    change: str
    certainty: tuple[str, ...]
    reason: str

    @property
    def values(self) -> str:
        """The measured means with their unit."""
        return f"{self.means} {self.unit}".strip() if self.means else ""

    @property
    def measured(self) -> str:
        """Values, change and certainty on one line; empty where nothing was measured."""
        return ", ".join(filter(None, (self.values, self.change, *self.certainty)))


def parts(found: FindingRecord, arrow: str = ARROW) -> Parts:
    """The parts of a finding; arrow stands between its arms and between their values."""
    subject = ", ".join((found.metric, *map(_condition, found.conditions.items())))
    return Parts(
        verdict=found.verdict,
        evidence=f"{found.level} ({found.executed})",
        subject=subject,
        published=_published(found),
        known_miss=_known_miss(found),
        expected=f"{arrow.join(found.arms)} {found.bound}",
        because=found.because,
        means=arrow.join(map(number, found.measured)),
        unit=found.unit if found.measured else "",
        change=_change(found) if found.measured else "",
        certainty=_certainty(found) if found.measured else (),
        reason="" if found.verdict is Verdict.HOLDS and found.measured else found.reason,
    )


def configuration(own: SeriesRecord) -> str:
    """What the patches of a series change in the configuration of its kernels; empty if nothing."""
    return "; ".join(
        f"the kernel's configuration differs, too ({folder}): {options(changed)}"
        for folder, changed in own.configuration.items()
    )


def options(changed: Sequence[str]) -> str:
    """Options that differ, the first of them by name."""
    more = f" and {len(changed) - _OPTIONS} more" if len(changed) > _OPTIONS else ""
    return ", ".join(changed[:_OPTIONS]) + more


def verdict(claim: ClaimRecord) -> str:
    """The verdict on a claim; one that holds says what it holds by, when that is not all, and one
    that is missed as it is recorded says so.
    """
    misses = {found.miss for found in claim.findings if found.miss}
    if outdated := sorted(state for state in misses if state.outdated):
        return f"{claim.verdict} ({outdated[0]})"
    if misses and claim.counts_as is Verdict.HOLDS:
        return f"{claim.verdict} ({Miss.KNOWN})"
    judged = sum(found.verdict is not Verdict.SKIPPED for found in claim.findings)
    if claim.verdict is not Verdict.HOLDS or judged == len(claim.findings):
        return str(claim.verdict)
    return f"{claim.verdict} ({judged} of {len(claim.findings)} expectations)"


def whose(claim: ClaimRecord) -> str:
    """Who says what a claim says: somebody published it, or the lab supposes it."""
    if claim.is_check:
        return "Check of the lab's own"
    return f"Published ({claim.source})" if claim.source else "Published"


def deciding(claim: ClaimRecord) -> FindingRecord | None:
    """The finding with the claim's verdict that says most: wall clock before cost before counts."""
    own = [found for found in claim.findings if found.verdict is claim.verdict]
    own.sort(key=lambda f: (not f.measured, f.measured_change is None, _LEVELS.index(f.level)))
    return own[0] if own else None


def _published(found: FindingRecord) -> str:
    """The published figure and its machine, and how its change fits to what was measured.

    A simulated change is as uncertain as what a cache-line transfer costs.
    """
    figure = found.published
    if figure is None:
        return ""
    shown = f"{figure.text} ({figure.machine})" if figure.machine else figure.text
    change = figure.single_change
    if change is None or found.interval is None or not found.measured:
        return shown
    low, high = found.interval
    sizes = [
        -1.0 if low is None else low,
        math.inf if high is None else high,
        *found.sensitivity.values(),
    ]
    if min(sizes) <= change <= max(sizes):
        return f"{shown}: consistent with the published change"
    more = found.measured_change is not None and abs(found.measured_change) > abs(change)
    if found.measured_change is not None and found.measured_change * change < 0:
        return f"{shown}: the opposite was measured"
    return f"{shown}: {'above' if more else 'below'} the published change was measured"


def _known_miss(found: FindingRecord) -> str:
    """What is recorded of an expectation that does not hold, and what to do when that is wrong."""
    known = found.known_miss
    if known is None or found.miss is None:
        return ""
    told = f"recorded {known.date} as {known.measured}: {known.reason}"
    advice = {
        Miss.KNOWN: "",
        Miss.HOLDS: "; it holds now: remove known_miss from series.toml",
        Miss.MOVED: "; what is measured lies outside: find out why, then record it anew",
    }
    return f"{told}{advice[found.miss]}"


def _condition(condition: tuple[str, Value]) -> str:
    name, value = condition
    return f"{value} vCPUs" if name == "cpus" else f"{name}={value}"


def _change(found: FindingRecord) -> str:
    """The change in per cent, with its interval where that is of several boots."""
    if found.measured_change is None:
        return ""
    shown = percent(found.measured_change, exact=not found.timed)
    few = min(map(len, found.values)) < SEED_COUNTS[0]
    if found.interval is None or (few and not found.timed):
        return shown
    low, high = found.interval
    if low is None or high is None:
        return f"{shown} [too few rounds for an interval]"
    return f"{shown} [{100 * low:+z,.1f}, {100 * high:+z,.1f}]"


def _certainty(found: FindingRecord) -> tuple[str, ...]:
    boots = max(map(len, found.values), default=0)
    return (
        *((f"p {found.p:.3f}",) if found.p is not None else ()),
        f"{boots} boot{'s' if boots > 1 else ''} an arm",
        *((_rejected(found.rejected),) if found.rejected else ()),
        *((f"transfers {_sensitivity(found)}",) if found.sensitivity else ()),
    )


def _sensitivity(found: FindingRecord) -> str:
    """What would be with other costs of moving a cache line: ``x0.5 +45.1 %, x2 +84.0 %``."""
    return ", ".join(
        f"x{factor} {percent(value, exact=True) if found.bound.is_change else number(value)}"
        for factor, value in found.sensitivity.items()
    )


def _rejected(rounds: int) -> str:
    return f"{rounds} round{'s' if rounds > 1 else ''} rejected"
