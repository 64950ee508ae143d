# SPDX-License-Identifier: GPL-2.0-or-later
"""A run as text that goes elsewhere: commit message, Markdown, CSV, JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from lab.base.text import number, visible
from lab.inputs.terms import Verdict
from lab.judge.seed_noise import SEEDS
from lab.report import arm_table, finding, tables
from lab.report.arm_table import ArmTable, Entry
from lab.report.escapes import markdown as escaped
from lab.report.escapes import markdown_code as code
from lab.report.run_record import ClaimRecord, FindingRecord, RunRecord, SeriesRecord

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


def commit(run: RunRecord, width: int = _COMMIT_WIDTH) -> str:
    """Tables of the series of a run for a commit message, no line wider than git has it.

    A row for each swept value, a column for each arm with its change as an improvement against
    the first: positive is better, as mmtests has it.
    """
    parts = []
    for series in run.series:
        for own in arm_table.of_series(run, series):
            parts.append("\n".join(_commit_table(own, width)))
    if not parts:
        return "nothing that compares two kernels was measured\n"
    return visible("\n\n".join([*parts, *_footnotes(run, width)])) + "\n"


def markdown(run: RunRecord) -> str:
    """Verdicts and measurements as GitHub-flavoured Markdown."""
    lines = [f"# {escaped(run.title)}", ""]
    if run.control:
        lines += [f"**Control {code(run.control)}: nothing of this should hold.**", ""]
    for table in run.tables:
        lines += [*tables.markdown(table), ""]
    if run.series:
        lines += ["| series | claim | verdict |", "|---|---|---|"]
        for series in run.series:
            for claim in series.claims:
                names = f"{code(series.name)} | {code(claim.name)}"
                lines.append(f"| {names} | {_of_claim(claim)} |")
            if series.error:
                told = f"{code(series.name)} | {escaped(series.error)}"
                lines.append(f"| {told} | {_mark(series.verdict)} |")
    for series in run.series:
        if differs := finding.configuration(series):
            lines += ["", f"{code(series.name)}: {escaped(differs)}."]
        for claim in series.claims:
            lines += ["", *_claim(series, claim)]
    if run.cells and not run.series:
        lines += _cells(run)
    host = run.host
    machine = f"{escaped(host.cpu_model)}, {host.cpus} CPUs, {escaped(host.qemu)}"
    made_by = f"{code(run.command)}, lab {escaped(run.lab)}, run {code(run.id)}"
    lines += [*([""] if lines[-1] else []), f"Measured on {machine}; {made_by}."]
    return "\n".join(lines) + "\n"


def csv_text(run: RunRecord) -> str:
    """Every number of every boot: a row for each boot and metric, with all that tells it apart.

    The tables of a run without boots are given as they are, an empty line between two.
    """
    if run.tables and not run.cells:
        return "\n".join(tables.csv_text(table) for table in run.tables if table.columns)
    return tables.csv_rows((_COLUMNS, *_numbers(run)))


def _numbers(run: RunRecord) -> Iterator[tuple[object, ...]]:
    for cell in run.cells:
        parameters = " ".join(f"{k}={v}" for k, v in sorted(cell.parameters.items()))
        what = (cell.topology, cell.scheduler, cell.workload, parameters, cell.executed)
        arm = (cell.cpus, cell.hw_queues, cell.arm)
        for boot in cell.boots:
            when = (boot.kernel, boot.id, boot.round, f"{boot.started:.3f}")
            for metric, value in sorted(boot.values.items()):
                yield (run.id, *what, *arm, *when, metric, repr(value))


def json_text(run: RunRecord) -> str:
    """The record itself; ``lab schema run`` prints its JSON Schema."""
    return run.model_dump_json(indent=1) + "\n"


def _commit_table(own: ArmTable, width: int) -> Iterator[str]:
    vcpus = f", {own.cpus} vCPUs" if own.cpus > 1 else ""
    title = f"{own.workload} on {own.topology}, {own.scheduler} ({own.executed}{vcpus}): "
    title += f"{own.metric} in {own.unit}, {own.better} is better"
    yield from textwrap.wrap(title, width)
    yield ""
    rows = [[own.swept, *own.arms]]
    for label in arm_table.sorted_labels(list(own.rows)):
        found = own.rows[label]
        rows.append([label, *(_shown(own, found.get(arm)) for arm in own.arms)])
    yield from _aligned(rows, width)


def _shown(own: ArmTable, entry: Entry | None) -> str:
    if entry is None or not entry.values:
        return "-"
    better = own.improvement(entry)
    change = f" ({100 * better:+z.2f}%){'*' if entry.real else ' '}" if better is not None else ""
    return f"{_precise(entry.mean)}{change}"


def _precise(value: float) -> str:
    """A mean as mmtests prints it, with two digits; more when it is small, none when large."""
    if 0 < abs(value) < 10:
        return f"{value:.4g}"
    return f"{value:.2f}" if abs(value) < 100_000 else f"{value:.0f}"


def _aligned(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Columns flush right; a table too wide for the message becomes a line for each value."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    if sum(widths) + 2 * len(widths) <= width:
        for row in rows:
            cells = (cell.rjust(own) for cell, own in zip(row, widths, strict=True))
            yield ("  " + "  ".join(cells)).rstrip()
        return
    head, *body = rows
    for row in body:
        for name, cell in zip(head[1:], row[1:], strict=True):
            yield f"  {row[0]:>8}  {name:<20} {cell:>24}".rstrip()


def _footnotes(run: RunRecord, width: int) -> list[str]:
    text = (
        "In brackets the improvement against the first column, positive is better. * more than "
        "noise. exact, sim: by more than two seeds of one kernel differ in this workload; with "
        f"{SEEDS} seeds and more, and for tcg and kvm, the {100 * (1 - run.alpha):g} % interval of "
        "the change leaves out zero."
    )
    return ["\n".join(textwrap.wrap(text, width))]


def _claim(series: SeriesRecord, claim: ClaimRecord) -> Iterator[str]:
    yield f"## {_of_claim(claim)} {escaped(series.name)}: {escaped(claim.name)}"
    yield ""
    yield f"{escaped(f'{finding.whose(claim)}: {claim.statement}')}. "
    yield f"{escaped(f'{claim.topology}, {claim.scheduler}, {claim.workload}')}."
    yield ""
    yield "| verdict | evidence | metric | published | expected | measured | change |"
    yield "|---|---|---|---|---|---:|---:|"
    for found in claim.findings:
        yield _markdown_row(found)


def _markdown_row(found: FindingRecord) -> str:
    told = finding.parts(found)
    cells = (
        _mark(told.verdict),
        escaped(told.evidence),
        code(found.metric) + escaped(told.subject.removeprefix(found.metric)),
        escaped(told.published) or "-",
        escaped(told.expected),
        escaped("; ".join(filter(None, (told.values, told.reason)))),
        escaped(told.change),
    )
    return f"| {' | '.join(cells)} |"


def _cells(run: RunRecord) -> Iterator[str]:
    yield "| topology | scheduler | workload | engine | boots | mean | |"
    yield "|---|---|---|---|---:|---:|---|"
    for cell in run.cells:
        values = cell.values()
        mean = number(cell.mean()) if values else cell.error
        work = f"{cell.workload} {cell.sweep}".strip()
        shown = (cell.topology, cell.scheduler, work, cell.executed, str(len(values)), mean)
        yield f"| {' | '.join(map(escaped, shown))} | {escaped(cell.unit) if values else ''} |"


def _of_claim(claim: ClaimRecord) -> str:
    return f"{_SIGNS.get(claim.verdict, '')} {finding.verdict(claim)}".strip()


def _mark(verdict: Verdict) -> str:
    return f"{_SIGNS.get(verdict, '')} {verdict}".strip()
