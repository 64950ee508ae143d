# SPDX-License-Identifier: GPL-2.0-or-later
"""What was published beside what was measured: one line for each figure of a run's series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lab.inputs.terms import Verdict
from lab.report import finding, tables
from lab.report.run_record import ClaimRecord, FindingRecord, RunRecord, SeriesRecord, TableRecord

_DECIDED = (Verdict.HOLDS, Verdict.REFUTED)
_COLUMNS = ("series", "claim", "published", "measured", "evidence", "verdict")


def published(run: RunRecord) -> str:
    """A Markdown table of the published figures, with a line that counts the verdicts.

    A figure that is skipped on this host but judged by another engine is not shown twice. The
    arms are before -> after where nothing else is said.
    """
    rows = [row for series in run.series for row in _rows(series)]
    if not rows:
        return "no expectation of this run carries a published figure\n"
    table = TableRecord(
        title="", columns=tables.texts(*_COLUMNS), rows=tuple(rows), notes=(_count(run),)
    )
    return "\n".join(tables.markdown(table)) + "\n"


def _rows(series: SeriesRecord) -> Iterator[tuple[str, ...]]:
    for claim in series.claims:
        for found in _figures(claim):
            told = finding.parts(found)
            compared = "" if found.arms == ("before", "after") else finding.ARROW.join(found.arms)
            name = ", ".join(filter(None, (claim.name, told.subject, compared)))
            measured = ", ".join(filter(None, (told.values, told.change))) or told.reason
            yield series.name, name, _text(found), measured, told.evidence, _verdict(found)


def _text(found: FindingRecord) -> str:
    return found.published.text if found.published else ""


def _verdict(found: FindingRecord) -> str:
    known = f", {found.miss}" if found.miss else ""
    return f"{found.verdict}{known}"


def _figures(claim: ClaimRecord) -> list[FindingRecord]:
    figures = [found for found in claim.findings if found.published]
    judged = {
        (found.metric, found.arms, _text(found))
        for found in figures
        if found.verdict is not Verdict.SKIPPED
    }
    return [
        found
        for found in figures
        if found.verdict is not Verdict.SKIPPED
        or (found.metric, found.arms, _text(found)) not in judged
    ]


def _count(run: RunRecord) -> str:
    verdicts = Counter(
        found.verdict
        for series in run.series
        for claim in series.claims
        for found in _figures(claim)
    )
    decided = sum(verdicts[verdict] for verdict in _DECIDED)
    parts = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())
    return f"{decided} of {verdicts.total()} published figures are decided: {parts}."
