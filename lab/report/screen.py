# SPDX-License-Identifier: GPL-2.0-or-later
"""What was judged on one screen: a table of at most 40 lines within 80 columns, from the record.

A row is a published figure, or a claim where one row for each figure would not fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.base.text import visible
from lab.inputs.terms import Miss, Verdict
from lab.report import overview
from lab.report.run_record import RunRecord, SeriesRecord

WIDTH = 80
LINES = 40
_HEAD = ("claim", "published", "measured", "verdict", "by")
_COLUMNS = (19, 18, 18, 12, 8)


def screen(run: RunRecord) -> str:
    """The verdicts of a run: each series, its published figures beside what was measured."""
    foot = [*_foot(run)]
    for each_figure in (True, False):
        lines = [_line(_HEAD)]
        for one in run.series:
            lines += _series(one, each_figure=each_figure)
        if len(lines) + len(foot) <= LINES:
            break
    return visible("\n".join([*lines, *foot]))


def _series(one: SeriesRecord, *, each_figure: bool) -> list[str]:
    """The lines of a series."""
    checks = f" ({told})" if (told := overview.checks(one)) else ""
    lines = [f"{one.name}: {overview.outcome(one.verdict, one.counts_as)}{checks}"[:WIDTH]]
    if one.error:
        lines.append(f"  {one.error.splitlines()[0]}"[:WIDTH])
    # Where checks alone were asked for they are what there is to show.
    rows = overview.of_claims(one, each_figure=each_figure) or overview.of_checks(one)
    for row in rows:
        lines.append(_line((row.short, row.published, row.measured, row.verdict, row.evidence)))
    return lines


def _line(cells: Sequence[str]) -> str:
    shown = (cell[:width].ljust(width) for cell, width in zip(cells, _COLUMNS, strict=True))
    return f" {' '.join(shown)}".rstrip()


def _foot(run: RunRecord) -> Iterator[str]:
    """What the table does not say: known misses, checks that fail, what was skipped."""
    states = {own.miss for own in overview.figures(run) if own.miss}
    if Miss.KNOWN in states:
        yield "known miss: it does not hold here; series.toml records it, with the reason."
    if any(state.outdated for state in states):
        yield "!: series.toml records another result; `lab show` says what to do."
    if failed := overview.failed_checks(run):
        yield f"Checks that fail: {len(failed)}, such as {failed[0]}."[:WIDTH]
    skipped = sum(own.verdict is Verdict.SKIPPED for own in overview.figures(run))
    if skipped:
        yield f"Skipped: {skipped} expectations that this profile or host does not measure."
    yield "Details: lab show. One claim again: lab run SERIES --claim CLAIM."
