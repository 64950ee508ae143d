# SPDX-License-Identifier: GPL-2.0-or-later
"""What `lab try` measures of two kernels: instructions, requests, contention, and data."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lab.base.errors import KERNEL_FAILURES, GuestError
from lab.build.code_diff import function
from lab.build.kernel import Kernel
from lab.commands import cost_diff
from lab.commands.cost_diff import CellChange, KernelPair, Threshold
from lab.inputs import workload
from lab.measure import call_tree, cell_orders, job, sampling, sim_counts
from lab.measure.cell import PlannedCell
from lab.measure.cost import Change
from lab.measure.runner import Outcome, Runner
from lab.measure.session import Session

# Beyond these a patched kernel is clearly worse, and the exit code is 1 (docs/gate.md).
# Chosen: layouts of code that do nothing change the block layer by less than 0.1 %, so 1 % is no
# accident, and of simulated throughput 5 % is no more than seeds of some jobs differ by.
WORSE_COST = 0.01
WORSE_IOPS = 0.05
WORSE_REQUESTS = 0.05
SEEDS = 3
# With how many seeds the quickest cell is booted on the patched kernel, to see what goes wrong only
# now and then. Chosen: of a hang in one boot of five six boots show none in 26 cases of 100.
STRESS_SEEDS = 6
THRESHOLD = Threshold(WORSE_COST, seeds=SEEDS, savings=True)
_REQUESTS = "requests"

Pair = tuple[Kernel, Kernel]


def exact(
    session: Session,
    runner: Runner,
    pair: Pair,
    cells: Sequence[PlannedCell],
    seeds: Sequence[int],
) -> dict[PlannedCell, CellChange]:
    """Cells on two kernels with the given seeds, judged."""
    sides = cost_diff.seeded(runner, KernelPair(pair), cells, seeds)
    return {
        planned: cost_diff.judged(session, planned, outcomes, THRESHOLD)
        for planned, outcomes in sides.items()
    }


def callers(session: Session, runner: Runner, change: CellChange) -> dict[str, str]:
    """Who calls each function of a cell most often on the kernel after, by one boot more."""
    task = change.after.task.seeded(1)
    (outcome,) = runner.all([replace(task, cell=replace(task.cell, callers=True))])
    folders = [session.store.boot_folder(boot.id) for boot in outcome.boots]
    tree = call_tree.of_boot(folders[0]) if folders else None
    found = tree.main_callers() if tree else {}
    return {function(name): function(caller) for name, caller in found.items()}


def requests(session: Session, outcome: Outcome) -> tuple[float, ...]:
    """Requests per I/O of each exact boot; none where they are not counted."""
    task = replace(outcome.task, cell=replace(outcome.task.cell, counters=(_REQUESTS,)))
    resolved = job.resolve(task, session.testbed)
    ios = cell_orders.ordered_ios(resolved.cell, resolved.work).get("many", 0)
    counts: list[float] = []
    for boot in outcome.boots:
        try:
            counted = sampling.counted_again(resolved, session.store.boot_folder(boot.id))
        except GuestError:  # a kernel without a function that is counted
            return ()
        if not counted or not ios:
            return ()
        counts.append(counted[_REQUESTS] / ios)
    return tuple(counts)


def beyond_seeds(before: Sequence[float], after: Sequence[float], noise: float) -> bool:
    """Whether seeds cannot make a change: the means differ by more than noise, the fraction that
    two seeds of the job ever differed by, or the seeds of the kernels do not overlap.

    before and after have a value for each seed.
    """
    if abs(math.fsum(after) / len(after) / (math.fsum(before) / len(before)) - 1) > noise:
        return True
    apart = max(after) < min(before) or max(before) < min(after)
    return len(before) >= SEEDS and apart


@dataclass(frozen=True)
class SimulatedChange:
    """A simulated cell on two kernels, with the seeds that were booted.

    simulated_iops are of each seed. functions are what an I/O costs in ns on all CPUs, those that
    changed most first. moved are the cache-line transfers per I/O by function and variable, of
    those that move most.
    """

    planned: PlannedCell
    before: Outcome
    after: Outcome
    functions: tuple[Change, ...] = ()
    moved: tuple[Mapping[tuple[str, str], float], Mapping[tuple[str, str], float]] = ({}, {})

    @property
    def failed(self) -> bool:
        """Whether a guest failed on either kernel."""
        return bool(self.before.error or self.after.error)

    @property
    def simulated_iops(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Simulated I/Os per second by kernel, one a seed."""
        before, after = (
            tuple(boot.values["iops"] for boot in outcome.boots)
            for outcome in (self.before, self.after)
        )
        return before, after

    @property
    def change(self) -> float:
        """The relative change of the mean IOPS; NaN where a guest failed."""
        if self.failed:
            return math.nan
        before, after = (math.fsum(iops) / len(iops) for iops in self.simulated_iops)
        return after / before - 1

    @property
    def is_clear(self) -> bool:
        """Whether seeds cannot make the change."""
        noise = workload.get(self.planned.cell.workload).noise.simulated
        return beyond_seeds(*self.simulated_iops, noise)

    @property
    def waiting(self) -> tuple[float, float]:
        """The share of the CPUs' time that waits for spin locks, before and after."""
        before, after = (
            (outcome.value(sim_counts.LOCK) or 0.0) / (outcome.value(sim_counts.CPU) or math.inf)
            for outcome in (self.before, self.after)
        )
        return before, after


