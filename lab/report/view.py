# SPDX-License-Identifier: GPL-2.0-or-later
"""A record in words, made once: the rows that the terminal, Markdown, mails and the page show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from lab.base.stats import SEED_COUNTS
from lab.base.text import number, percent
from lab.inputs.terms import Level, Miss, Verdict
from lab.report.run_record import ClaimRecord, FindingRecord, RunRecord, SeriesRecord

ARROW = " -> "
# So many options are named that differ in the configuration.
_OPTIONS = 12
# What decides a claim, the more telling first, and each in a word.
_LEVELS = (Level.WALL, Level.SIMULATED, Level.COST, Level.MECHANISM)
_EVIDENCE = {Level.MECHANISM: "counts", Level.COST: "exact", Level.SIMULATED: "simulated"}
# A known miss in a column of verdicts, and what to do about it.
_MISSES = {Miss.KNOWN: "known miss", Miss.HOLDS: "miss holds!", Miss.MOVED: "miss moved!"}
_ADVICE = {
    Miss.KNOWN: "",
    Miss.HOLDS: "; it holds now: remove known_miss from series.toml",
    Miss.MOVED: "; what is measured lies outside: find out why, then record it anew",
}
_SIZES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class FindingView:
    """What is said of a finding; a part of which there is nothing to say is empty.

    certainty is what tells how sure the change is: chance, boots. reason is why
    the verdict is what it is, where the measured values do not say that it holds.
    """

    record: FindingRecord
    evidence: str
    subject: str
    published: str
    known_miss: str
    expected: str
    means: str
    change: str
    certainty: tuple[str, ...]
    reason: str

    @property
    def values(self) -> str:
        """The measured means with their unit."""
        return f"{self.means} {self.record.unit}".strip() if self.means else ""

    @property
    def measured(self) -> str:
        """Values, change and certainty on one line; empty where nothing was measured."""
        return ", ".join(filter(None, (self.values, self.change, *self.certainty)))

    @property
    def rows(self) -> dict[str, str]:
        """All there is to say, by label: published, known miss, expected, measured, because."""
        said = {
            "published": self.published,
            "known miss": self.known_miss,
            "expected": f"{self.expected}: {self.record.because}",
            "measured": self.measured,
            "because": self.reason,
        }
        return {label: text for label, text in said.items() if text}


@dataclass(frozen=True)
class FigureView:
    """A published figure, or a claim, in one row: what was published and measured, by what.

    claim is the id of the place that has the details. short tells a figure from those above it of
    the same claim; label says it in full.
    """

    claim: str
    label: str
    short: str
    finding: FindingRecord

    @property
    def published(self) -> str:
        """The published levels and change, short; a dash where nothing was published."""
        figure = self.finding.published
        if figure is None or not figure.levels:
            return figure.text if figure else "-"
        return levels(figure.levels, figure.single_change)

    @property
    def measured(self) -> str:
        """The measured levels and change, short; else why there are none."""
        finding = self.finding
        return levels(finding.measured, finding.measured_change) or finding.reason

    @property
    def verdict(self) -> str:
        """The verdict, or what became of a known miss."""
        return _MISSES[self.finding.miss] if self.finding.miss else str(self.finding.verdict)

    @property
    def evidence(self) -> str:
        """What the evidence is, in a word."""
        return self.finding.machine or _EVIDENCE.get(self.finding.level, str(self.finding.engine))


@dataclass(frozen=True)
class ClaimView:
    """A claim, its verdict with what qualifies it, and who says what."""

    record: ClaimRecord
    verdict: str
    statement: str
    findings: tuple[FindingView, ...]


@dataclass(frozen=True)
class SeriesView:
    """A series with its claims in words; configuration is what its patches change of that."""

    record: SeriesRecord
    arrow: str = ARROW

    @property
    def outcome(self) -> str:
        """The verdict; one that is as recorded says so."""
        return outcome(self.record.verdict, self.record.counts_as)

    @property
    def configuration(self) -> str:
        """What the patches change in the configuration of the kernels; empty if nothing."""
        return "; ".join(
            f"the kernel's configuration differs, too ({folder}): {options(changed)}"
            for folder, changed in self.record.configuration.items()
        )

    @property
    def checks(self) -> str:
        """How many of the lab's own checks hold, of those that were measured."""
        verdicts = [claim.verdict for claim in self.record.claims if claim.is_check]
        measured = [verdict for verdict in verdicts if verdict is not Verdict.SKIPPED]
        held = measured.count(Verdict.HOLDS)
        return f"{held} of {len(measured)} checks hold" if measured else ""

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts that a filter shows the series for."""
        return sorted({claim.verdict for claim in self.record.claims} or {self.record.verdict})

    @cached_property
    def claims(self) -> tuple[ClaimView, ...]:
        """All claims with all that was found of them."""
        return tuple(of_claim(claim, self.arrow) for claim in self.record.claims)

    def figures(self, *, each: bool = True, checks: bool = False) -> list[FigureView]:
        """A row for each published figure, or for each claim; or for each check."""
        return [
            row
            for claim in self.record.claims
            if claim.is_check is checks
            for row in _figures(self.record, claim, each=each and not checks)
        ]


def of_run(run: RunRecord, arrow: str = ARROW) -> list[SeriesView]:
    """The series of a run in words; arrow stands between arms and between their values."""
    return [SeriesView(record, arrow) for record in run.series]


def of_claim(claim: ClaimRecord, arrow: str = ARROW) -> ClaimView:
    """A claim in words."""
    published = f"Published ({claim.source})" if claim.source else "Published"
    whose = "Check of the lab's own" if claim.is_check else published
    return ClaimView(
        claim,
        verdict(claim),
        f"{whose}: {claim.statement}",
        tuple(of_finding(finding, arrow) for finding in claim.findings),
    )


def of_finding(finding: FindingRecord, arrow: str = ARROW) -> FindingView:
    """A finding in words."""
    conditions = (
        f"{value} vCPUs" if name == "cpus" else f"{name}={value}"
        for name, value in finding.conditions.items()
    )
    known, miss = finding.known_miss, finding.miss
    recorded = f"recorded {known.date} as {known.measured}: {known.reason}" if known else ""
    return FindingView(
        record=finding,
        evidence=f"{finding.level} ({finding.executed})",
        subject=", ".join((finding.metric, *conditions)),
        published=_published(finding),
        known_miss=f"{recorded}{_ADVICE[miss]}" if miss else "",
        expected=f"{arrow.join(finding.arms)} {finding.bound}",
        means=arrow.join(map(number, finding.measured)),
        change=_change(finding) if finding.measured else "",
        certainty=tuple(_certainty(finding)) if finding.measured else (),
        reason="" if finding.verdict is Verdict.HOLDS and finding.measured else finding.reason,
    )


def options(changed: Sequence[str]) -> str:
    """Options that differ, the first of them by name."""
    more = f" and {len(changed) - _OPTIONS} more" if len(changed) > _OPTIONS else ""
    return ", ".join(changed[:_OPTIONS]) + more


def outcome(verdict: Verdict, counts_as: Verdict) -> str:
    """The verdict on a series; one that is as recorded says so."""
    if counts_as is verdict:
        return str(verdict)
    recorded = " as recorded" if counts_as is Verdict.HOLDS else ", not as recorded"
    return f"{verdict}{recorded}"


def verdict(claim: ClaimRecord) -> str:
    """The verdict on a claim; one that holds says what it holds by, when that is not all, and one
    that is missed as it is recorded says so.
    """
    misses = {finding.miss for finding in claim.findings if finding.miss}
    if outdated := sorted(miss for miss in misses if miss.outdated):
        return f"{claim.verdict} ({outdated[0]})"
    if misses and claim.counts_as is Verdict.HOLDS:
        return f"{claim.verdict} ({Miss.KNOWN})"
    judged = sum(finding.verdict is not Verdict.SKIPPED for finding in claim.findings)
    if claim.verdict is not Verdict.HOLDS or judged == len(claim.findings):
        return str(claim.verdict)
    return f"{claim.verdict} ({judged} of {len(claim.findings)} expectations)"


def deciding(claim: ClaimRecord) -> FindingRecord | None:
    """The finding with the claim's verdict that says most: wall clock before cost before counts."""
    return min(
        (finding for finding in claim.findings if finding.verdict is claim.verdict),
        key=lambda f: (not f.measured, f.measured_change is None, _LEVELS.index(f.level)),
        default=None,
    )


