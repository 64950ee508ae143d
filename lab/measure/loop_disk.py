# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads of a loop disk in memory by I/O scheduler and number of processes: here, and simulated.

The same program reads the same places on a machine and in a guest (lab/build/primitives/disk.c), so
a kernel's own contention can be compared: any machine has a loop disk, and it needs no other.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from lab.base.errors import LabError
from lab.base.progress import Progress
from lab.build.kernel import Kernel
from lab.inputs.machine_model import MachineModel
from lab.measure import primitives
from lab.measure.job import Testbed
from lab.measure.matrix import SCHEDULERS
from lab.measure.primitives import Measured

_CONTROL = Path("/dev/loop-control")
# What a process keeps in flight, by what serves the disk. Chosen; of all processes together no more
# than the 128 that a loop disk takes.
_DEPTHS = {"failing": 4, "memory": 8}
# Chosen: a machine takes a minute and a half for all, a simulated one of 16 CPUs four minutes.
_READS = 40_000
_REPETITIONS = 3
_SIMULATED_READS = 400


def kinds() -> tuple[str, ...]:
    """What serves the disk: nothing, for each request fails at once, or memory, by one thread."""
    return tuple(_DEPTHS)


def is_disk(name: str) -> bool:
    """Whether a primitive of that name is such a read."""
    return name.partition("-")[0] in _DEPTHS


def natively(cpus: Sequence[int]) -> Measured:
    """The reads on this machine: nanoseconds each, of all processes together.

    Raises LabError for a user who may not make a loop disk.
    """
    if not os.access(_CONTROL, os.R_OK | os.W_OK):
        raise LabError(
            "a loop disk cannot be made here",
            where=str(_CONTROL),
            hint="run it as root, on a kernel with loop disks",
        )
    measured: Measured = {}
    for kind in kinds():
        words = _words(kind, process_counts(kind, len(cpus)), _READS, _REPETITIONS)
        measured |= primitives.on_host(*words, primitives.joined(cpus))
    return measured


def simulated(
    testbed: Testbed,
    kernel: Kernel,
    model: MachineModel,
    wanted: Measured,
    progress: Progress,
) -> Measured:
    """The same reads as those wanted, on a simulated machine. Raises GuestError for a failure."""
    measured: Measured = {}
    for kind in kinds():
        counts = sorted({key.threads for key in wanted if key.name.startswith(f"{kind}-")})
        if counts:
            words = " ".join(map(str, _words(kind, counts, _SIMULATED_READS, 1)))
            with progress.step(f"simulating a disk ({kind}) and {max(counts)} processes"):
                measured |= primitives.in_guest(testbed, kernel, model, model.cpus, words, progress)
    return measured


def process_counts(kind: str, cpus: int) -> tuple[int, ...]:
    """How many processes are tried: a thread that serves the disk has CPUs for itself."""
    return primitives.thread_counts(max(1, cpus - 2) if kind == "memory" else cpus)


def _words(kind: str, processes: Sequence[int], reads: int, repetitions: int) -> list[str | int]:
    schedulers = ",".join(SCHEDULERS)
    numbers = (_DEPTHS[kind], reads, repetitions)
    return ["disk", kind, schedulers, primitives.joined(processes), *numbers]
