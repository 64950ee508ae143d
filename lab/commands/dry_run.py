# SPDX-License-Identifier: GPL-2.0-or-later
"""What judging series would build and boot, from their files alone: no source, no QEMU, no root."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lab.base.plain_table import PlainTable
from lab.base.progress import duration
from lab.inputs import workload
from lab.inputs.profile import Profile
from lab.inputs.series import Series
from lab.judge.experiment import Experiment, fragments, in_rounds
from lab.judge.experiment import experiments as experiments_of
from lab.measure import host
from lab.measure.cell import Cell, PlannedCell
from lab.measure.cell_orders import changes
from lab.measure.durations import Durations

# What 200 boots of the quick profile left, one with another.
_LEFT_MIB = 5.0
_UNKNOWN = Durations()


@dataclass(frozen=True)
class Boots:
    """A cell that would be booted: under which arms, and how often under each of them."""

    arms: tuple[str, ...]
    cell: Cell
    each: int
    rounds: bool

    @property
    def count(self) -> int:
        """How many guests that makes."""
        return self.each * len(self.arms)


@dataclass(frozen=True)
class Plan:
    """What would be done, for people and for programs: seconds of all boots, side by side."""

    text: str
    boots: tuple[Boots, ...]
    seconds: float


def of_series(
    wanted: Sequence[Series],
    profile: Profile,
    *,
    claims: Collection[tuple[str, str]] = (),
    host_time: bool = False,
    durations: Durations = _UNKNOWN,
) -> Plan:
    """Kernels and boots of each series, as judge.judge would have them.

    claims are the pairs of series and claim that are wanted; none means all. Raises UsageError for
    a series that is not well formed.
    """
    here, parts = host.unchecked(), []
    every_boot: list[Boots] = []
    for series in wanted:
        every = experiments_of(series, profile, here, host_time=host_time)
        experiments = [
            experiment
            for experiment in every
            if not claims or (series.name, experiment.claim) in claims
        ]
        planned = plan_boots(experiments, series)
        every_boot += planned
        parts.append(_series(series, experiments, planned))
    engines = ", ".join(report.engine for report in here.engines if report.works)
    return _plan(parts, every_boot, durations, f"It first checks the engines {engines}. ")


def of_cells(
    kernels: Sequence[str],
    planned: Sequence[PlannedCell],
    each: int,
    durations: Durations,
) -> Plan:
    """What measuring the same cells on some kernels would build and boot, each so often on each.

    kernels say what is built, a line each.
    """
    every_boot = [Boots(("",) * len(kernels), p.cell, each, rounds=False) for p in planned]
    lines = [f"  kernel   {kernel}" for kernel in kernels]
    lines += ["", *_table(every_boot, arms=False), ""]
    for text in filter(None, dict.fromkeys(changes(p.cell) for p in planned)):
        lines += [*textwrap.wrap(text, 78), ""]
    return _plan(lines, every_boot, durations)


def plan_boots(experiments: Sequence[Experiment], series: Series) -> list[Boots]:
    """What would be booted for experiments of one series; what shares boots is there once."""
    running = [
        experiment
        for experiment in experiments
        if experiment.runs and not _same(experiment, series)
    ]
    single: dict[Cell, dict[str, int]] = {}
    for experiment in running:
        for side in () if experiment.timed else experiment.booted:
            arms = single.setdefault(side.cell, {})
            arms[side.arm] = max(arms.get(side.arm, 0), experiment.seed_counts[0])
    planned = [Boots(tuple(a), cell, max(a.values()), rounds=False) for cell, a in single.items()]
    for group, sides in in_rounds([experiment for experiment in running if experiment.timed]):
        each = max(1 if experiment.lacking else experiment.rounds for experiment in group)
        planned.append(Boots(tuple(side.arm for side in sides), sides[0].cell, each, rounds=True))
    return planned


def _same(experiment: Experiment, series: Series) -> bool:
    """Whether an experiment compares an arm with itself: then nothing is booted for it."""
    sides = {(series.all_arms[side.arm].patches, side.cell) for side in experiment.sides}
    return experiment.expectation.bound.is_change and len(sides) == 1


def _plan(
    lines: Sequence[str], planned: Sequence[Boots], durations: Durations, first: str = ""
) -> Plan:
    """Lines, and below them how many boots that makes, what is done first, how long all takes, as
    many boots at a time as there are CPUs, and what that leaves on the disk.
    """
    seconds = sum(boots.count * durations.of(boots.cell) for boots in planned)
    seconds /= os.cpu_count() or 1
    total = sum(boots.count for boots in planned)
    known = "as boots of their kind took here" if durations.known else "as on two cores"
    last = (
        f"{_count(total, 'boot')}. Nothing was built or booted. A real run reuses boots on record. "
        f"{first}That takes {duration(seconds)}, {known}, and leaves "
        f"{total * _LEFT_MIB / 1024:.1f} GiB; each kernel that is not there yet takes minutes and "
        "0.1 GiB more."
    )
    return Plan("\n".join([*lines, *textwrap.wrap(last, 78)]), tuple(planned), seconds)


def _series(series: Series, experiments: Sequence[Experiment], planned: Sequence[Boots]) -> str:
    lines = [*_wrapped(f"{series.name}: {series.title}", ""), ""]
    lines += [
        *_wrapped(f"source   {series.tree}, with {', '.join(series.kernel)}", "  "),
        *_kernels(series, planned),
    ]
    lines += ["", *_table(planned, arms=True)] if planned else []
    lines.append("")
    for claim in series.all_claims:
        skipped = sum(
            bool(experiment.skipped) for experiment in experiments if experiment.claim == claim
        )
        if skipped:
            lines.append(f"  {claim}: the profile skips {_count(skipped, 'expectation')}")
    for experiment in experiments:
        if experiment.lacking and not experiment.skipped:
            where = f"{experiment.claim}, {experiment.expectation.metric}"
            lines += _wrapped(f"{where}: inconclusive here, {experiment.lacking}", "  ")
    return "\n".join([*lines, ""])


def _table(planned: Sequence[Boots], *, arms: bool) -> list[str]:
    """A line for each cell that would be booted."""
    table = PlainTable("")
    for title in ("boots", "engine", *(("arms",) if arms else ()), "cell"):
        table.column(title, right=title == "boots")
    for boots in planned:
        text = _cell(boots, _differing(boots, planned))
        names = (", ".join(boots.arms),) if arms else ()
        table.row(str(boots.count), boots.cell.engine, *names, text)
    return table.text().strip("\n").splitlines()


def _kernels(series: Series, planned: Sequence[Boots]) -> list[str]:
    """A line for each kernel that would be built."""
    lines = ["  kernel   without patches, to check the engines"]
    kernels = dict.fromkeys(
        (series.all_arms[arm].patches, fragments(series, boots.cell)[len(series.kernel) :])
        for boots in planned
        for arm in boots.arms
    )
    for level, extra in kernels:
        arms = [arm for arm, definition in series.all_arms.items() if definition.patches == level]
        used = [arm for arm in arms if any(arm in boots.arms for boots in planned)]
        count = _count(len(series.patches(level)), "patch", "patches")
        lines.append(f"  kernel   {', '.join(used)}: {', '.join([count, *extra])}")
    return lines


def _differing(boots: Boots, planned: Sequence[Boots]) -> list[str]:
    """The parameters that tell a cell from others of its name, but for the usual ones."""
    namesakes = [
        dict(other.cell.parameters)
        for other in planned
        if (str(other.cell), other.cell.engine) == (str(boots.cell), boots.cell.engine)
    ]
    usual = workload.get(boots.cell.workload).parameters
    return [
        name
        for name, value in boots.cell.parameters
        if value != usual.get(name)
        and any(parameters.get(name) != value for parameters in namesakes)
    ]


def _cell(boots: Boots, differing: Sequence[str]) -> str:
    cell = boots.cell
    parts = [f"{cell} {cell.sweep(differing)}".strip(), _count(cell.cpus, "vCPU")]
    parts += ["counted"] * (not cell.cost)
    parts += [f"<= {_count(boots.each, 'round')}"] * boots.rounds
    return ", ".join(parts)


def _count(number: int, word: str, words: str = "") -> str:
    return f"{number} {word if number == 1 else words or f'{word}s'}"


def _wrapped(sentence: str, indent: str) -> list[str]:
    return textwrap.wrap(
        sentence, 78, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )
