# SPDX-License-Identifier: GPL-2.0-or-later
"""What a bisection tells good commits from bad ones by: exact where that can be, else paired boots.

A measure first compares the two ends and then gives every commit a value: one that lies near the
good end's or near the bad end's, or none where that cannot be said.
"""

from __future__ import annotations

import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.base.errors import BuildError, LabError, UsageError, nearest
from lab.base.stats import SEED_COUNTS, Interval, Paired
from lab.base.text import percent
from lab.build.kernel import Kernel
from lab.commands import bisect_search, cost_diff
from lab.commands.cost_diff import Threshold
from lab.commands.gate_config import USUAL_THRESHOLD, USUAL_TIME, fraction
from lab.inputs import series, workload
from lab.inputs.queue_settings import Settings
from lab.inputs.terms import Engine, Level
from lab.judge import experiment
from lab.measure import cost, metrics
from lab.measure.cell import PlannedCell
from lab.measure.matrix import parse_cell
from lab.measure.runner import Outcome, Rounds
from lab.measure.session import Session

_GOOD, _OTHER = "good", "commit"
# A commit is booted with so many seeds, unless the first gives a value that is nearer to an end's
# than so much of what the ends differ by. Chosen.
_SEEDS = SEED_COUNTS[0]
_NEAR = 0.1


@dataclass(frozen=True)
class CommitTree:
    """Builds the commits of a repository, and measures them in a session."""

    repository: Path
    session: Session
    built: set[str] = field(default_factory=set)

    def kernel(self, commit: str) -> Kernel:
        """The kernel of a commit. Raises BuildError."""
        spec = f"git:{self.repository.absolute()}@{commit}"
        self.built.add(commit)
        return self.session.kernel(spec)


class CommitMeasure(ABC):
    """Measures commits of a tree in a cell; threshold is the least difference of the ends."""

    unit = ""
    # The good end decides what the block layer is: no commit may.
    _reference: Kernel | None = None

    def __init__(self, tree: CommitTree, planned: PlannedCell, threshold: float) -> None:
        self._tree = tree
        self._planned = planned
        self._threshold = threshold

    @abstractmethod
    def compare(self, good: str, bad: str) -> None:
        """Measure the two ends. Raises LabError when one fails, or they do not differ enough."""

    @abstractmethod
    def value(self, commit: str) -> float | None:
        """What a commit measures; None when it does not build or boot, or cannot be decided."""

    def shown(self, value: float) -> str:
        """A value with its unit."""
        return f"{value:,.2f} {self.unit}"

    def conclusion(self, good: str, bad: str) -> str:
        """What the first bad commit changed, as far as this measure can tell."""
        values = (self.value(good), self.value(bad))
        return " -> ".join("nothing" if v is None else self.shown(v) for v in values)

    def changes(self, good: str, bad: str) -> list[cost_diff.CellChange]:
        """By which functions the first bad commit changed the cell, where that can be told."""
        return []

    def _built(self, commit: str) -> Kernel | None:
        """The kernel of a commit; None when it does not build."""
        try:
            return self._tree.kernel(commit)
        except BuildError as exc:
            self._tree.session.progress.say(f"    skipped: {exc.brief}")
            return None

    def _booted(self, kernel: Kernel, seed: int = 1) -> Outcome:
        """One boot of the cell with the exact engine; why, when it fails, is said."""
        session = self._tree.session
        task = self._planned.on(kernel, reference=self._reference)
        (outcome,) = session.outcomes([task.seeded(seed)])
        if outcome.error:
            session.progress.say(f"    skipped: {outcome.error.brief}")
        return outcome

    def _require_change(self, change: float) -> None:
        """Raise LabError unless the bad end is worse by more than the threshold."""
        if not change > self._threshold:
            limit = f"{100 * self._threshold:g} %"
            raise LabError(
                f"nothing to find: the bad end is worse by {100 * change:+.3f} %",
                hint=f"the ends must differ by more than {limit} (--threshold)",
            )


