# SPDX-License-Identifier: GPL-2.0-or-later
"""Cells: what is measured, in which order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab import topology, workload
from lab.config import PROJECT
from lab.errors import UsageError, nearest
from lab.profile import Profile
from lab.qemu import Engine
from lab.workload import Value

SCHEDULERS = ("none", "mq-deadline", "bfq", "kyber")


@dataclass(frozen=True)
class Cell:
    """One thing to measure.

    parameters are the workload's, sorted by name; cpus is the number of vCPUs when it is not the
    topology's own.
    """

    topology: str
    scheduler: str
    workload: str
    parameters: tuple[tuple[str, Value], ...]
    engine: Engine
    cpus: int = 0
    arm: str = "stock"

    def __str__(self) -> str:
        swept = f" {self.sweep}" if self.sweep else ""
        return f"{self.topology} {self.scheduler} {self.workload}{swept}"

    @property
    def sweep(self) -> str:
        """The parameters that the workload sweeps, such as ``clients=4``."""
        swept = workload.get(self.workload).parameters
        return " ".join(f"{k}={v}" for k, v in self.parameters if isinstance(swept[k], tuple))


@dataclass(frozen=True)
class Selection:
    """What a user picked of a profile's matrix; empty means all."""

    topologies: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    parameters: tuple[tuple[str, tuple[Value, ...]], ...] = ()
    cpus: int = 0

    def check(self) -> None:
        """Raise UsageError for a name that does not exist."""
        for name in self.topologies:
            topology.get(name)
        for name in self.workloads:
            workload.get(name)
        for name in self.schedulers:
            if name not in SCHEDULERS:
                raise UsageError(
                    f"no I/O scheduler is called {name!r}", hint=nearest(name, SCHEDULERS)
                )


def cells(profile: Profile, selection: Selection, engine: Engine) -> list[Cell]:
    """The cells of a profile's matrix in the order in which they are run, none twice.

    Raises UsageError for unknown names and when nothing is selected.
    """
    selection.check()
    # One vCPU is the exact engine's default: it shows path length, and that needs no second one.
    cpus = selection.cpus or (1 if engine.sealed else 0)
    found: dict[Cell, None] = {}
    for block in profile.matrix:
        wanted = itertools.product(
            _chosen(block.workloads, selection.workloads),
            _chosen(block.topologies, selection.topologies),
            _chosen(block.schedulers, selection.schedulers),
        )
        for work, machine, scheduler in wanted:
            _require_possible(work, machine)
            for parameters in _parameter_sets(work, profile, selection):
                found[Cell(machine, scheduler, work, parameters, engine, cpus)] = None
    if not found:
        raise UsageError(
            "the selection leaves no cell of the profile's matrix",
            hint="look at configs/profile for what a profile holds",
        )
    return list(found)


def _chosen(offered: Sequence[str], selected: Sequence[str]) -> list[str]:
    return [name for name in offered if not selected or name in selected]


def _require_possible(work: str, machine: str) -> None:
    if workload.get(work).filesystem and not topology.get(machine).holds_data:
        raise UsageError(
            f"{work} needs a disk that holds data, {machine} has none",
            where=str(PROJECT / "configs/profile"),
            hint="put the workload into a matrix block with other topologies",
        )


def _parameter_sets(
    work: str, profile: Profile, selection: Selection
) -> Iterator[tuple[tuple[str, Value], ...]]:
    """Every combination of the workload's parameters after the profile's and the user's changes."""
    definition = workload.get(work)
    changed = definition.checked(profile.parameters.get(work, {}), f"parameters.{work}")
    own: Mapping[str, tuple[Value, ...]] = {
        name: values for name, values in selection.parameters if name in definition.parameters
    }
    merged = {**changed, **own}
    names = sorted(merged)
    lists = [value if isinstance(value := merged[name], tuple) else (value,) for name in names]
    for values in itertools.product(*lists):
        yield tuple(zip(names, values, strict=True))


def unused_parameters(selection: Selection, found: Sequence[Cell]) -> list[str]:
    """Names of the user's parameters that no cell has."""
    known = {name for cell in found for name, _ in cell.parameters}
    return [name for name, _ in selection.parameters if name not in known]
