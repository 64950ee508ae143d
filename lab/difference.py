# SPDX-License-Identifier: GPL-2.0-or-later
"""What differs between two kernels on the exact engine: every cell, every function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lab import cost, pipeline, plan, topology, workload
from lab.cost import Change
from lab.errors import LabError, UsageError
from lab.kernel import Kernel
from lab.plan import Cell, Selection
from lab.profile import Profile
from lab.progress import Progress
from lab.qemu import Engine
from lab.runner import Bench, Runner, Task
from lab.store import Store
from lab.table import Outcome, PlainTable, number
from lab.verdict import KERNEL_FAILURES

METRIC = "kernel_insns_per_io"


@dataclass(frozen=True)
class CellChange:
    """A cell on two kernels: kernel instructions per I/O before and after, None where it failed.

    functions are those whose cost differs, the largest difference first.
    """

    cell: Cell
    before: Outcome
    after: Outcome
    functions: tuple[Change, ...] = ()

    @property
    def values(self) -> tuple[float | None, float | None]:
        """Kernel instructions per I/O before and after."""
        return self.before.value(METRIC), self.after.value(METRIC)

    @property
    def change(self) -> float | None:
        """The relative change; None when one side failed."""
        before, after = self.values
        return after / before - 1 if before and after is not None else None


def cells(profile: Profile, selection: Selection) -> list[Cell]:
    """The cells of a profile that the exact engine gives a cost for, to the last digit.

    Those are fio's jobs on disks that live in the guest: QEMU's own devices answer at a time that
    depends on the host. Raises UsageError when the selection leaves none.
    """
    every = plan.cells(profile, selection, Engine.ICOUNT)
    found = [
        cell
        for cell in every
        if workload.get(cell.workload).tool == "fio" and not topology.get(cell.topology).drive
    ]
    if not found:
        raise UsageError(
            "the exact engine gives no cost for what is selected",
            hint="choose an fio workload on a topology without a drive, such as nullb_mq or raid64",
        )
    return found


def measure(
    bench: Bench,
    kernels: tuple[Kernel, Kernel],
    wanted: Sequence[Cell],
    store: Store,
    progress: Progress,
) -> list[CellChange]:
    """Measure cells on two kernels; the largest relative change first, failures before all.

    What the store has of either kernel is not measured again.
    """
    arms = ("before", "after")
    tasks = [
        Task(replace(cell, arm=arm), kernel)
        for cell in wanted
        for arm, kernel in zip(arms, kernels, strict=True)
    ]
    with pipeline.measuring(bench, store, progress, sealed=True, timed=False):
        outcomes = Runner(bench, store, progress).all(tasks, 1, sealed=True)
    found = [
        CellChange(cell, before, after, _functions(before, after, store))
        for cell, before, after in zip(wanted, outcomes[::2], outcomes[1::2], strict=True)
    ]
    return sorted(found, key=_size)


def failures(found: Sequence[CellChange]) -> tuple[list[Outcome], list[Outcome]]:
    """The outcomes that failed: those of the kernel before, and those of the kernel after."""
    before = [one.before for one in found if one.before.error]
    return before, [one.after for one in found if one.after.error]


def require_sound_base(found: Sequence[CellChange]) -> None:
    """Raise LabError when the kernel without the change fails, or the lab itself does."""
    before, after = failures(found)
    foreign = [o for o in after if o.error and o.error.outcome not in KERNEL_FAILURES]
    for outcome in (*before, *foreign):
        if outcome.error:
            raise LabError(
                f"{outcome.cell} failed: {outcome.error.what}", where=outcome.error.where
            )


def text(found: Sequence[CellChange], rows: int = 12) -> str:
    """The cells that differ as a table, then the functions of the one that differs most."""
    differing = [one for one in found if one.change != 0.0]
    same = len(found) - len(differing)
    parts = []
    if differing:
        table = PlainTable("Kernel instructions per I/O, exact; the largest change first")
        table.column("cell")
        for title in ("before", "after", "change"):
            table.column(title, right=True)
        for one in differing:
            change = "failed" if one.change is None else f"{100 * one.change:+.3f} %"
            table.row(str(one.cell), *(number(value) for value in one.values), change)
        parts.append(table.text())
    parts.append(f"{same} of {len(found)} cells are equal to the last digit.\n")
    largest = next((one for one in differing if one.functions), None)
    if largest:
        parts.append(_functions_text(largest, rows))
    parts += [
        f"{one.cell}: the {side} kernel failed: {outcome.error.brief}\n"
        for one in found
        for side, outcome in (("first", one.before), ("second", one.after))
        if outcome.error
    ]
    return "\n".join(parts)


def _functions_text(one: CellChange, rows: int) -> str:
    table = PlainTable(f"Where it is: {one.cell}, kernel instructions per I/O by function")
    table.column("function")
    for title in ("before", "after", "difference"):
        table.column(title, right=True)
    for change in one.functions[:rows]:
        shown = (f"{change.before:,.2f}", f"{change.after:,.2f}", f"{change.difference:+,.2f}")
        table.row(change.function, *shown)
    if rest := one.functions[rows:]:
        total = sum(change.difference for change in rest)
        table.row(f"{len(rest)} more", "", "", f"{total:+,.2f}")
    return table.text()


def _functions(before: Outcome, after: Outcome, store: Store) -> tuple[Change, ...]:
    if not before.boots or not after.boots:
        return ()
    one, other = (store.cost(own.boots[-1].id) for own in (before, after))
    return tuple(cost.changes(one, other)) if one and other else ()


def _size(one: CellChange) -> tuple[bool, float]:
    return one.change is not None, -abs(one.change or 0.0)