class ByFunction(CommitMeasure):
    """The exact cost of an I/O in those functions that surely tell the two ends apart, or in the
    block layer when they are not most of it.

    One boot a commit is enough where its value is almost that of an end, else several seeds are.
    """

    unit = metrics.get(cost.KERNEL).unit
    _functions: frozenset[str] = frozenset()
    _ends: tuple[float, ...] = ()

    def compare(self, good: str, bad: str) -> None:
        """Find the functions in which the bad end costs more."""
        pair = (self._tree.kernel(good), self._tree.kernel(bad))
        self._reference = pair[0]
        (ends,) = self._measured(pair)
        cost_diff.require_sound_base([ends])
        bisect_search.require_measured(*ends.values)
        self._require_change(ends.change or 0.0)
        surely = [change for change in ends.functions if change.sure]
        sums = (math.fsum(f.before for f in surely), math.fsum(f.after for f in surely))
        self._ends = ends.finding.measured
        if abs(sums[1] - sums[0]) >= abs(self._ends[1] - self._ends[0]) / 2:
            self._functions = frozenset(change.function for change in surely)
            self._ends = sums

    def value(self, commit: str) -> float | None:
        """Instructions per I/O in these functions."""
        kernel = self._built(commit)
        if kernel is None:
            return None
        first = self._cost(kernel, 1)
        if first is None or not self._ends:
            return first
        apart = abs(self._ends[1] - self._ends[0])
        near = min(abs(first - end) for end in self._ends) <= _NEAR * apart
        return first if near else self._cost(kernel, _SEEDS)

    def _cost(self, kernel: Kernel, seeds: int) -> float | None:
        """What an I/O costs on a kernel, the mean of some seeds; None when one fails."""
        session = self._tree.session
        boots = [self._booted(kernel, seed).boots for seed in range(1, seeds + 1)]
        if not all(boots):
            return None
        if not self._functions:
            return statistics.fmean(seed_boots[0].values[cost.BLOCK_LAYER] for seed_boots in boots)
        costs = [session.store.cost(seed_boots[0].id) for seed_boots in boots]
        return statistics.fmean(
            boot_cost.within(self._functions) for boot_cost in costs if boot_cost
        )

    def changes(self, good: str, bad: str) -> list[cost_diff.CellChange]:
        """The change of the cell, and the functions that it is in."""
        return self._measured((self._tree.kernel(good), self._tree.kernel(bad)))

    def _measured(self, pair: tuple[Kernel, Kernel]) -> list[cost_diff.CellChange]:
        session = self._tree.session
        threshold = Threshold(self._threshold, cost_diff.CHANGED.seeds)
        return cost_diff.measure(session, pair, [self._planned], threshold, self._reference)


class ByCounter(CommitMeasure):
    """A counter: one boot of a deterministic engine a commit."""

    def __init__(
        self, tree: CommitTree, planned: PlannedCell, threshold: float, metric: str
    ) -> None:
        super().__init__(tree, planned, threshold)
        self._metric = metric
        self.unit = metrics.get(metric).unit

    def compare(self, good: str, bad: str) -> None:
        """Count at both ends; either may count more."""
        low, high = sorted(bisect_search.require_measured(self.value(good), self.value(bad)))
        self._require_change((high - low) / high if high else 0.0)

    def value(self, commit: str) -> float | None:
        """The counter of a commit."""
        kernel = self._built(commit)
        return None if kernel is None else self._booted(kernel).value(self._metric)


class ByTime(CommitMeasure):
    """Wall clock: a commit and the good end are booted in pairs until the change is clear.

    The value of a commit is the logarithm of its ratio to the good end. It is bad, or good, when
    the confidence interval of that lies beyond, or below, half of what the bad end has. All
    decisions share alpha, so the commit that is found is wrong with at most that probability.
    """

    def __init__(
        self, tree: CommitTree, planned: PlannedCell, threshold: float, metric: str, decisions: int
    ) -> None:
        super().__init__(tree, planned, threshold)
        self._metric = metric
        self._alpha = tree.session.profile.alpha / decisions
        self._good = ""
        self._bad = ""
        self._whole = 0.0

    def compare(self, good: str, bad: str) -> None:
        """Boot both ends in pairs; the bad one must be worse in what the metric is about."""
        self._good = good
        kernels = self._tree.kernel(good), self._tree.kernel(bad)
        pairs = self._decided(kernels, 0.0)
        if pairs is None:
            raise LabError(
                f"the ends cannot be told apart by {self._metric}",
                hint="a profile with longer runs tells smaller differences",
            )
        self._require_change(-metrics.improvement(pairs.change, metrics.get(self._metric).better))
        self._bad, self._whole = bad, math.log1p(pairs.change)

    def value(self, commit: str) -> float | None:
        """The logarithm of a commit's ratio to the good end; None while it may be either."""
        known = {self._good: 0.0, self._bad: self._whole}
        if commit in known:
            return known[commit]
        kernel = self._built(commit)
        if kernel is None:
            return None
        for end, value in known.items():
            if self._tree.kernel(end).code == kernel.code:
                return value
        pairs = self._decided((self._tree.kernel(self._good), kernel), self._whole / 2)
        return math.log1p(pairs.change) if pairs else None

    def shown(self, value: float) -> str:
        """A value as a change in per cent."""
        return f"{self._metric} {percent(math.expm1(value), exact=False)}"

    def _decided(self, kernels: tuple[Kernel, Kernel], middle: float) -> Paired | None:
        """Pairs of boots of two kernels whose log-ratio is surely not middle; None when unsure.
        Raises LabError when one of the ends fails.
        """
        tree = self._tree
        tasks = cost_diff.tasks_of([self._planned], kernels, (_GOOD, _OTHER))
        bound = Interval(math.expm1(middle), math.inf)

        def is_clear(rounds: Rounds) -> bool:
            pairs = rounds.paired(self._metric)
            return pairs is not None and pairs.decides(bound, self._alpha) is not None

        with tree.session.measuring(tasks) as runner:
            rounds = runner.rounds(tasks, tree.session.profile.rounds, is_clear)
        if rounds.error:
            if rounds.failed_arm == _GOOD or not self._bad:
                end = "good" if rounds.failed_arm == _GOOD else "bad"
                what, where = rounds.error.what, rounds.error.where
                raise LabError(f"the {end} end fails: {what}", where=where)
            tree.session.progress.say(f"    skipped: {rounds.error.brief}")
            return None
        if is_clear(rounds):
            return rounds.paired(self._metric)
        tree.session.progress.say("    skipped: the rounds of this profile do not tell")
        return None


