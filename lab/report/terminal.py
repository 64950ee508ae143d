# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run found as plain text within 80 columns: in full, or on one screen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from lab.base.plain_table import WIDTH
from lab.base.text import visible
from lab.inputs.terms import Miss, Verdict
from lab.report import cell_tables, tables, view
from lab.report.run_record import ClaimRecord, RunRecord, SeriesRecord, TableRecord
from lab.report.view import SeriesView

# The most lines of one screen, and its columns.
LINES = 40
_HEAD = ("claim", "published", "measured", "verdict", "by")
_COLUMNS = (19, 18, 18, 12, 8)
# The column in which begins what the words in front of a finding's lines say.
_SAID = len("      published ")


def text(run: RunRecord) -> str:
    """What the run's command prints: its tables, its verdicts, or its matrix of cells.

    Verdicts are every series with its claims and expectations, then one line a claim.
    """
    if run.tables:
        return visible("\n".join(map(tables.text, run.tables)))
    if run.series:
        return visible("\n".join([*map(series, run.series), summary(run)]))
    skipped = f"Skipped: {run.skips}\n" if run.skips else ""
    shown = cell_tables.tables(run)
    hardware = cell_tables.guests(run)
    if hardware.rows:
        shown.append(hardware)
    return visible(f"{run.title}\n{skipped}" + "\n".join(map(tables.text, shown)))


def screen(run: RunRecord) -> str:
    """Each series with its published figures beside what was measured, in at most 40 lines.

    A row is a published figure, or a claim where one row for each figure would not fit.
    """
    foot = [*_foot(run)]
    for each in (True, False):
        lines = [_line(_HEAD)]
        for series_view in view.of_run(run):
            lines += _screened(series_view, each=each)
        if len(lines) + len(foot) <= LINES:
            break
    return visible("\n".join([*lines, *foot]))


def summary(run: RunRecord) -> str:
    """One line a claim."""
    rows = []
    for series_view in view.of_run(run):
        name = series_view.record.name
        if series_view.record.error:
            rows.append((name, "-", str(series_view.record.verdict)))
        rows += [(name, claim.record.name, claim.verdict) for claim in series_view.claims]
    titles = tables.texts("series", "claim", "verdict")
    lines = [tables.text(TableRecord(title="Verdicts", columns=titles, rows=tuple(rows)))]
    findings = [*view.findings(run)]
    if any(finding.p is not None for finding in findings):
        percents = (100 * (1 - run.alpha), 100 * run.alpha)
        # Rounds that answer several expectations count once.
        rejected = {finding.group: finding.rejected for finding in findings if finding.timed}
        lines += _wrapped(
            f"Wall clock: rounds of boots in turn, {percents[0]:g} % intervals; "
            f"p is the chance of the verdict if it were wrong, at most {percents[1]:g} % after any "
            "number of rounds; one that refutes is times the number of the claim's wall-clock "
            "expectations. "
            f"Rounds rejected because the host disturbed them: {sum(rejected.values())}."
        )
    if run.skips and any(finding.verdict is Verdict.SKIPPED for finding in findings):
        lines += _wrapped(f"Skipped by the profile: {run.skips}")
    return "\n".join(lines) + "\n"


def series(record: SeriesRecord) -> str:
    """The claims of one series."""
    lines = [f"{record.name}: {record.verdict}"]
    for said in (record.title, record.origin, SeriesView(record).configuration):
        lines += _wrapped(said, "  ")
    if record.error:
        lines.append("")
    for line in record.error.splitlines():
        lines += _wrapped(line, "  ")
    for claim_record in record.claims:
        lines += ["", *claim(claim_record)]
    if record.claims:
        lines += ["", *_wrapped(f"To reproduce one: lab run {record.name} --claim NAME", "  ")]
    return "\n".join(lines) + "\n"


def claim(record: ClaimRecord) -> list[str]:
    """One claim: what was published, then each expectation with what was measured."""
    said = view.of_claim(record)
    lines = [f"  {record.name}: {said.verdict}", *_wrapped(said.statement, "    ")]
    lines += _wrapped(
        record.setup or f"{record.topology}, {record.scheduler}, {record.workload}", "    "
    )
    if record.job:
        lines += _wrapped(f"{record.job}  ({record.workload} on {record.topology})", "    ")
    for finding in said.findings:
        title = f"{finding.record.verdict:<12} {finding.evidence}: {finding.subject}"
        lines += _wrapped(title, "    - ", hanging=6)
        for label, words in finding.rows.items():
            lines += _wrapped(f"{label.split()[0]:<9} {words}", "      ", hanging=_SAID)
    return lines


def _screened(series_view: SeriesView, *, each: bool) -> list[str]:
    """The lines of a series on the screen."""
    checks = f" ({series_view.checks})" if series_view.checks else ""
    lines = [f"{series_view.record.name}: {series_view.outcome}{checks}"[:WIDTH]]
    if series_view.record.error:
        lines.append(f"  {series_view.record.error.splitlines()[0]}"[:WIDTH])
    # Where checks alone were asked for they are what there is to show.
    for row in series_view.figures(each=each) or series_view.figures(checks=True):
        lines.append(_line((row.short, row.published, row.measured, row.verdict, row.evidence)))
    return lines


def _line(cells: Sequence[str]) -> str:
    shown = (cell[:width].ljust(width) for cell, width in zip(cells, _COLUMNS, strict=True))
    return f" {' '.join(shown)}".rstrip()


def _foot(run: RunRecord) -> Iterator[str]:
    """What the screen does not say: known misses, checks that fail, what was skipped."""
    figures = [*view.findings(run, checks=False)]
    misses = {finding.miss for finding in figures if finding.miss}
    if Miss.KNOWN in misses:
        yield "known miss: it does not hold here; series.toml records it, with the reason."
    if any(miss.outdated for miss in misses):
        yield "!: series.toml records another result; `lab show` says what to do."
    if failed := view.failed_checks(run):
        yield f"Checks that fail: {len(failed)}, such as {failed[0]}."[:WIDTH]
    if skipped := sum(finding.verdict is Verdict.SKIPPED for finding in figures):
        yield (
            f"Skipped: {view.counted(skipped, 'expectation')} that this profile or host does not "
            "measure."
        )
    yield "Details: lab show. One claim again: lab run SERIES --claim CLAIM."


def _wrapped(text: str, indent: str = "", hanging: int | None = None) -> list[str]:
    """Lines that fit; those after the first begin at the column hanging, else as the first."""
    rest = indent if hanging is None else " " * hanging
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=rest)
