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
from lab.judge import experiment
from lab.judge.experiment import Experiment
from lab.measure import host
from lab.measure.cell import Cell, PlannedCell
from lab.measure.durations import Durations
from lab.measure.job import changes

# What 200 boots of the quick profile left, one with another.
_LEFT_MIB = 5.0
_UNKNOWN = Durations()
_NOT_AGAIN = "A real run does not measure again what was measured on the same kernels."


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
    for own in wanted:
        every = experiment.experiments(own, profile, here, host_time=host_time)
        asked = [one for one in every if not claims or (own.name, one.claim) in claims]
        planned = boots(asked, own)
        every_boot += planned
        parts.append(_series(own, asked, planned))
    engines = ", ".join(one.engine for one in here.engines if one.works)
    total = sum(one.count for one in every_boot)
    last = (
        f"{_count(total, 'boot')} in all, none of them done, and nothing built. {_NOT_AGAIN} "
        f"First it checks each engine that this counts on: {engines}. "
        f"{_effort(every_boot, durations)}"
    )
    shown = "\n".join([*parts, *textwrap.wrap(last, 78)])
    return Plan(shown, tuple(every_boot), _seconds(every_boot, durations))


def of_cells(
    kernels: Sequence[str],
    planned: Sequence[PlannedCell],
    each: int,
    durations: Durations = _UNKNOWN,
) -> Plan:
    """What measuring the same cells on some kernels would build and boot, each so often on each.

    kernels say what is built, a line each.
    """
    found = [Boots(("",) * len(kernels), one.cell, each, rounds=False) for one in planned]
    lines = [f"  kernel   {one}" for one in kernels]
    lines += ["", *_table(found, arms=False), ""]
    for told in filter(None, dict.fromkeys(changes(one.cell) for one in planned)):
        lines += [*textwrap.wrap(told, 78), ""]
    total = sum(one.count for one in found)
    last = f"{_count(total, 'boot')}, and nothing done. {_NOT_AGAIN} {_effort(found, durations)}"
    shown = "\n".join([*lines, *textwrap.wrap(last, 78)])
    return Plan(shown, tuple(found), _seconds(found, durations))


def boots(asked: Sequence[Experiment], own: Series) -> list[Boots]:
    """What would be booted for experiments of one series; what shares boots is there once."""
    running = [one for one in asked if one.runs and not _same(one, own)]
    single: dict[Cell, dict[str, int]] = {}
    for one in running:
        for side in () if one.timed else one.booted:
            arms = single.setdefault(side.cell, {})
            arms[side.arm] = max(arms.get(side.arm, 0), one.seed_counts[0])
    found = [Boots(tuple(a), cell, max(a.values()), rounds=False) for cell, a in single.items()]
    for group, sides in experiment.in_rounds([one for one in running if one.timed]):
        each = max(1 if one.lacking else one.rounds for one in group)
        found.append(Boots(tuple(side.arm for side in sides), sides[0].cell, each, rounds=True))
    return found


def _same(asked: Experiment, own: Series) -> bool:
    """Whether an experiment compares an arm with itself: then nothing is booted for it."""
    sides = {(own.all_arms[side.arm].patches, side.cell) for side in asked.sides}
    return asked.expectation.bound.is_change and len(sides) == 1


def _seconds(planned: Sequence[Boots], durations: Durations) -> float:
    """How long boots take, as many at a time as there are CPUs."""
    seconds = sum(one.count * durations.of(one.cell) for one in planned)
    return seconds / (os.cpu_count() or 1)


def _effort(planned: Sequence[Boots], durations: Durations) -> str:
    """How long boots take, and what they leave on the disk."""
    whole = duration(_seconds(planned, durations))
    gib = sum(one.count for one in planned) * _LEFT_MIB / 1024
    known = "as boots of their kind took here" if durations.known else "as on two cores"
    return (
        f"That takes {whole}, {known}, and leaves {gib:.1f} GiB; each kernel that is not there yet "
        "takes minutes and 0.1 GiB more."
    )


def _series(own: Series, asked: Sequence[Experiment], planned: Sequence[Boots]) -> str:
    lines = [*_wrapped(f"{own.name}: {own.title}", ""), ""]
    lines += [f"  source   {own.tree}, with {', '.join(own.kernel)}", *_kernels(own, planned)]
    lines += ["", *_table(planned, arms=True)] if planned else []
    lines.append("")
    for claim in own.all_claims:
        skipped = sum(bool(one.skipped) for one in asked if one.claim == claim)
        if skipped:
            lines.append(f"  {claim}: the profile skips {_count(skipped, 'expectation')}")
    for expected in asked:
        if expected.lacking and not expected.skipped:
            where = f"{expected.claim}, {expected.expectation.metric}"
            lines += _wrapped(f"{where}: inconclusive here, {expected.lacking}", "  ")
    return "\n".join([*lines, ""])


def _table(planned: Sequence[Boots], *, arms: bool) -> list[str]:
    """A line for each cell that would be booted."""
    table = PlainTable("")
    for title in ("boots", "engine", *(("arms",) if arms else ()), "cell"):
        table.column(title, right=title == "boots")
    for one in planned:
        told = _cell(one, _differing(one, planned))
        names = (", ".join(one.arms),) if arms else ()
        table.row(str(one.count), one.cell.engine, *names, told)
    return table.text().strip("\n").splitlines()


def _kernels(own: Series, planned: Sequence[Boots]) -> list[str]:
    """A line for each kernel that would be built."""
    lines = ["  kernel   without patches, to check the engines"]
    kernels = dict.fromkeys(
        (own.all_arms[arm].patches, experiment.fragments(own, one.cell)[len(own.kernel) :])
        for one in planned
        for arm in one.arms
    )
    for level, extra in kernels:
        arms = [arm for arm, one in own.all_arms.items() if one.patches == level]
        used = [arm for arm in arms if any(arm in one.arms for one in planned)]
        count = _count(len(own.patches(level)), "patch", "patches")
        lines.append(f"  kernel   {', '.join(used)}: {', '.join([count, *extra])}")
    return lines


def _differing(one: Boots, planned: Sequence[Boots]) -> list[str]:
    """The parameters that tell a cell from others of its name, but for the usual ones."""
    others = [dict(other.cell.parameters) for other in planned if _alike(one.cell, other.cell)]
    usual = workload.get(one.cell.workload).parameters
    return [
        name
        for name, value in one.cell.parameters
        if value != usual.get(name) and any(other.get(name) != value for other in others)
    ]


def _alike(one: Cell, other: Cell) -> bool:
    return (str(one), one.engine) == (str(other), other.engine)


def _cell(one: Boots, differing: Sequence[str]) -> str:
    cell = one.cell
    parts = [f"{cell} {cell.sweep(differing)}".strip(), _count(cell.cpus, "vCPU")]
    parts += ["counted"] * (not cell.cost)
    parts += [f"<= {_count(one.each, 'round')}"] * one.rounds
    return ", ".join(parts)


def _count(number: int, word: str, words: str = "") -> str:
    return f"{number} {word if number == 1 else words or f'{word}s'}"


def _wrapped(sentence: str, indent: str) -> list[str]:
    return textwrap.wrap(
        sentence, 78, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )
