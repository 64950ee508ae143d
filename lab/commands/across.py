# SPDX-License-Identifier: GPL-2.0-or-later
"""What an I/O costs on several kernel sources, and which functions made it more or less."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.base.text import number, percent
from lab.measure.cell import PlannedCell
from lab.measure.runner import Outcome
from lab.measure.session import Session
from lab.report.run_record import Curves, TableRecord
from lab.report.tables import columns

# What is executed less often than that is no part of an I/O.
_SHOWN = 0.5


@dataclass(frozen=True)
class Measured:
    """A cell on a kernel: the kernel's release, or its source where others have that release, the
    outcome, and the cost of an I/O by function, which is empty where the guest failed.
    """

    kernel: str
    outcome: Outcome
    functions: Mapping[str, float]

    @property
    def total(self) -> float | None:
        """What an I/O costs in the kernel; None where the guest failed."""
        return sum(self.functions.values()) if self.functions else None


def measure(
    session: Session, specs: Sequence[str], planned: Sequence[PlannedCell]
) -> list[list[Measured]]:
    """Each cell on the kernel of each source, a list for a cell.

    Raises LabError for a source that cannot be had or built.
    """
    kernels = [session.kernel(spec) for spec in specs]
    releases = [kernel.release for kernel in kernels]
    names = releases if len(set(releases)) == len(releases) else specs
    tasks = [
        cell.on(kernel, name)
        for cell in planned
        for kernel, name in zip(kernels, names, strict=True)
    ]
    outcomes = iter(session.outcomes(tasks))
    return [[_measured(session, name, next(outcomes)) for name in names] for _ in planned]


def _measured(session: Session, name: str, outcome: Outcome) -> Measured:
    cost = session.store.cost(outcome.boots[0].id) if outcome.boots else None
    return Measured(name, outcome, cost.by_function() if cost else {})


def tables(measured: Sequence[Sequence[Measured]], rows: int) -> tuple[TableRecord, ...]:
    """A row for each cell, to be drawn, too; then the functions of each that differ most."""
    return (_totals(measured), *(_functions(by_kernel, rows) for by_kernel in measured))


def _totals(measured: Sequence[Sequence[Measured]]) -> TableRecord:
    kernels = [each.kernel for each in measured[0]]
    values = {by_kernel[0].outcome.task.cell.scheduler: by_kernel for by_kernel in measured}
    outcomes = [each.outcome for by_kernel in measured for each in by_kernel]
    unit = "CPU ns" if outcomes[0].task.cell.engine.simulated else "instructions"
    return TableRecord(
        title=f"Kernel {unit} of an I/O",
        columns=columns("scheduler", *kernels, "last to first"),
        rows=tuple(
            (name, *(_shown(each.total) for each in by_kernel), _change(by_kernel))
            for name, by_kernel in values.items()
        ),
        notes=tuple(
            f"{outcome.task}: {outcome.error.brief}" for outcome in outcomes if outcome.error
        ),
        curves=Curves(
            labels=tuple(kernels),
            values={name: tuple(e.total for e in by_kernel) for name, by_kernel in values.items()},
        ),
    )


def _functions(by_kernel: Sequence[Measured], rows: int) -> TableRecord:
    """The functions whose cost differs most between two neighbouring kernels."""
    whole = [each for each in by_kernel if each.functions]
    names = {name for each in whole for name in each.functions}
    steps = {
        name: max(
            (
                abs(after.functions.get(name, 0.0) - before.functions.get(name, 0.0))
                for before, after in itertools.pairwise(whole)
            ),
            default=0.0,
        )
        for name in names
    }
    shown = sorted(
        (name for name in names if steps[name] >= _SHOWN), key=lambda name: (-steps[name], name)
    )[:rows]
    rest = [
        sum(count for name, count in each.functions.items() if name not in shown) for each in whole
    ]
    scheduler = by_kernel[0].outcome.task.cell.scheduler
    return TableRecord(
        title=f"By function: {scheduler}",
        columns=columns("function", *(each.kernel for each in whole)),
        rows=tuple((name, *(_cost(each, name) for each in whole)) for name in shown),
        totals=(("all others", *map(number, rest)),) if whole else (),
    )


def _cost(each: Measured, name: str) -> str:
    """What a function costs; nothing where the kernel does not execute it."""
    return number(each.functions[name]) if name in each.functions else "-"


def _shown(total: float | None) -> str:
    return "failed" if total is None else number(total)


def _change(by_kernel: Sequence[Measured]) -> str:
    first, last = by_kernel[0].total, by_kernel[-1].total
    return percent(last / first - 1, exact=True) if first and last else ""
