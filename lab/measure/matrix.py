# SPDX-License-Identifier: GPL-2.0-or-later
"""Cells: what is measured, in which order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lab.base.errors import UsageError, nearest
from lab.base.system import data
from lab.inputs import device_line, topology, workload
from lab.inputs.profile import Profile
from lab.inputs.queue_settings import Settings
from lab.inputs.terms import Engine
from lab.inputs.workload import Value
from lab.measure import fio_cell, metrics
from lab.measure.cell import PlannedCell, resolved

SCHEDULERS = ("none", "mq-deadline", "bfq", "kyber")


@dataclass(frozen=True)
class Selection:
    """What a user picked of a profile's matrix; empty means all."""

    topologies: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    parameters: tuple[tuple[str, tuple[Value, ...]], ...] = ()
    cpus: int = 0
    machine: str = ""
    queue: Settings = ()


def require_known(
    topologies: Sequence[str],
    schedulers: Sequence[str],
    workloads: Sequence[str],
    where: str = "",
    own_schedulers: Sequence[str] = (),
) -> None:
    """Raise UsageError for a name that does not exist; where says in which file it stands.

    own_schedulers are those that only the kernels to be measured have.
    """
    user_workloads = filter(workload.is_given, workloads)
    lines = [name for name in topologies if device_line.is_line(name)]
    for line in lines:
        device_line.require_possible(line, where)
    for what, names, known in (
        ("topology", topologies, (*topology.known(), *lines)),
        ("workload", workloads, (*workload.known(), *user_workloads)),
        ("I/O scheduler", schedulers, (*SCHEDULERS, *own_schedulers)),
    ):
        for name in names:
            if name not in known:
                raise UsageError(
                    f"no {what} is called {name!r}", where=where, hint=nearest(name, known)
                )


def cells(profile: Profile, selection: Selection, engine: Engine) -> list[PlannedCell]:
    """The cells of a profile's matrix in the order in which they are run, none twice.

    Raises UsageError for unknown names and when nothing is selected.
    """
    require_known(selection.topologies, selection.schedulers, selection.workloads)
    # One vCPU is the exact engine's default: it shows path length, and that needs no second one.
    cpus = selection.cpus or (1 if engine is Engine.EXACT else 0)
    for name, parameters in profile.parameters.items():
        workload.get(name).checked(parameters, f"parameters.{name} of the profile")
    planned: dict[PlannedCell, None] = {}
    for number, block in enumerate(profile.matrix):
        require_known(block.topologies, block.schedulers, block.workloads)
        extra = _unnamed(profile, selection) if number == 0 else Selection()
        wanted = itertools.product(
            _chosen((*block.workloads, *extra.workloads), selection.workloads),
            _chosen((*block.topologies, *extra.topologies), selection.topologies),
            _chosen(block.schedulers, selection.schedulers),
        )
        for work, machine, scheduler in wanted:
            require_possible(work, machine, str(data("configs") / "profile"))
            metrics.require_headline(work)
            swept, sets = _parameter_sets(work, profile, selection)
            for values in sets:
                cell = resolved(
                    topology_name=machine,
                    scheduler=scheduler,
                    workload=work,
                    parameters=values,
                    engine=engine,
                    cpus=cpus,
                    machine=selection.machine,
                    queue=selection.queue,
                )
                fio_cell.require_possible(cell)
                planned[PlannedCell(cell=cell, swept=swept)] = None
    if not planned:
        raise UsageError(
            "the selection leaves no cell of the profile's matrix",
            hint="look at configs/profile for what a profile holds",
        )
    return list(planned)


def by_scheduler(profile: Profile, selection: Selection, engine: Engine) -> list[PlannedCell]:
    """A cell for each scheduler of a selection, in its order, none twice; raises as cells()."""
    return [
        cells(profile, replace(selection, schedulers=(name,)), engine)[0]
        for name in dict.fromkeys(selection.schedulers)
    ]


def _unnamed(profile: Profile, selection: Selection) -> Selection:
    """What is selected but named by no block: it joins the first one."""
    topologies = {name for block in profile.matrix for name in block.topologies}
    workloads = {name for block in profile.matrix for name in block.workloads}
    return Selection(
        topologies=tuple(name for name in selection.topologies if name not in topologies),
        workloads=tuple(name for name in selection.workloads if name not in workloads),
    )


def _chosen(offered: Sequence[str], selected: Sequence[str]) -> list[str]:
    return [name for name in offered if not selected or name in selected]


def require_possible(work: str, machine: str, where: str) -> None:
    """Raise UsageError when a workload that needs its data again meets a disk that holds none."""
    definition = workload.get(work)
    if definition.job:
        return  # fio_cell gives it such a disk where it can
    if (definition.filesystem or definition.checks_data) and not topology.get(machine).holds_data:
        why = "has a file system" if definition.filesystem else "reads back what it wrote"
        raise UsageError(
            f"{work} needs a disk that holds data, {machine} has none: it {why}",
            where=where,
            hint="choose a topology with holds_data = true",
        )


def _parameter_sets(
    work: str, profile: Profile, selection: Selection
) -> tuple[tuple[str, ...], list[dict[str, Value]]]:
    """The swept parameters' names, and every combination of all parameters' values."""
    definition = workload.get(work)
    overrides = {name: v for name, v in selection.parameters if name in definition.parameters}
    definition.checked(overrides, "--set")
    merged = {**definition.parameters, **profile.parameters.get(work, {}), **overrides}
    names = sorted(merged)
    lists = [value if isinstance(value := merged[name], tuple) else (value,) for name in names]
    swept = tuple(
        name
        for name, values in zip(names, lists, strict=True)
        if len(values) > 1 or isinstance(definition.parameters[name], tuple)
    )
    sets = [dict(zip(names, values, strict=True)) for values in itertools.product(*lists)]
    return swept, sets


def require_used(selection: Selection, planned: Sequence[PlannedCell]) -> None:
    """Raise UsageError for a parameter of the user's that no cell has."""
    known = {name for planned_cell in planned for name, _ in planned_cell.cell.parameters}
    for name, _ in selection.parameters:
        if name not in known:
            raise UsageError(
                f"no selected workload has the parameter {name!r}", hint=nearest(name, known)
            )


def parse_cell(text: str, profile: Profile, engine: Engine, queue: Settings = ()) -> PlannedCell:
    """A cell out of TOPOLOGY/SCHEDULER/WORKLOAD. Raises UsageError for what is none."""
    parts = text.split("/")
    if len(parts) != 3:
        raise UsageError(f"not a cell: {text!r}", hint="write TOPOLOGY/SCHEDULER/WORKLOAD")
    selection = Selection((parts[0],), (parts[1],), (parts[2],), queue=queue)
    return cells(profile, selection, engine)[0]
