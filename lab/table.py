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

from lab import workload
from lab.plan import Cell
from lab.store import Stored

_WIDTH = 80
_NOTHING = "-"


@dataclass(frozen=True)
class Outcome:
    """A cell and what came of it: its boots, or why there is none."""

    cell: Cell
    boots: tuple[Stored, ...]
    failure: str = ""

    def value(self, metric: str) -> float | None:
        """The mean of a metric over the boots; None without any."""
        found = [boot.values[metric] for boot in self.boots if metric in boot.values]
        return statistics.fmean(found) if found else None


def matrix(outcomes: Sequence[Outcome]) -> str:
    """One table a workload: a row for each topology (and swept parameter), a column a scheduler."""
    return "\n".join(
        _workload_table(name, [o for o in outcomes if o.cell.workload == name])
        for name in dict.fromkeys(outcome.cell.workload for outcome in outcomes)
    )


def hardware(outcomes: Sequence[Outcome]) -> str:
    """What the guests really were, as they reported it."""
    table = _table("Hardware as the guests reported it")
    for name in ("topology", "hw queues", "CPUs online", "CPUs possible", "rotating", "kernel"):
        table.add_column(name, justify="left" if name in ("topology", "kernel") else "right")
    seen: dict[str, Mapping[str, str]] = {}
    for outcome in outcomes:
        if outcome.boots:
            seen.setdefault(outcome.cell.topology, outcome.boots[0].facts)
    for topology, facts in seen.items():
        names = ("hw_queues", "online_cpus", "possible_cpus", "queue/rotational", "release")
        table.add_row(topology, *(facts.get(name, _NOTHING) for name in names))
    return _text(table)


def failures(outcomes: Sequence[Outcome]) -> str:
    """One line a cell that has no result."""
    return "\n".join(f"  {o.cell}: {o.failure}" for o in outcomes if o.failure)


def number(value: float | None) -> str:
    """A value with about four significant digits, thousands separated."""
    if value is None:
        return _NOTHING
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _workload_table(name: str, outcomes: Sequence[Outcome]) -> str:
    work = workload.get(name)
    engine = outcomes[0].cell.engine
    boots = max(len(outcome.boots) for outcome in outcomes)
    table = _table(f"{work.title}\n{work.unit}, {work.better} is better, {engine}, {boots} boot(s)")
    schedulers = list(dict.fromkeys(outcome.cell.scheduler for outcome in outcomes))
    table.add_column("topology")
    for scheduler in schedulers:
        table.add_column(scheduler, justify="right")
    rows: dict[str, dict[str, str]] = {}
    for outcome in outcomes:
        label = f"{outcome.cell.topology} {outcome.cell.sweep}".strip()
        shown = "failed" if outcome.failure else number(outcome.value(work.metric))
        rows.setdefault(label, {})[outcome.cell.scheduler] = shown
    for label, found in rows.items():
        table.add_row(label, *(found.get(scheduler, _NOTHING) for scheduler in schedulers))
    return _text(table)


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD)


def _text(table: Table) -> str:
    out = StringIO()
    Console(file=out, width=_WIDTH, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