def failed_checks(run: RunRecord) -> list[str]:
    """The checks that do not hold, as SERIES.CHECK."""
    bad = (Verdict.REFUTED, Verdict.ERROR)
    return [f"{s.name}.{c.name}" for s, c in run.claims if c.is_check and c.verdict in bad]


def findings(run: RunRecord, *, checks: bool = True) -> Iterator[FindingRecord]:
    """The findings of all claims, and of the checks unless they are not wanted."""
    for _, claim in run.claims:
        if checks or not claim.is_check:
            yield from claim.findings


def levels(values: Sequence[float], change: float | None) -> str:
    """Levels and their change, short: ``256k->594k +132%``."""
    shown = "->".join(map(_short, values))
    if change is None:
        return shown
    if change >= 10:
        return f"{shown} x{1 + change:.3g}"
    digits = 0 if abs(change) >= 0.1 else 1 if abs(change) >= 0.01 else 2
    return f"{shown} {100 * change:+.{digits}f}%"


def counted(count: int, what: str) -> str:
    """A number of things: ``1 boot``, ``2 boots``."""
    return f"{count} {what}{'s' * (count != 1)}"


def _figures(series: SeriesRecord, claim: ClaimRecord, *, each: bool) -> Iterator[FigureView]:
    """A row for each figure that was measured; else one for the claim, unless it was skipped."""
    measured = [finding for finding in claim.findings if finding.published and finding.measured]
    name = f"{series.name}.{claim.name}"
    if each and measured:
        for place, finding in enumerate(measured):
            apart = _apart(finding, measured)
            label = f"{claim.name} {apart}" if apart and len(measured) > 1 else claim.name
            yield FigureView(name, label, f"  {apart}" if place else claim.name, finding)
    elif claim.verdict is not Verdict.SKIPPED and (decisive := deciding(claim)):
        yield FigureView(name, claim.name, claim.name, decisive)


