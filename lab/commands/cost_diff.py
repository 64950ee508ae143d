# SPDX-License-Identifier: GPL-2.0-or-later
"""What differs between two kernels on the exact engine: every cell, every function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lab.base.errors import KERNEL_FAILURES, UsageError
from lab.base.stats import SEED_COUNTS, half_width
from lab.base.text import percent
from lab.build.kernel import Kernel
from lab.inputs import workload
from lab.inputs.bounds import Bound
from lab.inputs.claims import Expectation
from lab.inputs.profile import Profile
from lab.inputs.terms import Engine, Level, Verdict
from lab.judge import verdict
from lab.judge.experiment import Experiment, Side
from lab.judge.finding import Finding
from lab.judge.judge import seed_evidence
from lab.measure import cost, matrix
from lab.measure.cell import Cell, PlannedCell, Task
from lab.measure.cost import Change
from lab.measure.matrix import Selection
from lab.measure.runner import Outcome, Runner
from lab.measure.session import Session

ARMS = ("before", "after")
Sides = tuple[Outcome, Outcome]
# Where seeds differ by much, a threshold is so many times what they leave open. Chosen: of equal
# kernels one cell in two hundred is open then (docs/notes/2026-11-gate.md).
_CLEAR = 3


@dataclass(frozen=True)
class Threshold:
    """From which change on the block layer's instructions have changed, as a fraction; a saving has
    no threshold unless it counts, too. So many seeds of each kernel decide at most: what they leave
    open is left open.
    """

    change: float
    seeds: int
    savings: bool = False

    def widened(self, groups: Sequence[Sequence[float]], alpha: float) -> float:
        """The change, or a larger one when the seeds leave more than half of it open, as groups of
        seeds by kernel tell. Seeds of one kernel are compared with each other, so a change that
        passes cannot widen it.
        """
        left_open = half_width(groups, self.seeds, alpha / len(SEED_COUNTS))
        return self.change if 2 * left_open <= self.change else _CLEAR * left_open

    def bound(self, session: Session, planned: PlannedCell) -> Bound:
        """What is no change of a cell, as the seeds of it that the store has leave to be told."""
        known = session.store.by_seed(planned.cell, cost.BLOCK_LAYER)
        limit = round(self.widened(known, session.profile.alpha), 8)
        return Bound(-limit if self.savings else None, limit, "%")


# Chosen: patches that do nothing but move code change less (docs/notes/2026-11-verdicts.md).
CHANGED = Threshold(0.001, seeds=6, savings=True)


@dataclass(frozen=True)
class CellChange:
    """A cell on two kernels, and what was found of the instructions of its block layer.

    The boots of an outcome are its seeds; functions are all that differ between these, the largest
    difference first. There are none where the first seeds were equal to the last digit.
    """

    planned: PlannedCell
    before: Outcome
    after: Outcome
    finding: Finding
    functions: tuple[Change, ...] = ()

    @property
    def values(self) -> tuple[float | None, float | None]:
        """Kernel instructions per I/O before and after, the means of the seeds."""
        return self.before.value(cost.KERNEL), self.after.value(cost.KERNEL)

    @property
    def failed(self) -> bool:
        """Whether a guest failed on either kernel."""
        return bool(self.before.error or self.after.error)

    @property
    def equal(self) -> bool:
        """Whether both kernels execute exactly as much."""
        return self.finding.evidence.same

    @property
    def change(self) -> float | None:
        """The relative change of the block layer's instructions per I/O; None where that failed."""
        return self.finding.measured_change


def has_exact_cost(cell: Cell) -> bool:
    """Whether the exact engine gives a cell's cost to the last digit: it does for fio's jobs that
    do not check data.
    """
    work = workload.get(cell.workload)
    return not cell.engine.simulated and work.tool == "fio" and not work.checks_data


def cells(profile: Profile, selection: Selection) -> list[PlannedCell]:
    """The cells of a profile that have an exact cost. Raises UsageError when there are none."""
    every = matrix.cells(profile, selection, Engine.EXACT)
    exact = [planned for planned in every if has_exact_cost(planned.cell)]
    if not exact:
        raise UsageError(
            "the exact engine gives no cost for what is selected",
            hint="choose an fio workload",
        )
    return exact


