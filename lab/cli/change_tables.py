# SPDX-License-Identifier: GPL-2.0-or-later
"""What the steps of somebody's patches change, as tables of the record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.base.text import number, percent
from lab.commands.cost_diff import CellChange
from lab.commands.try_patches import SeriesStep
from lab.inputs.terms import Verdict
from lab.report.run_record import Table
from lab.report.tables import columns

# Instructions per I/O; what is less would be shown as nothing.
_SHOWN = 0.005


def of_steps(steps: Sequence[SeriesStep], rows: int = 12) -> tuple[Table, ...]:
    """Every step: the cells that differ, then the functions of the one that differs most."""
    return tuple(table for step in steps for table in _of_step(step, rows))


def _of_step(step: SeriesStep, rows: int) -> Iterator[Table]:
    differing = [one for one in step.found if one.change != 0.0]
    same = len(step.found) - len(differing)
    equal = f"{same} of {len(step.found)} cells are equal to the last digit."
    yield Table(title=step.title)
    if differing:
        yield Table(
            title="Kernel instructions per I/O; change: of the functions that seeds tell apart",
            columns=columns("cell", "before", "after", "change"),
            rows=tuple(map(_row, differing)),
            notes=(equal,),
        )
    else:
        yield Table(title="", notes=(equal,))
    if largest := next((one for one in differing if one.functions), None):
        yield _functions(largest, rows)
    if failed := tuple(_failures(step)):
        yield Table(title="", notes=failed)


def _row(one: CellChange) -> tuple[str, ...]:
    change = "failed" if one.change is None else percent(one.change, exact=True)
    return str(one.cell), *map(number, one.values), change


def _functions(one: CellChange, rows: int) -> Table:
    listed = [f for f in one.functions if abs(f.difference) >= _SHOWN][:rows]
    shown = [
        (f.function, f"{f.before:,.2f}", f"{f.after:,.2f}", f"{f.difference:+,.2f}") for f in listed
    ]
    if rest := one.functions[len(listed) :]:
        total = sum(f.difference for f in rest)
        shown.append((f"{len(rest)} more", "", "", f"{total:+z,.2f}"))
    return Table(
        title=f"Where it is: {one.cell}, kernel instructions per I/O by function",
        columns=columns("function", "before", "after", "difference"),
        rows=tuple(shown),
    )


def _failures(step: SeriesStep) -> Iterator[str]:
    for one in step.found:
        for side, outcome in (("first", one.before), ("second", one.after)):
            if outcome.error:
                yield f"{one.cell}: the {side} kernel failed: {outcome.error.brief}"
    if step.broken:
        yield f"{Verdict.REFUTED}: {step.broken}"
