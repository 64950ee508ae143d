# SPDX-License-Identifier: GPL-2.0-or-later
"""A cell: one thing to measure."""

from __future__ import annotations

from dataclasses import dataclass

from lab.inputs.terms import Engine
from lab.inputs.workload import Value


@dataclass(frozen=True)
class Cell:
    """One thing to measure.

    parameters are the workload's, sorted by name, and swept names those that differ between the
    cells of a plan; cpus and hw_queues count vCPUs and hardware queues when they are not the
    topology's own, kernel_parameters holds more of these. With counters, which only an instrumented
    kernel has, the cell is counted, not timed. seed chooses the sealed guest's random numbers:
    equal guests with another seed do the same work a little differently.
    """

    topology: str
    scheduler: str
    workload: str
    parameters: tuple[tuple[str, Value], ...]
    engine: Engine
    cpus: int = 0
    swept: tuple[str, ...] = ()
    arm: str = "stock"
    hw_queues: int = 0
    kernel_parameters: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    seed: int = 0

    def __str__(self) -> str:
        swept = f" {self.sweep}" if self.sweep else ""
        return f"{self.topology} {self.scheduler} {self.workload}{swept}"

    @property
    def sweep(self) -> str:
        """The swept parameters, such as ``clients=4``."""
        return " ".join(f"{k}={v}" for k, v in self.parameters if k in self.swept)
