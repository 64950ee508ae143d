# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run found at a glance: its series, and a row for each published figure.

The terminal's screen and the head of the page are made from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.inputs.terms import Level, Miss, Verdict
from lab.report import finding
from lab.report.run_record import ClaimRecord, FindingRecord, RunRecord, SeriesRecord

# A known miss in the column of verdicts.
_SHOWN = {Miss.KNOWN: "known miss", Miss.HOLDS: "miss holds!", Miss.MOVED: "miss moved!"}
_SIZES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Row:
    """A figure, or a claim: its name, what was published and measured, and by which evidence.

    claim is the id of the place that has the details. short tells a figure from those above it of
    the same claim; label says it in full.
    """

    claim: str
    label: str
    short: str
    published: str
    measured: str
    verdict: str
    evidence: str
    finding: FindingRecord

    @property
    def state(self) -> Verdict:
        """The verdict itself, whatever is recorded."""
        return self.finding.verdict


def of_claims(one: SeriesRecord, *, each_figure: bool = True) -> list[Row]:
    """The rows of a series' published claims; one for each claim, or one for each figure."""
    return [
        row
        for claim in one.claims
        if not claim.is_check
        for row in (_figures(one, claim) if each_figure else _of_claim(one, claim))
    ]


def of_checks(one: SeriesRecord) -> list[Row]:
    """A row for each of the lab's own checks that was measured."""
    return [row for claim in one.claims if claim.is_check for row in _of_claim(one, claim)]


def outcome(verdict: Verdict, counts_as: Verdict) -> str:
    """The verdict on a series; one that is as recorded says so."""
    if counts_as is verdict:
        return str(verdict)
    if counts_as is Verdict.HOLDS:
        return f"{verdict} as recorded"
    return f"{verdict}, not as recorded"


def checks(one: SeriesRecord) -> str:
    """How many of the lab's own checks of a series hold, of those that were measured."""
    measured = [own for own in one.claims if own.is_check and own.verdict is not Verdict.SKIPPED]
    held = sum(own.verdict is Verdict.HOLDS for own in measured)
    return f"{held} of {len(measured)} checks hold" if measured else ""


def failed_checks(run: RunRecord) -> list[str]:
    """The checks that do not hold, as SERIES.CHECK."""
    return [
        f"{one.name}.{claim.name}"
        for one in run.series
        for claim in one.claims
        if claim.is_check and claim.verdict in (Verdict.REFUTED, Verdict.ERROR)
    ]


def figures(run: RunRecord) -> Iterator[FindingRecord]:
    """The findings of all published claims."""
    for one in run.series:
        for claim in one.claims:
            if not claim.is_check:
                yield from claim.findings


def levels(values: Sequence[float], change: float | None) -> str:
    """Levels and their change, short: ``256k->594k +132%``."""
    shown = "->".join(map(_short, values))
    return f"{shown} {_percent(change)}" if change is not None else shown


def _figures(one: SeriesRecord, claim: ClaimRecord) -> list[Row]:
    """A row for each figure that was measured; for a claim without one, a row in all."""
    measured = [own for own in claim.findings if own.published and own.measured]
    if not measured:
        return _of_claim(one, claim)
    rows: list[Row] = []
    for own in measured:
        apart = _apart(own, claim)
        label = f"{claim.name} {apart}" if apart and len(measured) > 1 else claim.name
        short = f"  {apart}" if rows else claim.name
        rows.append(_row(one, claim, own, label, short))
    return rows


def _of_claim(one: SeriesRecord, claim: ClaimRecord) -> list[Row]:
    """One row for a claim; none where nothing of it was to be measured."""
    decisive = finding.deciding(claim)
    if claim.verdict is Verdict.SKIPPED or decisive is None:
        return []
    return [_row(one, claim, decisive, claim.name, claim.name)]


def _row(
    one: SeriesRecord, claim: ClaimRecord, found: FindingRecord, label: str, short: str
) -> Row:
    return Row(
        claim=f"{one.name}.{claim.name}",
        label=label,
        short=short,
        published=_published(found),
        measured=levels(found.measured, found.measured_change) or found.reason,
        verdict=_SHOWN[found.miss] if found.miss else str(found.verdict),
        evidence=_evidence(found),
        finding=found,
    )


def _apart(found: FindingRecord, claim: ClaimRecord) -> str:
    """What tells a figure from the others of its claim."""
    shown = [own for own in claim.findings if own.published and own.measured]
    others = [own.conditions for own in shown]
    told = [
        f"{name}={value}"
        for name, value in found.conditions.items()
        if name != "cpus" and any(own.get(name) != value for own in others)
    ]
    if len({own.metric for own in shown}) > 1:
        told.insert(0, found.metric)
    if len({own.arms for own in shown}) > 1:
        told.append("->".join(found.arms))
    return " ".join(told) or found.machine


def _published(found: FindingRecord) -> str:
    figure = found.published
    if figure is None:
        return "-"
    return levels(figure.levels, figure.single_change) if figure.levels else figure.text


def _percent(change: float) -> str:
    if change >= 10:
        return f"x{1 + change:.3g}"
    digits = 0 if abs(change) >= 0.1 else 1 if abs(change) >= 0.01 else 2
    return f"{100 * change:+.{digits}f}%"


def _short(value: float) -> str:
    """A number with three significant digits and the unit prefix of its size."""
    for size, prefix in _SIZES:
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.3g}{prefix}"
    return f"{value:.3g}"


def _evidence(found: FindingRecord) -> str:
    """What the evidence is, in a word."""
    words = {Level.MECHANISM: "counts", Level.COST: "exact", Level.WALL: str(found.engine)}
    return found.machine or words.get(found.level, str(found.level))