def simulated(
    session: Session, runner: Runner, pair: Pair, cells: Sequence[PlannedCell]
) -> list[SimulatedChange]:
    """Simulated cells on two kernels; with more seeds where one leaves open whether it is worse."""
    changes = []
    for planned, sides in cost_diff.seeded(runner, KernelPair(pair), cells, (1,)).items():
        change = _simulated(session, planned, sides)
        if not change.failed and abs(change.change) > WORSE_IOPS and not change.is_clear:
            seeds = range(1, SEEDS + 1)
            more = cost_diff.seeded(runner, KernelPair(pair), [planned], seeds)
            change = _simulated(session, planned, more[planned])
        changes.append(change)
    return changes


def _simulated(session: Session, planned: PlannedCell, sides: cost_diff.Sides) -> SimulatedChange:
    if any(side.error for side in sides):
        return SimulatedChange(planned, *sides)
    moved = _moves(session, sides[0]), _moves(session, sides[1])
    return SimulatedChange(planned, *sides, cost_diff.functions_of(session, sides), moved)


def _moves(session: Session, outcome: Outcome) -> dict[tuple[str, str], float]:
    """Transfers of the lines with most, by function and variable (empty: allocated memory)."""
    moved: dict[tuple[str, str], float] = defaultdict(float)
    for line in session.store.lines(outcome.boots[-1].id):
        for name, transfers in line.transfers.items():
            moved[name, line.variable] += transfers
    return moved


@dataclass(frozen=True)
class DataCheck:
    """A check on the patched kernel, and where that failed or was complained of, on the other."""

    planned: PlannedCell
    after: Outcome
    before: Outcome | None = None


def checked(runner: Runner, pair: Pair, cells: Sequence[PlannedCell]) -> list[DataCheck]:
    """Cells that read back what they wrote, on the patched kernel; where its kernel fails, on the
    one without patches, too.
    """
    done = runner.all([cell.on(pair[1], cost_diff.ARMS[1]) for cell in cells])
    checks = []
    for cell, outcome in zip(cells, done, strict=True):
        before = None
        if outcome.error and outcome.error.outcome in KERNEL_FAILURES:
            (before,) = runner.all([cell.on(pair[0], cost_diff.ARMS[0])])
        checks.append(DataCheck(cell, outcome, before))
    return checks


def count_failures(runner: Runner, pair: Pair, failed: Outcome) -> tuple[int, int]:
    """Of STRESS_SEEDS seeds of a cell that failed on the patched kernel, how many fail on each."""
    planned = PlannedCell(cell=failed.task.cell, swept=failed.task.swept)
    tasks = cost_diff.tasks_of([planned], pair)
    seeds = range(1, STRESS_SEEDS + 1)
    outcomes = runner.all([task.seeded(seed) for task in tasks for seed in seeds])
    fails = [bool(outcome.error) for outcome in outcomes]
    return sum(fails[:STRESS_SEEDS]), sum(fails[STRESS_SEEDS:])
