# SPDX-License-Identifier: GPL-2.0-or-later
"""A run as text that goes elsewhere: commit message, Markdown, published figures, CSV, JSON."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from lab.base.text import number, visible
from lab.inputs.terms import Verdict
from lab.judge.seed_noise import SEEDS
from lab.report import arm_table, tables, view
from lab.report.arm_table import ArmTable, ArmValue
from lab.report.escapes import markdown as escaped
from lab.report.escapes import markdown_code as code
from lab.report.run_record import ClaimRecord, FindingRecord, RunRecord, TableRecord
from lab.report.view import ClaimView, SeriesView

_COMMIT_WIDTH = 74
_SIGNS = {
    Verdict.HOLDS: "✅",
    Verdict.REFUTED: "❌",
    Verdict.INCONCLUSIVE: "❔",
    Verdict.ERROR: "💥",
}
_COLUMNS = (
    *("run", "topology", "scheduler", "workload", "parameters", "engine", "cpus", "hw_queues"),
    *("arm", "kernel", "boot", "round", "started", "metric", "value"),
)
_CLAIM = ("verdict", "evidence", "metric", "published", "expected", "measured", "change")
_CELL = ("topology", "scheduler", "workload", "engine", "boots", "mean", "")
_PUBLISHED = ("series", "claim", "published", "measured", "evidence", "verdict")


def commit(run: RunRecord, width: int = _COMMIT_WIDTH) -> str:
    """Tables of the series of a run for a commit message, no line wider than git has it.

    A row for each swept value, a column for each arm with its change as an improvement against
    the first: positive is better, as mmtests has it.
    """
    arm_tables = [table for series in run.series for table in arm_table.of_series(run, series)]
    if not arm_tables:
        return "nothing that compares two kernels was measured\n"
    note = (
        "In brackets the improvement against the first column, positive is better. * more than "
        "noise. exact, sim: by more than two seeds of one kernel differ in this workload; with "
        f"{SEEDS} seeds and more, and for tcg and kvm, the {100 * (1 - run.alpha):g} % interval of "
        "the change leaves out zero."
    )
    parts = ["\n".join(_commit_table(table, width)) for table in arm_tables]
    return visible("\n\n".join([*parts, textwrap.fill(note, width)])) + "\n"


def markdown(run: RunRecord) -> str:
    """Verdicts and measurements as GitHub-flavoured Markdown."""
    lines = [f"# {escaped(run.title)}", ""]
    if run.control:
        lines += [f"**Control {code(run.control)}: nothing of this should hold.**", ""]
    for table in run.tables:
        lines += [*tables.markdown(table), ""]
    series = view.of_run(run)
    if series:
        rows = [row for series_view in series for row in _verdicts(series_view)]
        lines += tables.markdown_rows([("series", "claim", "verdict"), *rows])
    for series_view in series:
        if series_view.configuration:
            lines += ["", f"{code(series_view.record.name)}: {escaped(series_view.configuration)}."]
        for claim in series_view.claims:
            lines += ["", *_claim(series_view, claim)]
    if run.cells and not series:
        lines += tables.markdown_rows([_CELL, *_cells(run)], right=(4, 5))
    host = run.host.facts
    machine = f"{escaped(host.cpu_model)}, {host.cpus} CPUs, {escaped(host.qemu)}"
    made_by = f"{code(run.command)}, lab {escaped(run.lab)}, run {code(run.id)}"
    lines += [*([""] if lines[-1] else []), f"Measured on {machine}; {made_by}."]
    return "\n".join(lines) + "\n"


def published(run: RunRecord) -> str:
    """A Markdown table of the published figures, with a line that counts the verdicts.

    A figure that is skipped on this host but judged by another engine is not shown twice. The
    arms are before -> after where nothing else is said.
    """
    figures = [
        (series.name, claim.name, finding)
        for series, claim in run.claims
        for finding in _figures(claim)
    ]
    if not figures:
        return "no expectation of this run carries a published figure\n"
    verdicts = Counter(finding.verdict for *_, finding in figures)
    parts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    decided = sum(count for verdict, count in verdicts.items() if verdict.decided)
    table = TableRecord(
        title="",
        columns=tables.texts(*_PUBLISHED),
        rows=tuple(_figure(*figure) for figure in figures),
        notes=(f"{decided} of {len(figures)} published figures are decided: {parts}.",),
    )
    return "\n".join(tables.markdown(table)) + "\n"


def csv_text(run: RunRecord) -> str:
    """Every number of every boot: a row for each boot and metric, with all that tells it apart.

    The tables of a run without boots are given as they are, an empty line between two.
    """
    if run.tables and not run.cells:
        return "\n".join(tables.csv_text(table) for table in run.tables if table.columns)
    return tables.csv_rows((_COLUMNS, *_numbers(run)))


def json_text(run: RunRecord) -> str:
    """The record itself; ``lab schema run`` prints its JSON Schema."""
    return run.model_dump_json(indent=1) + "\n"


def _numbers(run: RunRecord) -> Iterator[tuple[object, ...]]:
    for cell in run.cells:
        parameters = " ".join(f"{k}={v}" for k, v in sorted(cell.parameters.items()))
        what = (cell.topology, cell.scheduler, cell.workload, parameters, cell.executed)
        arm = (cell.cpus, cell.hw_queues, cell.arm)
        for boot in cell.boots:
            when = (boot.kernel, boot.id, boot.round, f"{boot.started:.3f}")
            for metric, value in sorted(boot.values.items()):
                yield (run.id, *what, *arm, *when, metric, repr(value))


def _commit_table(table: ArmTable, width: int) -> Iterator[str]:
    vcpus = f", {table.cpus} vCPUs" if table.cpus > 1 else ""
    title = f"{table.workload} on {table.topology}, {table.scheduler} ({table.executed}{vcpus}): "
    yield from textwrap.wrap(
        f"{title}{table.metric} in {table.unit}, {table.better} is better", width
    )
    yield ""
    rows = [[table.swept, *table.arms]]
    for label in table.labels:
        rows.append([label, *(_shown(table, table.rows[label].get(arm)) for arm in table.arms)])
    yield from _aligned(rows, width)


def _shown(table: ArmTable, value: ArmValue | None) -> str:
    """A mean as mmtests prints it, with two digits; more when it is small, none when large."""
    if value is None or not value.values:
        return "-"
    better, mean = table.signed(value.change), value.mean
    change = f" ({100 * better:+z.2f}%){'*' if value.real else ' '}" if better is not None else ""
    if 0 < abs(mean) < 10:
        return f"{mean:.4g}{change}"
    return f"{mean:.{2 if abs(mean) < 100_000 else 0}f}{change}"


def _aligned(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Columns flush right; a table too wide for the message becomes a line for each value."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    if sum(widths) + 2 * len(widths) <= width:
        for row in rows:
            cells = (
                cell.rjust(column_width) for cell, column_width in zip(row, widths, strict=True)
            )
            yield ("  " + "  ".join(cells)).rstrip()
        return
    head, *body = rows
    for row in body:
        for name, cell in zip(head[1:], row[1:], strict=True):
            yield f"  {row[0]:>8}  {name:<20} {cell:>24}".rstrip()


def _verdicts(series_view: SeriesView) -> Iterator[tuple[str, ...]]:
    series = series_view.record
    for claim in series_view.claims:
        yield code(series.name), code(claim.record.name), _mark(claim.record.verdict, claim.verdict)
    if series.error:
        yield code(series.name), escaped(series.error), _mark(series.verdict, series.verdict)


def _claim(series_view: SeriesView, claim: ClaimView) -> Iterator[str]:
    record = claim.record
    verdict = _mark(record.verdict, claim.verdict)
    yield f"## {verdict} {escaped(series_view.record.name)}: {escaped(record.name)}"
    yield ""
    yield f"{escaped(claim.statement)}. "
    yield f"{escaped(f'{record.topology}, {record.scheduler}, {record.workload}')}."
    yield ""
    rows = [
        (
            _mark(finding.record.verdict, finding.record.verdict),
            escaped(finding.evidence),
            code(finding.record.metric)
            + escaped(finding.subject.removeprefix(finding.record.metric)),
            escaped(finding.published) or "-",
            escaped(finding.expected),
            escaped("; ".join(filter(None, (finding.values, finding.reason)))),
            escaped(finding.change),
        )
        for finding in claim.findings
    ]
    yield from tables.markdown_rows([_CLAIM, *rows], right=(5, 6))


def _cells(run: RunRecord) -> Iterator[list[str]]:
    for cell in run.cells:
        work = f"{cell.workload} {cell.sweep}".strip()
        mean, unit = (number(cell.mean()), cell.unit) if cell.values() else (cell.error, "")
        count = str(len(cell.values()))
        shown = (cell.topology, cell.scheduler, work, cell.executed, count, mean, unit)
        yield [*map(escaped, shown)]


def _mark(verdict: Verdict, words: str) -> str:
    return f"{_SIGNS.get(verdict, '')} {words}".strip()


def _figure(series: str, claim: str, finding: FindingRecord) -> tuple[str, ...]:
    """A published figure beside what was measured."""
    said = view.of_finding(finding)
    compared = "" if finding.arms == ("before", "after") else view.ARROW.join(finding.arms)
    name = ", ".join(filter(None, (claim, said.subject, compared)))
    measured = ", ".join(filter(None, (said.values, said.change))) or said.reason
    verdict = ", ".join(filter(None, (finding.verdict, finding.miss)))
    return series, name, _figure_text(finding), measured, said.evidence, verdict


def _figures(claim: ClaimRecord) -> Iterator[FindingRecord]:
    """The findings with a figure, without those skipped whose figure another one judged."""
    figures = [
        (finding, (finding.metric, finding.arms, _figure_text(finding)))
        for finding in claim.findings
        if finding.published
    ]
    judged = {figure for finding, figure in figures if finding.verdict is not Verdict.SKIPPED}
    for finding, figure in figures:
        if finding.verdict is not Verdict.SKIPPED or figure not in judged:
            yield finding


def _figure_text(finding: FindingRecord) -> str:
    return finding.published.text if finding.published else ""