def measure(
    session: Session,
    kernels: tuple[Kernel, Kernel],
    wanted: Sequence[PlannedCell],
    threshold: Threshold,
    reference: Kernel | None = None,
) -> list[CellChange]:
    """Measure cells on two kernels; failures first, then the largest relative change. The reference
    decides what the block layer is, the first kernel where none is given.

    A cell that is not equal to the last digit is measured with more seeds, until the threshold
    decides it. What has changed is asked again, with seeds that had no part in that: chance hardly
    makes the same of them. What the store has of either kernel is not measured again.
    """
    compared = KernelPair(kernels, reference)
    with session.measuring(compared.tasks(wanted)) as runner:
        first = seeded(runner, compared, wanted, (1,))
        changes = {p: judged(session, p, sides, threshold) for p, sides in first.items()}
        differ = [p for p, change in changes.items() if not change.failed and not change.equal]
        changes |= _decided(session, runner, compared, differ, threshold)
        changed = [p for p in differ if changes[p].finding.verdict is Verdict.REFUTED]
        again = _decided(session, runner, compared, changed, threshold, threshold.seeds)
    changes |= {p: _confirmed(session, changes[p], repeat) for p, repeat in again.items()}
    return sorted(changes.values(), key=by_size)


def as_experiment(
    series: str, planned: PlannedCell, expectation: Expectation, level: Level
) -> Experiment:
    """A cell as an experiment: the kernel without the change against the one with it."""
    sides = tuple(Side(arm, planned.cell, arm == ARMS[1]) for arm in ARMS)
    return Experiment(
        series=series,
        claim=str(planned),
        expectation=expectation,
        level=level,
        sides=sides,
        swept=planned.swept,
        together=(series, planned),
    )


@dataclass(frozen=True)
class KernelPair:
    """Two kernels that are compared, and the one that decides what the block layer of both is: the
    first, where none is given.
    """

    kernels: tuple[Kernel, Kernel]
    reference: Kernel | None = None

    def tasks(self, wanted: Sequence[PlannedCell]) -> list[Task]:
        """For each cell both tasks, the kernels as arms."""
        return tasks_of(wanted, self.kernels, ARMS, self.reference or self.kernels[0])


def tasks_of(
    wanted: Sequence[PlannedCell],
    kernels: tuple[Kernel, Kernel],
    arms: tuple[str, str] = ARMS,
    reference: Kernel | None = None,
) -> list[Task]:
    """Cells on two kernels: for each cell both tasks, the kernels as arms. The reference decides
    what the block layer of both is; a wall clock needs none.
    """
    by_arm = [*zip(kernels, arms, strict=True)]
    return [planned.on(kernel, arm, reference) for planned in wanted for kernel, arm in by_arm]


def _decided(
    session: Session,
    runner: Runner,
    compared: KernelPair,
    wanted: Sequence[PlannedCell],
    threshold: Threshold,
    after_seed: int = 0,
) -> dict[PlannedCell, CellChange]:
    """Cells on two kernels with as many seeds as decide them, all of them after a certain one."""
    changes: dict[PlannedCell, CellChange] = {}
    waiting = list(wanted)
    for count in (n for n in SEED_COUNTS if n <= threshold.seeds):
        if not waiting:
            break
        seeds = range(after_seed + 1, after_seed + count + 1)
        looked_at = seeded(runner, compared, waiting, seeds)
        changes |= {p: judged(session, p, sides, threshold) for p, sides in looked_at.items()}
        waiting = [p for p in waiting if changes[p].finding.verdict is Verdict.INCONCLUSIVE]
    return changes


def _confirmed(session: Session, first: CellChange, again: CellChange) -> CellChange:
    """A cell that has changed, as seeds say that had no part in finding it; in which functions, all
    of them say.
    """
    if again.failed:
        return again
    if again.finding.verdict is Verdict.REFUTED:
        sides = (together([first.before, again.before]), together([first.after, again.after]))
        return CellChange(first.planned, *sides, first.finding, functions_of(session, sides))
    shown = " and ".join(percent(each.change or 0.0, exact=True) for each in (first, again))
    reason = f"{shown}, with some seeds and with others"
    return replace(
        first, finding=replace(first.finding, verdict=again.finding.verdict, reason=reason)
    )


def judged(
    session: Session, planned: PlannedCell, sides: Sides, threshold: Threshold
) -> CellChange:
    """What the seeds of two kernels say about the instructions of a cell's block layer."""
    experiment = of_block_layer(planned, threshold.bound(session, planned))
    # Here functions tell what moved out of the block layer, and the rest's sum is not needed.
    evidence = seed_evidence(experiment, [[outcome] for outcome in sides])
    evidence = replace(evidence, same=_equal(sides), rest=())
    (finding,) = verdict.judge([(experiment, evidence)], session.profile.alpha)
    if evidence.same:
        return CellChange(planned, *sides, replace(finding, reason="equal to the last digit"))
    functions = functions_of(session, sides)
    layer = _block_layer(session, sides)
    finding = _without_moved_code(_with_functions(finding, functions, threshold), functions, layer)
    return CellChange(planned, *sides, finding, functions)


