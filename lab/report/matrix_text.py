# SPDX-License-Identifier: GPL-2.0-or-later
"""Results as tables for a terminal, a log and a file: plain text within 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.base.text import PlainTable, number
from lab.inputs import workload
from lab.measure import cost
from lab.measure.cost import Cost
from lab.measure.runner import EXACT, Outcome, headline

_WIDTH = 80
_NOTHING = "-"


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


def _workload_table(outcomes: Sequence[Outcome], metric: str) -> str:
    first = outcomes[0].cell
    work = workload.get(first.workload)
    boots = max(len(outcome.boots) for outcome in outcomes)
    meaning = EXACT.get(metric, f"{work.unit}, {work.better} is better")
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
