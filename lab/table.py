# SPDX-License-Identifier: GPL-2.0-or-later
"""Results as tables for a terminal, a log and a file: plain text within 80 columns."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab import cost, workload
from lab.cost import Cost
from lab.errors import GuestError
from lab.plan import Cell
from lab.store import Stored

_WIDTH = 80
_NOTHING = "-"
# What the exact engine gives beside a workload's own metric, the more telling first.
_EXACT = {
    "kernel_insns_per_io": "kernel instructions per I/O, lower is better",
    "guest_ns_per_io": "guest nanoseconds per I/O, idle time included, lower is better",
}


@dataclass(frozen=True)
class Outcome:
    """A cell and what came of it: its boots, or the error that there is instead."""

    cell: Cell
    boots: tuple[Stored, ...]
    error: GuestError | None = None

    def value(self, metric: str) -> float | None:
        """The mean of a metric over the boots; None without any."""
        found = [boot.values[metric] for boot in self.boots if metric in boot.values]
        return statistics.fmean(found) if found else None


def matrix(outcomes: Sequence[Outcome]) -> str:
    """One table a workload and metric: a row for each topology (and swept parameter), a column a
    scheduler.
    """
    tables = []
    for name in dict.fromkeys(outcome.cell.workload for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.cell.workload == name]
        values = next((boot.values for outcome in own for boot in outcome.boots), {})
        metrics = dict.fromkeys((headline(own[0].cell, values), workload.get(name).metric))
        tables += [_workload_table(own, metric) for metric in metrics]
    return "\n".join(tables)


def hardware(outcomes: Sequence[Outcome]) -> str:
    """What the guests really were, as they reported it; empty when none did."""
    table = PlainTable("Hardware as the guests reported it")
    for name in ("topology", "hw queues", "CPUs online", "CPUs possible", "rotating", "kernel"):
        table.column(name, right=name not in ("topology", "kernel"))
    seen: dict[str, Mapping[str, str]] = {}
    for outcome in outcomes:
        if outcome.boots:
            seen.setdefault(outcome.cell.topology, outcome.boots[0].facts)
    for topology, facts in seen.items():
        names = ("hw_queues", "online_cpus", "possible_cpus", "queue/rotational", "release")
        table.row(topology, *(facts.get(name, _NOTHING) for name in names))
    return table.text() if seen else ""


def failures(outcomes: Sequence[Outcome]) -> str:
    """One line a cell that has no result."""
    return "\n".join(f"  {o.cell}: {o.error.brief}" for o in outcomes if o.error)


def headline(cell: Cell, values: Mapping[str, float]) -> str:
    """The metric that stands for a cell: its cost from the exact engine, else the workload's."""
    own = workload.get(cell.workload).metric
    return next((name for name in _EXACT if cell.engine.sealed and name in values), own)


def cost_difference(names: tuple[str, str], costs: tuple[Cost, Cost], rows: int) -> str:
    """Instructions per I/O of two measurements: totals, then what changed by function."""
    before, after = costs
    changed = cost.changes(before, after)
    table = PlainTable(f"Kernel instructions per I/O by function: {names[0]} -> {names[1]}")
    table.column("function")
    for title in (*names, "difference"):
        table.column(title, right=True)
    shown = [(c.function, c.before, c.after) for c in changed[:rows]]
    if rest := changed[rows:]:
        shown.append((f"{len(rest)} more", sum(c.before for c in rest), sum(c.after for c in rest)))
    same = len(before.kernel.keys() | after.kernel.keys()) - len(changed)
    unchanged = before.kernel_total - sum(c.before for c in changed)
    shown.append((f"{same} unchanged", unchanged, unchanged))
    for function, one, other in shown:
        table.row(function, f"{one:,.2f}", f"{other:,.2f}", f"{other - one:+,.2f}")
    table.line()
    for name, one, other in (
        ("kernel", before.kernel_total, after.kernel_total),
        ("user space", before.user, after.user),
    ):
        table.row(name, f"{one:,.2f}", f"{other:,.2f}", f"{other - one:+,.2f}")
    return table.text()


def number(value: float | None) -> str:
    """A value with about four significant digits, thousands separated."""
    if value is None:
        return _NOTHING
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 or not value else f"{value:.3g}"


def _workload_table(outcomes: Sequence[Outcome], metric: str) -> str:
    first = outcomes[0].cell
    work = workload.get(first.workload)
    boots = max(len(outcome.boots) for outcome in outcomes)
    meaning = _EXACT.get(metric, f"{work.unit}, {work.better} is better")
    table = PlainTable(f"{work.title}\n{meaning}, {first.engine}, {boots} boot(s)")
    schedulers = list(dict.fromkeys(outcome.cell.scheduler for outcome in outcomes))
    table.column("topology")
    for scheduler in schedulers:
        table.column(scheduler, right=True)
    rows: dict[str, dict[str, str]] = {}
    for outcome in outcomes:
        label = f"{outcome.cell.topology} {outcome.cell.sweep}".strip()
        shown = "failed" if outcome.error else number(outcome.value(metric))
        rows.setdefault(label, {})[outcome.cell.scheduler] = shown
    for label, found in rows.items():
        table.row(label, *(found.get(scheduler, _NOTHING) for scheduler in schedulers))
    return table.text()


class PlainTable:
    """A rich table of plain cells, printed below a title that is as wide as it likes."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._table = Table(box=box.SIMPLE_HEAD)

    def column(self, name: str, *, right: bool = False) -> None:
        """Add a column; right for numbers."""
        self._table.add_column(Text(name), justify="right" if right else "left")

    def row(self, *cells: str) -> None:
        """Add a row with a cell for each column."""
        self._table.add_row(*map(Text, cells))

    def line(self) -> None:
        """Draw a line below the rows so far."""
        self._table.add_section()

    def text(self) -> str:
        """The table as lines without trailing blanks."""
        out = StringIO()
        Console(file=out, width=_WIDTH, color_system=None).print(Text(self._title), self._table)
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