def functions_of(session: Session, sides: Sides) -> tuple[Change, ...]:
    """Every function that differs between the seeds of two kernels, the largest first."""
    before, after = (
        [c for boot in side.boots if (c := session.store.cost(boot.id))] for side in sides
    )
    return tuple(cost.changes(before, after, session.profile.alpha)) if before and after else ()


def _with_functions(finding: Finding, functions: Sequence[Change], threshold: Threshold) -> Finding:
    """A finding that functions refute which surely differ, in the block layer or out of it, when
    they add up to more than the threshold: no noise of others hides them.
    """
    if finding.evidence.doubt:
        return finding
    surely = [change.difference for change in functions if change.sure]
    if not surely or not finding.measured:
        return finding
    total = math.fsum(surely) / finding.measured[0]
    if not (abs(total) if threshold.savings else total) > threshold.change:
        return finding
    reason = f"functions that surely differ add up to {percent(total, exact=True)}"
    return replace(finding, verdict=Verdict.REFUTED, reason=reason)


def _block_layer(session: Session, sides: Sides) -> frozenset[str]:
    """The functions that count as the block layer in either kernel."""
    lists = (session.store.block_layer(boot.id) for side in sides for boot in side.boots[:1])
    return frozenset[str]().union(*(names for names in lists if names))


def _without_moved_code(
    finding: Finding, functions: Sequence[Change], layer: frozenset[str]
) -> Finding:
    """A saving that the functions outside of the block layer surely cost more is left open: code
    moved out of it.
    """
    if (
        finding.verdict is not Verdict.REFUTED
        or not finding.measured_change
        or finding.measured_change > 0
    ):
        return finding
    outside = (
        change.difference for change in functions if change.sure and change.function not in layer
    )
    more = math.fsum(difference for difference in outside if difference > 0)
    less = -finding.measured_change * finding.measured[0]
    limit = finding.experiment.expectation.bound.interval.high
    if not more or less - more > finding.measured[0] * limit:
        return finding
    reason = verdict.moved_code(less, more)
    return replace(finding, verdict=Verdict.INCONCLUSIVE, reason=reason)


def of_block_layer(planned: PlannedCell, bound: Bound) -> Experiment:
    """What is asked of a cell on two kernels: that its block layer changes within a bound."""
    expectation = Expectation(
        metric=cost.BLOCK_LAYER,
        change=bound,
        because="more instructions for an I/O in the block layer are a regression",
    )
    return as_experiment("", planned, expectation, Level.COST)


def _equal(sides: Sides) -> bool:
    """Whether both kernels execute exactly as much."""
    before, after = (
        [(b.values[cost.KERNEL], b.values[cost.BLOCK_LAYER]) for b in side.boots] for side in sides
    )
    return before == after != []


def seeded(
    runner: Runner,
    compared: KernelPair,
    wanted: Sequence[PlannedCell],
    seeds: Sequence[int],
) -> dict[PlannedCell, Sides]:
    """Cells on two kernels with the given seeds."""
    tasks = [task.seeded(seed) for task in compared.tasks(wanted) for seed in seeds]
    outcomes = iter(runner.all(tasks))

    def side() -> Outcome:
        return together([next(outcomes) for _ in seeds])

    return {planned: (side(), side()) for planned in wanted}


def together(seeds: Sequence[Outcome]) -> Outcome:
    """The seeds of a task as one outcome; no boots when one of them failed."""
    task = seeds[0].task
    if error := next((outcome.error for outcome in seeds if outcome.error), None):
        return Outcome(task, (), error)
    return Outcome(task, tuple(boot for outcome in seeds for boot in outcome.boots))


def compared(changes: Sequence[CellChange]) -> list[Sides]:
    """Both kernels' outcomes of the cells that may have changed."""
    differing = (
        change
        for change in changes
        if not change.failed and change.finding.verdict is not Verdict.HOLDS
    )
    return [(change.before, change.after) for change in differing]


def failures(changes: Sequence[CellChange]) -> tuple[list[Outcome], list[Outcome]]:
    """The outcomes that failed: those of the kernel before, and those of the kernel after."""
    before = [change.before for change in changes if change.before.error]
    return before, [change.after for change in changes if change.after.error]


def require_sound_base(changes: Sequence[CellChange]) -> None:
    """Raise LabError when the kernel without the change fails, or the lab itself does."""
    before, after = failures(changes)
    foreign = [o for o in after if o.error and o.error.outcome not in KERNEL_FAILURES]
    for outcome in (*before, *foreign):
        outcome.require_boots()


def by_size(cell: CellChange) -> tuple[bool, float]:
    """A key to sort by: failures first, then the largest relative change."""
    return cell.change is not None, -abs(cell.change or 0.0)
