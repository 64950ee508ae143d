# SPDX-License-Identifier: GPL-2.0-or-later
"""How the throughput of schedulers and kernels grows with the CPUs of a simulated machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.base.errors import UsageError
from lab.build.kernel import Kernel
from lab.inputs import machine_model, workload
from lab.inputs.queue_settings import Settings
from lab.inputs.terms import Engine
from lab.measure import matrix
from lab.measure.cell import STOCK
from lab.measure.matrix import Selection
from lab.measure.runner import Outcome
from lab.measure.session import Session

USUAL_CPUS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Curve:
    """A scheduler on a kernel: an outcome for each number of CPUs."""

    scheduler: str
    arm: str
    outcomes: tuple[Outcome, ...]

    @property
    def name(self) -> str:
        """The scheduler, and the arm where there are two."""
        return self.scheduler if self.arm == STOCK else f"{self.scheduler} ({self.arm})"


def require_possible(machine: str, work: str, cpus: Sequence[int]) -> None:
    """Raise UsageError unless a guest of any of these sizes fits the machine, with a job a CPU."""
    machine_model.get(machine).options(max(cpus))
    if workload.JOBS not in workload.get(work).parameters:
        raise UsageError(
            f"{work} has no parameter {workload.JOBS}",
            hint="choose an fio workload of several jobs",
        )


def measure(
    session: Session,
    kernels: Mapping[str, Kernel],
    topology: str,
    work: str,
    schedulers: Sequence[str],
    machine: str,
    cpus: Sequence[int],
    queue: Settings = (),
) -> list[Curve]:
    """A curve for each scheduler and each kernel, which are given by the names of their arms.

    Every guest has one job a CPU, and a disk whose queue has these attributes. Raises UsageError
    for what does not exist.
    """
    tasks = []
    for scheduler in schedulers:
        for arm, kernel in kernels.items():
            for count in cpus:
                jobs = ((workload.JOBS, (count,)),)
                selection = Selection(
                    (topology,), (scheduler,), (work,), jobs, count, machine, queue
                )
                (planned,) = matrix.cells(session.profile, selection, Engine.SIM)
                tasks.append(planned.on(kernel, arm))
    outcomes = iter(session.outcomes(tasks))
    return [
        Curve(scheduler, arm, tuple(next(outcomes) for _ in cpus))
        for scheduler in schedulers
        for arm in kernels
    ]
