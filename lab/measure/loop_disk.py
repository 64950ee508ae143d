# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads of a disk that takes no time, by I/O scheduler and number of processes, here and simulated.

The same program does the same reads on a machine and in a guest (lab/build/primitives/disk.c), so a
kernel's own contention can be compared. Any machine has a loop disk, and it needs no other.
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
from lab.measure.primitives import Measured, joined

_CONTROL = Path("/dev/loop-control")
# What a process keeps in flight: of 16 processes no more than the 128 requests of a loop disk.
_DEPTH = 4
# Chosen: a minute on 16 CPUs, and two under the simulation.
_READS = 40_000
_REPETITIONS = 3
_SIMULATED_READS = 400


def is_disk(name: str) -> bool:
    """Whether a primitive of that name is such a read."""
    return name.startswith("disk-")


def natively(cpus: Sequence[int]) -> Measured:
    """The reads on this machine, in ns, of all processes together. The kernel's log tells that they
    fail. Raises LabError for a user who may not make a loop disk.
    """
    if not os.access(_CONTROL, os.R_OK | os.W_OK):
        raise LabError(
            "a loop disk cannot be made here",
            where=str(_CONTROL),
            hint="run it as root, on a kernel with loop disks",
        )
    processes = primitives.thread_counts(len(cpus))
    return primitives.on_host(*_words(processes, _READS, _REPETITIONS), joined(cpus))


def simulated(
    testbed: Testbed,
    kernel: Kernel,
    model: MachineModel,
    processes: Sequence[int],
    progress: Progress,
) -> Measured:
    """The same reads on a simulated machine. Raises GuestError when the guest fails."""
    words = " ".join(map(str, _words(processes, _SIMULATED_READS, 1)))
    with progress.step(f"simulating a disk and {max(processes)} processes"):
        return primitives.in_guest(testbed, kernel, model, max(2, *processes), words, progress)


def _words(processes: Sequence[int], reads: int, repetitions: int) -> list[str | int]:
    return ["disk", ",".join(SCHEDULERS), joined(processes), _DEPTH, reads, repetitions]