def of_cell(
    text: str,
    tree: CommitTree,
    threshold: float | None,
    decisions: int,
    *,
    timed: bool,
    queue: Settings = (),
) -> CommitMeasure:
    """The measure of TOPOLOGY/SCHEDULER/WORKLOAD: exact where possible unless timed is wanted.

    queue are attributes of the disk's queue. threshold is a fraction; None stands for the gate's.
    Raises UsageError for what is no cell.
    """
    exact = parse_cell(text, tree.session.profile, Engine.EXACT, queue)
    if not timed and cost_diff.has_exact_cost(exact.cell):
        return ByFunction(tree, exact, _or(threshold, USUAL_THRESHOLD))
    wall_clock = tree.session.testbed.host.best_wall_clock()
    cell = parse_cell(text, tree.session.profile, wall_clock, queue)
    metric = workload.get(cell.cell.workload).metric
    return ByTime(tree, cell, _or(threshold, USUAL_TIME), metric, decisions)


def of_claim(
    text: str, tree: CommitTree, threshold: float | None, decisions: int, *, timed: bool
) -> CommitMeasure:
    """The measure of SERIES/CLAIM or SERIES/CLAIM/METRIC: what the claim expects something of.

    It is measured on the hardware of the claim's second arm. The first expectation that is exact
    is taken, without one or with timed the first of wall clock. Raises UsageError for a claim that
    does not exist or that this host cannot measure.
    """
    name, _, title = text.partition("/")
    title, _, metric = title.partition("/")
    named_series = series.get(name)
    if title not in named_series.all_claims:
        raise UsageError(
            f"{name} has no claim {title!r}", hint=nearest(title, named_series.all_claims)
        )
    session = tree.session
    # A check that is named is asked for, whatever the profile boots.
    wanted = session.profile.model_copy(update={"checks": True})
    every = experiment.experiments(named_series, wanted, session.testbed.host, host_time=True)
    candidates = [
        candidate
        for candidate in every
        if candidate.claim == title
        and candidate.runs
        and metric in ("", candidate.expectation.metric)
    ]
    # One boot of the exact engine answers these for a commit.
    exact = [
        candidate
        for candidate in candidates
        if candidate.level is Level.MECHANISM or candidate.expectation.metric == cost.KERNEL
    ]
    by_time = [candidate for candidate in candidates if candidate.timed]
    matches = by_time if timed or not exact else exact
    if not matches:
        raise UsageError(
            f"nothing that this host can measure is expected of {text}",
            hint="choose another claim, metric or profile",
        )
    first = matches[0]
    cell = PlannedCell(cell=first.sides[-1].cell, swept=first.swept)
    metric = first.expectation.metric
    if first.level is Level.COST:
        return ByFunction(tree, cell, _or(threshold, USUAL_THRESHOLD))
    if first.level is Level.MECHANISM:
        return ByCounter(tree, cell, _or(threshold, USUAL_TIME), metric)
    return ByTime(tree, cell, _or(threshold, USUAL_TIME), metric, decisions)


def decisions(line: Sequence[str]) -> int:
    """How many times a bisection of a line of commits decides: for the ends and for each step."""
    return 1 + math.ceil(math.log2(max(2, len(line))))


def _or(threshold: float | None, usual: str) -> float:
    return fraction(usual) if threshold is None else threshold
