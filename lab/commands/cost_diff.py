# SPDX-License-Identifier: GPL-2.0-or-later
"""What differs between two kernels on the exact engine: every cell, every function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lab.base.errors import UsageError
from lab.build.kernel import Kernel
from lab.inputs import workload
from lab.inputs.profile import Profile
from lab.inputs.terms import Engine
from lab.judge.verdict import KERNEL_FAILURES, SEEDS
from lab.measure import cost, matrix
from lab.measure.boot_store import BootStore
from lab.measure.cell import Cell, PlannedCell, Task
from lab.measure.cost import Change
from lab.measure.matrix import Selection
from lab.measure.runner import Outcome, Runner
from lab.measure.session import Session


@dataclass(frozen=True)
class CellChange:
    """A cell on two kernels: kernel instructions per I/O before and after, None where it failed.

    The boots of an outcome are its seeds; functions are those that these tell apart, the largest
    difference first.
    """

    planned: PlannedCell
    before: Outcome
    after: Outcome
    functions: tuple[Change, ...] = ()

    @property
    def values(self) -> tuple[float | None, float | None]:
        """Kernel instructions per I/O before and after, the means of the seeds."""
        return self.before.value(cost.KERNEL), self.after.value(cost.KERNEL)

    @property
    def change(self) -> float | None:
        """The relative change that the functions add up to; None when one side failed."""
        before, after = self.values
        if not before or after is None:
            return None
        return math.fsum(change.difference for change in self.functions) / before


def has_exact_cost(cell: Cell) -> bool:
    """Whether the exact engine gives a cell's cost to the last digit: it does for fio's jobs."""
    return workload.get(cell.workload).tool == "fio"


def cells(profile: Profile, selection: Selection) -> list[PlannedCell]:
    """The cells of a profile that have an exact cost.

    Raises UsageError when the selection leaves none.
    """
    every = matrix.cells(profile, selection, Engine.ICOUNT)
    found = [one for one in every if has_exact_cost(one.cell)]
    if not found:
        raise UsageError(
            "the exact engine gives no cost for what is selected",
            hint="choose an fio workload",
        )
    return found


def measure(
    session: Session, kernels: tuple[Kernel, Kernel], wanted: Sequence[PlannedCell]
) -> list[CellChange]:
    """Measure cells on two kernels; the largest relative change first, failures before all.

    A cell that is not equal to the last digit is measured with as many seeds as it takes to tell
    a change from chance. What the store has of either kernel is not measured again.
    """
    tasks = tasks_of(wanted, kernels)
    with session.measuring(tasks) as runner:
        found = _seeded(runner, kernels, wanted, (1,), session.store)
        differ = [one.planned for one in found if one.change or one.values[0] != one.values[1]]
        if differ and not any(map(any, failures(found))):
            seeds = range(1, SEEDS + 1)
            surely = _seeded(runner, kernels, differ, seeds, session.store)
            by_cell = {one.planned: one for one in surely}
            found = [by_cell.get(one.planned, one) for one in found]
    return sorted(found, key=by_size)


def confirm(
    session: Session, kernels: tuple[Kernel, Kernel], suspected: Sequence[PlannedCell]
) -> dict[PlannedCell, CellChange]:
    """Measure cells on two kernels again, with seeds that had no part in the suspicion."""
    if not suspected:
        return {}
    fresh = range(SEEDS + 1, 2 * SEEDS + 1)
    with session.measuring(tasks_of(suspected, kernels)) as runner:
        found = _seeded(runner, kernels, suspected, fresh, session.store)
    return {one.planned: one for one in found}


def tasks_of(
    wanted: Sequence[PlannedCell],
    kernels: tuple[Kernel, Kernel],
    arms: tuple[str, str] = ("before", "after"),
) -> list[Task]:
    """Cells on two kernels: for each cell both tasks, the kernels as arms."""
    return [one.on(k, arm) for one in wanted for k, arm in zip(kernels, arms, strict=True)]


def _seeded(
    runner: Runner,
    kernels: tuple[Kernel, Kernel],
    wanted: Sequence[PlannedCell],
    seeds: Sequence[int],
    store: BootStore,
) -> list[CellChange]:
    """Cells on two kernels with the given seeds."""
    tasks = [task.seeded(seed) for task in tasks_of(wanted, kernels) for seed in seeds]
    outcomes = iter(runner.all(tasks))
    found = []
    for one in wanted:
        before, after = (_together([next(outcomes) for _ in seeds]) for _ in kernels)
        found.append(CellChange(one, before, after, _functions(before, after, store)))
    return found


def _together(seeds: Sequence[Outcome]) -> Outcome:
    """The seeds of a task as one outcome; no boots when one of them failed."""
    task = seeds[0].task
    if error := next((one.error for one in seeds if one.error), None):
        return Outcome(task, (), error)
    return Outcome(task, tuple(boot for one in seeds for boot in one.boots))


def failures(found: Sequence[CellChange]) -> tuple[list[Outcome], list[Outcome]]:
    """The outcomes that failed: those of the kernel before, and those of the kernel after."""
    before = [one.before for one in found if one.before.error]
    return before, [one.after for one in found if one.after.error]


def require_sound_base(found: Sequence[CellChange]) -> None:
    """Raise LabError when the kernel without the change fails, or the lab itself does."""
    before, after = failures(found)
    foreign = [o for o in after if o.error and o.error.outcome not in KERNEL_FAILURES]
    for outcome in (*before, *foreign):
        outcome.require_boots()


def _functions(before: Outcome, after: Outcome, store: BootStore) -> tuple[Change, ...]:
    if not before.boots or not after.boots:
        return ()
    costs = [[one for boot in own.boots if (one := store.cost(boot.id))] for own in (before, after)]
    return tuple(cost.apart(*costs)) if all(costs) else ()


def by_size(one: CellChange) -> tuple[bool, float]:
    """A key to sort by: failures first, then the largest relative change."""
    return one.change is not None, -abs(one.change or 0.0)
