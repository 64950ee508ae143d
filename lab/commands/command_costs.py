# SPDX-License-Identifier: GPL-2.0-or-later
"""What a user's command costs in a guest: in all, by request and by function."""

from __future__ import annotations

from collections.abc import Sequence

from lab.base.errors import UsageError
from lab.base.text import number
from lab.inputs.counters import REQUESTS
from lab.inputs.terms import Engine
from lab.inputs.workload import get
from lab.measure import command, metrics
from lab.measure.cell_orders import command_runs
from lab.measure.cost import Cost
from lab.measure.runner import Outcome
from lab.report.run_record import TableRecord
from lab.report.tables import columns, of_costs

_SHOWN = (REQUESTS, command.PER_REQUEST, command.KERNEL, "user_insns", "guest_ms")
_LABELS = {
    REQUESTS: "requests to the disk",
    command.PER_REQUEST: "kernel instructions per request",
    command.KERNEL: "kernel instructions",
    "user_insns": "instructions in user space",
    "guest_ms": "time by the guest's clock, ms",
}


def require_possible(engine: Engine) -> None:
    """Raise UsageError for an engine that cannot count a command."""
    if engine is not Engine.EXACT:
        raise UsageError(f"--run: {engine} counts no command", hint="use --engine exact")


def tables(
    names: Sequence[str], outcomes: Sequence[Outcome], costs: Sequence[Cost], rows: int
) -> list[TableRecord]:
    """Totals of one or two measurements of a command, and functions: those that differ most, or of
    one measurement those that cost most.
    """
    work = get(outcomes[0].task.cell.workload)
    of_what = "for one more of $N" if len(command_runs(work)) > 1 else "of the command"
    totals = TableRecord(
        title=f"{work.title}: {' -> '.join(names)}",
        columns=columns(of_what, *names),
        rows=tuple(
            (_LABELS[name], *(_shown(outcome, name) for outcome in outcomes)) for name in _SHOWN
        ),
    )
    what = f"Kernel instructions {of_what}"
    if len(costs) == 2:
        return [totals, of_costs((names[0], names[1]), (costs[0], costs[1]), rows, what)]
    return [totals, _of_one(names[0], costs[0], rows, what)]


def _shown(outcome: Outcome, name: str) -> str:
    value = outcome.value(name)
    if value is None:
        return "none"
    return number(value) if metrics.get(name).unit == "ms" else f"{value:,.2f}".removesuffix(".00")


def _of_one(name: str, cost: Cost, rows: int, what: str) -> TableRecord:
    """The functions that cost most."""
    ordered = sorted(cost.kernel.items(), key=lambda item: (-item[1], item[0]))
    shown = [*ordered[:rows]]
    if rest := ordered[rows:]:
        shown.append((f"{len(rest)} more", sum(value for _, value in rest)))
    total = cost.kernel_total or 1
    return TableRecord(
        title=f"{what} by function: {name}",
        columns=columns("function", "instructions", "share"),
        rows=tuple(
            (function, f"{value:,.2f}", f"{100 * value / total:.1f} %") for function, value in shown
        ),
    )
