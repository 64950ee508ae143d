# SPDX-License-Identifier: GPL-2.0-or-later
"""A record's cells as tables for a terminal and a log: plain text within 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.base.plain_table import PlainTable
from lab.base.text import number
from lab.measure import cost
from lab.measure.cost import Cost
from lab.measure.sim_counts import Line
from lab.report import tables
from lab.report.run_record import CellRecord, Column, RunRecord, TableRecord

_NOTHING = "-"
# So many functions are named for a line.
_MOVERS = 3
# What the exact engine gives beside a workload's own metric.
_EXACT = {
    cost.KERNEL: "kernel instructions per I/O, lower is better",
    "guest_ns_per_io": "guest nanoseconds per I/O, idle time included, lower is better",
}


def text(run: RunRecord) -> str:
    """What a matrix prints: its title, what its profile leaves out, all values, the hardware."""
    skipped = f"Skipped: {run.skips}\n" if run.skips else ""
    return f"{run.title}\n{skipped}{matrix(run)}\n{hardware(run)}"


def matrix(run: RunRecord) -> str:
    """One table a workload and metric: a row for each topology (and swept parameter), a column a
    scheduler.
    """
    found = []
    for name in dict.fromkeys(cell.workload for cell in run.cells):
        own = [cell for cell in run.cells if cell.workload == name]
        work = run.workloads.get(name)
        measured = next((cell.metric for cell in own if cell.boots), own[0].metric)
        metrics = dict.fromkeys((measured, work.metric if work else measured))
        found += [_workload_table(run, own, metric) for metric in metrics]
    return "\n".join(found)


def hardware(run: RunRecord) -> str:
    """What the guests really were, as they reported it; empty when none did."""
    table = PlainTable("Hardware as the guests reported it")
    for name in ("topology", "hw queues", "CPUs online", "CPUs possible", "rotating", "kernel"):
        table.column(name, right=name not in ("topology", "kernel"))
    seen: dict[str, Mapping[str, str]] = {}
    for cell in run.cells:
        if cell.boots:
            seen.setdefault(cell.topology, cell.facts)
    for topology, facts in seen.items():
        names = ("hw_queues", "online_cpus", "possible_cpus", "queue/rotational", "release")
        table.row(topology, *(facts.get(name, _NOTHING) for name in names))
    return table.text() if seen else ""


def failures(run: RunRecord) -> str:
    """One line a cell that has no result."""
    return "\n".join(f"  {cell.name}: {cell.error}" for cell in run.cells if cell.error)


def cost_table(
    names: tuple[str, str],
    costs: tuple[Cost, Cost],
    rows: int,
    what: str = "Kernel instructions per I/O",
) -> TableRecord:
    """What an I/O costs in two measurements: what changed by function, then totals."""
    before, after = costs
    changed = cost.changes([before], [after])
    shown = [(c.function, c.before, c.after) for c in changed[:rows]]
    if rest := changed[rows:]:
        shown.append((f"{len(rest)} more", sum(c.before for c in rest), sum(c.after for c in rest)))
    same = len(before.kernel.keys() | after.kernel.keys()) - len(changed)
    unchanged = before.kernel_total - sum(c.before for c in changed)
    shown.append((f"{same} unchanged", unchanged, unchanged))
    totals = (
        ("kernel", before.kernel_total, after.kernel_total),
        ("user space", before.user, after.user),
    )
    return TableRecord(
        title=f"{what} by function: {names[0]} -> {names[1]}",
        columns=tables.columns("function", *names, "difference"),
        rows=tuple(_difference(*one) for one in shown),
        totals=tuple(_difference(*one) for one in totals),
    )


def lines_table(arm: str, lines: Sequence[Line], rows: int) -> TableRecord:
    """The cache lines that move most between CPUs, and which functions move them."""
    found = []
    for line in lines[:rows]:
        by = ", ".join(f"{name} {number(moves)}" for name, moves in [*line.moves.items()][:_MOVERS])
        found.append((line.place, number(line.total), by))
    return TableRecord(
        title=f"Cache lines that move most, moves per I/O: {arm}",
        columns=(*tables.columns("line", "moves"), Column(title="by")),
        rows=tuple(found),
    )


def _difference(name: str, one: float, other: float) -> tuple[str, ...]:
    return name, f"{one:,.2f}", f"{other:,.2f}", f"{other - one:+z,.2f}"


def _workload_table(run: RunRecord, cells: Sequence[CellRecord], metric: str) -> str:
    first = cells[0]
    work = run.workloads.get(first.workload)
    boots = max(len(cell.boots) for cell in cells)
    own = f"{work.unit}, {work.better} is better" if work else first.unit
    meaning = _EXACT.get(metric, own)
    title = work.title if work else first.workload
    table = PlainTable(f"{title}\n{meaning}, {first.executed}, {boots} boot(s)")
    schedulers = list(dict.fromkeys(cell.scheduler for cell in cells))
    table.column("topology")
    for scheduler in schedulers:
        table.column(scheduler, right=True)
    rows: dict[str, dict[str, str]] = {}
    for cell in cells:
        label = f"{cell.topology} {cell.sweep}".strip()
        rows.setdefault(label, {})[cell.scheduler] = _shown(cell, metric)
    for label, found in rows.items():
        table.row(label, *(found.get(scheduler, _NOTHING) for scheduler in schedulers))
    return table.text()


def _shown(cell: CellRecord, metric: str) -> str:
    if cell.error:
        return "failed"
    return number(cell.mean(metric))