def _apart(finding: FindingRecord, shown: Sequence[FindingRecord]) -> str:
    """What tells a figure from the others of its claim."""
    differences = [finding.metric] if len({figure.metric for figure in shown}) > 1 else []
    differences += [
        f"{name}={value}"
        for name, value in finding.conditions.items()
        if name != "cpus" and any(figure.conditions.get(name) != value for figure in shown)
    ]
    if len({figure.arms for figure in shown}) > 1:
        differences.append("->".join(finding.arms))
    return " ".join(differences) or finding.machine


def _published(finding: FindingRecord) -> str:
    """The published figure and its machine, and how its change fits to what was measured.

    A simulated change is as uncertain as what a cache-line transfer costs.
    """
    figure = finding.published
    if figure is None:
        return ""
    shown = f"{figure.text} ({figure.machine})" if figure.machine else figure.text
    change, measured = figure.single_change, finding.measured_change
    if change is None or finding.interval is None or not finding.measured:
        return shown
    low, high = finding.interval
    ends = (-1.0 if low is None else low, math.inf if high is None else high)
    sizes = (*ends, *finding.sensitivity.values())
    if min(sizes) <= change <= max(sizes):
        return f"{shown}; the measured change is consistent with it"
    if measured is not None and measured * change < 0:
        return f"{shown}; the measured change has the opposite sign"
    side = "above" if measured is not None and measured > change else "below"
    return f"{shown}; the measured change is {side} the published figure"


def _change(finding: FindingRecord) -> str:
    """The change in per cent, with its interval where that is of several boots."""
    if finding.measured_change is None:
        return ""
    shown = percent(finding.measured_change, exact=not finding.timed)
    few = min(map(len, finding.values)) < SEED_COUNTS[0]
    if finding.interval is None or (few and not finding.timed):
        return shown
    low, high = finding.interval
    if low is None or high is None:
        return f"{shown} [too few rounds for an interval]"
    return f"{shown} [{100 * low:+z,.1f}, {100 * high:+z,.1f}]"


def _certainty(finding: FindingRecord) -> Iterator[str]:
    """What tells how sure a change is: chance, boots, rounds, other costs of moving a line."""
    if finding.p is not None:
        yield f"p {finding.p:.3f}"
    yield f"{counted(max(map(len, finding.values), default=0), 'boot')} an arm"
    if finding.unchanged:
        yield f"equal code: none of {finding.unchanged:,} executed functions differs"
    if finding.rejected:
        yield f"{counted(finding.rejected, 'round')} rejected"
    if finding.sensitivity:
        yield ", ".join(_sensitivity(finding))


def _sensitivity(finding: FindingRecord) -> Iterator[str]:
    """The change, or the value, with each of the other costs: what is scaled stands once."""
    last = ""
    for costs, value in finding.sensitivity.items():
        scaled, factor = costs.split()
        shown = percent(value, exact=True) if finding.bound.is_change else number(value)
        yield f"{factor if scaled == last else costs} {shown}"
        last = scaled


def _short(value: float) -> str:
    """A number with three significant digits and the unit prefix of its size."""
    for size, prefix in _SIZES:
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.3g}{prefix}"
    return f"{value:.3g}"
