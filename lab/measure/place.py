# SPDX-License-Identifier: GPL-2.0-or-later
"""Where guests run: on this host, or on others that are asked to (lab/fleet)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol

from lab.base import host_time
from lab.guest.time_slices import Slot
from lab.measure import sampling
from lab.measure.job import Job, Testbed
from lab.measure.memory import MemoryBudget
from lab.measure.sampling import Sample


class Measure(Protocol):
    """Boots a job once, as lab.measure.sampling.measure does."""

    def __call__(
        self, folder: Path, observe: Callable[[str], None], slot: Slot | None = None
    ) -> Sample:
        """The numbers of a boot; its raw outputs lie in folder. Raises GuestError."""


class Place(Protocol):
    """Where guests run, so many at the same time as the host has memory for deterministic ones."""

    @property
    def most(self) -> int:
        """How many deterministic guests may ask for memory at the same time."""

    @property
    def slots(self) -> int:
        """How many deterministic guests run side by side by now."""

    def opened(self, testbed: Testbed) -> AbstractContextManager[None]:
        """Make ready for guests that were checked with a testbed, while the block runs."""

    def slot(self, job: Job, look: Callable[[], None]) -> AbstractContextManager[Measure]:
        """Wait until there is memory for a job, and keep it while the block runs.

        look is called now and then meanwhile; what it raises ends the waiting. Raises GuestError
        (``mismatch``) for a job that never has enough.
        """


class ThisHost:
    """CPUs of this host, of which a deterministic guest has one to itself, and its memory.

    cpus says on how many CPUs guests run, all that the process may use unless it is given.
    """

    def __init__(self, memory_gib: float, cpus: int = 0) -> None:
        self.memory = MemoryBudget(memory_gib)
        # A deterministic guest's threads take turns: more than one CPU would be of no use.
        host_cpus = sorted(os.sched_getaffinity(0))
        host_cpus = host_cpus[: cpus or len(host_cpus)]
        self.slots = self.most = len(host_cpus)
        self._cpus: SimpleQueue[int] = SimpleQueue()
        for cpu in host_cpus:
            self._cpus.put(cpu)

    def opened(self, testbed: Testbed) -> AbstractContextManager[None]:
        """Nothing has to be made ready."""
        del testbed
        return nullcontext()

    @contextmanager
    def slot(self, job: Job, look: Callable[[], None] = lambda: None) -> Iterator[Measure]:
        """A CPU for a deterministic guest, and memory for any, while the block runs.

        A deterministic guest does not run while another lab times something.
        """

        def measure(
            folder: Path, observe: Callable[[str], None], slot: Slot | None = None
        ) -> Sample:
            return sampling.measure(job, folder, observe, slot, cpu)

        deterministic = job.cell.engine.deterministic
        with (
            host_time.disturbing(look) if deterministic else nullcontext(),
            self._cpu(job) as cpu,
            self.memory.taken(job.machine.memory_mib),
        ):
            yield measure

    @contextmanager
    def _cpu(self, job: Job) -> Iterator[int | None]:
        if not job.cell.engine.deterministic:
            yield None
            return
        cpu = self._cpus.get()
        try:
            yield cpu
        finally:
            self._cpus.put(cpu)
