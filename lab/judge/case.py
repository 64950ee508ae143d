# SPDX-License-Identifier: GPL-2.0-or-later
"""A case: a series with all that is needed to measure it, its kernels built."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lab.base.errors import LabError
from lab.build.config_diff import changed_options
from lab.build.kernel import Kernel
from lab.inputs.series import BASE, Series
from lab.judge import equal_code, well_formed
from lab.judge.experiment import Experiment, Side, experiments, fragments
from lab.judge.finding import Evidence
from lab.measure import host
from lab.measure.boot_store import BootStore, Ends
from lab.measure.cell import Task
from lab.measure.cell_orders import has_block_layer
from lab.measure.host import Report
from lab.measure.session import Session

# What a kernel of a configuration that no other one has takes, in seconds: measured on two quiet
# cores. It only orders the series.
_KERNEL_S = 300.0


@dataclass(frozen=True)
class Case:
    """A series with all that is needed to measure it: its experiments, and a task for each side.

    configuration is what Judged has.
    """

    series: Series
    experiments: tuple[Experiment, ...]
    tasks: Mapping[Side, Task]
    configuration: Mapping[str, tuple[str, ...]]

    def same(self, experiment: Experiment) -> bool:
        """Whether an experiment compares an arm with itself, under another name."""
        ran = {(self.tasks[side].cell, self.tasks[side].kernel) for side in experiment.sides}
        return experiment.expectation.bound.is_change and len(ran) == 1

    def unchanged(self, experiment: Experiment, known: Evidence, store: BootStore) -> int:
        """How many functions the boots of an experiment about a change executed, where it is
        proven that none of them differs between its arms; else 0.
        """
        if not experiment.asks_for_no_change or known.failure or len(known.boots) != 2:
            return 0
        before, after = (self.tasks[side] for side in experiment.sides)
        if before.cell != after.cell or not all(known.boots):
            return 0
        return equal_code.functions((before.kernel, after.kernel), known.boots, store)

    def seeds(self, experiment: Experiment, count: int) -> list[list[Task]]:
        """The tasks of an experiment without rounds, by side: one for each of count seeds."""
        tasks = [self.tasks[side] for side in experiment.booted]
        return [[task.seeded(seed) for seed in range(1, count + 1)] for task in tasks]

    def ends(self, experiment: Experiment, store: BootStore) -> tuple[Ends, Ends]:
        """How all boots on record of an experiment's patched kernels ended, and of the others that
        the series has of that configuration.
        """
        configured = fragments(self.series, experiment.sides[0].cell)
        patched = {
            self.tasks[s].kernel.id for s in experiment.sides if s.patched and s in self.tasks
        }
        base = {
            task.kernel.id
            for side, task in self.tasks.items()
            if not side.patched and fragments(self.series, side.cell) == configured
        }
        return store.ends(patched), store.ends(base - patched)

    def running(self, *, timed: bool) -> list[Experiment]:
        """The experiments that need boots: with rounds, or without."""
        return [
            experiment
            for experiment in self.experiments
            if experiment.runs and not self.same(experiment) and experiment.timed == timed
        ]


def cheapest_first(
    wanted: Sequence[Series], session: Session, claims: Collection[tuple[str, str]] = ()
) -> list[Series]:
    """Series in the order in which they are judged: what takes least comes first, so that the first
    verdict comes early. claims are as prepare() has them.
    """
    took, here = session.durations, host.unchecked()

    def seconds(series: Series) -> float:
        try:
            selected = _selected(series, session, here, claims)
        except LabError:
            return 0.0  # preparing it tells what is wrong
        seeds: dict[Side, int] = {}
        for experiment in selected:
            count = experiment.rounds if experiment.timed else experiment.seed_counts[0]
            for side in experiment.booted if experiment.runs else ():
                seeds[side] = max(seeds.get(side, 0), count)
        configurations = {fragments(series, side.cell) for side in seeds} - {series.kernel}
        boots = sum(count * took.of(side.cell) for side, count in seeds.items())
        return boots + _KERNEL_S * len(configurations)

    return sorted(wanted, key=seconds)


def _selected(
    series: Series, session: Session, report: Report, claims: Collection[tuple[str, str]]
) -> list[Experiment]:
    """The experiments of a series that are wanted, on the host of a report."""
    every = experiments(series, session.profile, report, host_time=session.host_time)
    return [each for each in every if not claims or (series.name, each.claim) in claims]


def prepare(series: Series, session: Session, claims: Collection[tuple[str, str]] = ()) -> Case:
    """The experiments of a series, and all kernels that they need, built.

    claims are the pairs of series and claim that are wanted; none means all. Raises UsageError for
    a series that is not well formed, BuildError for patches that do not apply or build.
    """
    well_formed.check(series)
    testbed = session.check_engines(series.tree, series.kernel)
    selected = _selected(series, session, testbed.host, claims)
    kernels: dict[tuple[str, tuple[str, ...]], Kernel] = {}
    tasks: dict[Side, Task] = {}
    for experiment in selected:
        for side in experiment.booted if experiment.runs else ():
            level, wanted = series.all_arms[side.arm].patches, fragments(series, side.cell)
            if (level, wanted) not in kernels:
                kernels[level, wanted] = session.kernel(series.tree, series.patches(level), wanted)
            kernel = kernels[level, wanted]
            task = Task(cell=side.cell, kernel=kernel, arm=side.arm, swept=experiment.swept)
            # No patch decides what the block layer is, not even one of base/.
            if has_block_layer(side.cell):
                task = task.beside(session.kernel(series.tree, (), wanted))
            tasks[side] = task
    return Case(series, tuple(selected), tasks, _configuration(kernels))


def _configuration(
    kernels: Mapping[tuple[str, tuple[str, ...]], Kernel],
) -> dict[str, tuple[str, ...]]:
    """In which options kernels with patches differ from those of the same fragments without."""
    options: dict[str, tuple[str, ...]] = {}
    for (level, configured), kernel in kernels.items():
        if base := kernels.get((BASE, configured)):
            changed = (*options.get(level, ()), *changed_options(base, kernel))
            options[level] = tuple(dict.fromkeys(changed))
    return {level: changed for level, changed in options.items() if changed}
