# SPDX-License-Identifier: GPL-2.0-or-later
"""Cells: what is measured; and tasks: cells on a kernel, with the labels that tables show."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from lab.base.errors import UsageError
from lab.build.kernel import Kernel
from lab.inputs import machine_model, topology
from lab.inputs import workload as workloads
from lab.inputs.queue_settings import PREFIX, Settings
from lab.inputs.terms import Engine
from lab.inputs.workload import Value, Workload

STOCK = "stock"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One thing to measure, resolved: everything that is executed but the kernel.

    parameters are the workload's, sorted by name, then the user's queue attributes, in their order,
    as queue/NAME. cpus are vCPUs, hw_queues the disk's; kernel_parameters are those beside the
    topology's own. A deterministic engine counts the counters, beside what an I/O costs or, without
    cost, alone. machine is the model of a simulated cell, which is measured again with the costs
    that variants name (machine_model.SENSITIVITY). seed chooses a deterministic guest's random
    numbers, by which its work differs a little. With callers an exact guest tells who calls whom,
    too, and is slower.
    """

    topology: str
    scheduler: str
    workload: str
    parameters: tuple[tuple[str, Value], ...]
    engine: Engine
    cpus: int
    hw_queues: int
    kernel_parameters: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    cost: bool = True
    machine: str = ""
    variants: tuple[str, ...] = ()
    seed: int = 1
    callers: bool = False

    def __str__(self) -> str:
        return f"{self.topology} {self.scheduler} {self.workload} {self.machine}".strip()

    @property
    def queue(self) -> tuple[tuple[str, str], ...]:
        """Attributes of the disk's queue that a user set, in their order."""
        attributes = [(name, str(v)) for name, v in self.parameters if name.startswith(PREFIX)]
        return tuple((name.removeprefix(PREFIX), value) for name, value in attributes)

    def number(self, name: str) -> float:
        """A parameter that must be a number; 0 when the workload has none of that name.

        Raises UsageError for text.
        """
        value = dict(self.parameters).get(name, 0)
        try:
            return float(value)
        except ValueError as exc:
            raise UsageError(f"the parameter {name} is a number, not {value!r}") from exc

    def sweep(self, names: Sequence[str]) -> str:
        """The parameters of these names, such as ``clients=4``."""
        return " ".join(f"{k}={v}" for k, v in self.parameters if k in names)


def written(cell: Cell) -> str:
    """A cell as JSON, as boots are kept: what older ones do not have is in it only where it says
    something.
    """
    fields = asdict(cell)
    if not cell.callers:
        del fields["callers"]
    return json.dumps(fields)


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """A cell of a matrix, and the parameters that tell it from its neighbours."""

    cell: Cell
    swept: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.cell} {self.cell.sweep(self.swept)}".strip()

    def on(self, kernel: Kernel, arm: str = STOCK, reference: Kernel | None = None) -> Task:
        """The cell on a kernel; one that is compared has a reference, which all arms share."""
        task = Task(cell=self.cell, kernel=kernel, arm=arm, swept=self.swept)
        return task.beside(reference) if reference else task


@dataclass(frozen=True, kw_only=True)
class Task(PlannedCell):
    """A cell on a kernel. arm and swept only label it: what is executed does not depend on them.

    block_layer are the functions that count as the kernel's block layer; None stands for those of
    its own list, which only a kernel that is compared with nothing has.
    """

    kernel: Kernel
    arm: str = STOCK
    block_layer: frozenset[str] | None = field(default=None, repr=False)

    def beside(self, reference: Kernel) -> Task:
        """The same with the block layer that the reference kernel decides."""
        return replace(self, block_layer=self.kernel.block_layer(reference))

    def seeded(self, seed: int) -> Task:
        """The same with other random numbers."""
        return replace(self, cell=replace(self.cell, seed=seed))


def has_cost(engine: Engine, work: Workload) -> bool:
    """Whether what an I/O costs can be measured: not where a deterministic guest reads its data
    back, and not of dbench in a simulation, where the number of I/Os is not known.
    """
    if engine.deterministic and work.checks_data:
        return False
    return not (engine.simulated and work.tool != "fio")


def resolved(
    *,
    topology_name: str,
    scheduler: str,
    workload: str,
    parameters: Mapping[str, Value],
    engine: Engine,
    cpus: int = 0,
    hw_queues: int = 0,
    kernel_parameters: tuple[str, ...] = (),
    counters: tuple[str, ...] = (),
    machine: str = "",
    variants: tuple[str, ...] = (),
    queue: Settings = (),
) -> Cell:
    """A cell; 0 vCPUs or hardware queues stand for as many as its topology has, or the machine of a
    simulated cell has active ones. With counters these alone are measured. queue are attributes of
    the disk's queue. Raises UsageError for a topology or a machine that does not exist.
    """
    guest_topology = topology.get(topology_name)
    if engine.simulated:
        machine = machine or machine_model.DEFAULT
        cpus = cpus or machine_model.get(machine).usual_cpus
    elif machine:
        raise UsageError(
            f"{engine} has no machine model", hint=f"use --engine {Engine.SIM} for {machine}"
        )
    costed = not counters and has_cost(engine, workloads.get(workload))
    return Cell(
        topology=topology_name,
        scheduler=scheduler,
        workload=workload,
        parameters=(
            *sorted(parameters.items()),
            *((PREFIX + name, value) for name, value in queue),
        ),
        engine=engine,
        cpus=cpus or guest_topology.cpus,
        hw_queues=hw_queues or guest_topology.hw_queues,
        kernel_parameters=kernel_parameters,
        counters=counters,
        cost=costed,
        machine=machine,
        variants=variants if costed else (),
    )
