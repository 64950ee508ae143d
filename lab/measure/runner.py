# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs boots and writes every one down: what is missing of a list, or rounds of several arms."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TypeVar

from lab.base.errors import GuestError
from lab.base.progress import Progress, duration
from lab.base.stats import Paired, paired
from lab.base.text import number
from lab.build.guest_root import GuestRoot
from lab.build.kernel import Kernel
from lab.guest import host_noise
from lab.guest.boot import ATTEMPTS, QEMU_FAILURES
from lab.guest.time_slices import Slot, TimeSlices
from lab.inputs import workload
from lab.measure import host, sampling
from lab.measure.boot_store import BootStore, Provenance, Stored
from lab.measure.cell import Cell
from lab.measure.host import Report
from lab.measure.memory import MemoryBudget
from lab.measure.sampling import Sample

# What the exact engine gives beside a workload's own metric, the more telling first.
EXACT = {
    "kernel_insns_per_io": "kernel instructions per I/O, lower is better",
    "guest_ns_per_io": "guest nanoseconds per I/O, idle time included, lower is better",
}

T = TypeVar("T")

# A round that the host disturbed is run again so many times before the host is called too noisy.
_ROUND_ATTEMPTS = 4


@dataclass(frozen=True)
class Testbed:
    """Everything that measuring needs once: a kernel, the guest root, and what the host can do.

    proof is the kernel that the engines were proved with: the one to be measured may be broken.
    """

    kernel: Kernel
    proof: Kernel
    guest: GuestRoot
    host: Report
    plugin: Path | None = None


@dataclass(frozen=True)
class Task:
    """A cell and the kernel it is measured on."""

    cell: Cell
    kernel: Kernel


@dataclass(frozen=True)
class Outcome:
    """A cell and what came of it: its boots, or the error that there is instead."""

    cell: Cell
    boots: tuple[Stored, ...]
    error: GuestError | None = None

    def value(self, metric: str) -> float | None:
        """The mean of a metric over the boots; None without any."""
        found = [boot.values[metric] for boot in self.boots if metric in boot.values]
        return statistics.fmean(found) if found else None


@dataclass(frozen=True)
class Rounds:
    """Boots of several arms in turn: complete rounds in order of time, by arm.

    rejected counts the rounds that were run again because the host disturbed them; error is of
    the arm whose guest failed, and then there are no more rounds.
    """

    boots: Mapping[str, tuple[Stored, ...]]
    rejected: int = 0
    failed_arm: str = ""
    error: GuestError | None = None

    @property
    def complete(self) -> int:
        """How many rounds have a boot of every arm."""
        return min(len(boots) for boots in self.boots.values())

    def paired(self, metric: str, part: slice) -> Paired | None:
        """A metric of both arms in a part of the rounds; None when that is empty or not whole."""
        before, after = ([boot.values[metric] for boot in own[part]] for own in self.boots.values())
        return paired(before, after) if before and len(before) == len(after) else None


class Runner:
    """Runs the boots that are still missing."""

    def __init__(self, testbed: Testbed, store: BootStore, progress: Progress) -> None:
        self._bench = testbed
        self._store = store
        self._progress = progress
        self._emulator = testbed.host.facts.emulator
        self._host = host.identity()
        self._memory_budget = MemoryBudget(testbed.host.facts.memory_gib)
        self._stop = Event()
        self._errors: dict[str, GuestError] = {}
        self._done = 0
        self._total = 0
        self._workers = 1
        self._spent: list[float] = []

    def all(self, tasks: Sequence[Task], boots: int, *, sealed: bool) -> list[Outcome]:
        """The outcome of every task, with at least that many boots; sealed ones run side by side.

        All tasks are booted once, then all twice, so that drift is spread evenly.
        """
        if not tasks:
            return []
        keys = {task: self._key(task) for task in tasks}
        first: dict[str, Task] = {}  # equal tasks are run once
        for task, key in keys.items():
            first.setdefault(key, task)
        lacking = {key: boots - len(self._store.finished(key)) for key in first}
        missing = [
            (first[key], key)
            for repetition in range(boots)
            for key, lack in lacking.items()
            if repetition < lack
        ]
        self._workers = (os.cpu_count() or 1) if sealed else 1
        self._expect(len(missing), f"{len(first)} cells x {boots} boot(s)", len(first) * boots)
        with ThreadPoolExecutor(self._workers) as pool:
            self._results(pool, [pool.submit(self._boot, task, key) for task, key in missing])
        return [
            Outcome(task.cell, tuple(self._store.finished(key)), self._errors.get(key))
            for task, key in keys.items()
        ]

    def rounds(self, tasks: Sequence[Task], wanted: int) -> Rounds:
        """Boot tasks of different arms together until wanted rounds are there.

        In a round the guests take turns of a fraction of a second where their engine lets them and
        the host's memory holds them all, else each runs to its end (A B, B A, A B, ...). A round is
        kept whole or not at all. One in which the host disturbed a guest counts for nothing; after
        several of these in a row there are fewer rounds than wanted.
        """
        arms = [task.cell.arm for task in tasks]
        own = sampling.round_keys([self._key(task) for task in tasks])
        keys = dict(zip(arms, own, strict=True))
        found = self._rounds(keys)
        together = tasks[0].cell.engine.pausable and self._memory_budget.holds(
            *map(self._memory, tasks)
        )
        self._workers = len(tasks) if together else 1
        missing = max(0, wanted - found.complete)
        title = f"{tasks[0].cell}: {wanted} rounds of {', '.join(keys)}"
        self._expect(missing * len(tasks), title, wanted * len(tasks))
        disturbed = 0
        seen: list[str] = []
        while found.complete < wanted and disturbed < _ROUND_ATTEMPTS:
            order = list(tasks) if found.complete % 2 == 0 else list(reversed(tasks))
            identity = self._store.new_boot()
            counted = self._done
            done = self._round(order, keys, identity)
            for task, sample in zip(order, done, strict=True):
                if isinstance(sample, GuestError):
                    if not _doubtful(task, sample, seen):
                        return Rounds(found.boots, found.rejected, task.cell.arm, sample)
                    seen.append(sample.outcome)
            if noise := next(filter(None, map(self._disturbance, order, done)), ""):
                self._store.reject(identity, noise)
                self._done = counted
                self._progress.say(f"    the host disturbed this round: {noise}; once more")
            disturbed = disturbed + 1 if noise else 0
            found = self._rounds(keys)
        return found

    def _round(
        self, tasks: Sequence[Task], keys: Mapping[str, str], identity: str
    ) -> list[Sample | GuestError]:
        """One boot of every task, in one round."""
        slices = TimeSlices(len(tasks)) if self._workers > 1 else None
        slots = slices.slots if slices else [None] * len(tasks)
        with slices or nullcontext(), ThreadPoolExecutor(self._workers) as pool:
            jobs = [
                pool.submit(self._attempt, task, keys[task.cell.arm], identity, slot)
                for task, slot in zip(tasks, slots, strict=True)
            ]
            return self._results(pool, jobs)

    def _disturbance(self, task: Task, done: Sample | GuestError) -> str:
        """Why a boot says nothing of its kernel: the host disturbed it, or QEMU failed."""
        if isinstance(done, GuestError):
            return done.what
        vcpus, cpus = sampling.hardware(task.cell).cpus, self._bench.host.facts.cpus
        shared = task.cell.engine.pausable
        return host_noise.disturbance(done.values, vcpus, cpus, shared=shared)

    def _results(self, pool: Executor, jobs: Sequence[Future[T]]) -> list[T]:
        """What all jobs returned; when one raises, the running guests end at their next look."""
        try:
            return [job.result() for job in jobs]
        except BaseException:
            self._stop.set()
            pool.shutdown(cancel_futures=True)
            raise

    def _rounds(self, keys: Mapping[str, str]) -> Rounds:
        """The complete rounds that the store has."""
        by_arm = {arm: self._store.in_rounds(key) for arm, key in keys.items()}
        first = next(iter(by_arm.values()))
        whole = [name for name in first if all(name in boots for boots in by_arm.values())]
        boots = {arm: tuple(found[name] for name in whole) for arm, found in by_arm.items()}
        return Rounds(boots, self._store.rejected(list(keys.values())))

    def _expect(self, missing: int, title: str, wanted: int) -> None:
        self._done, self._total = 0, missing
        self._progress.say(
            f"{title}: {wanted - missing} boots are there, {missing} to run"
            f"{self._forecast(missing)}"
        )

    def _key(self, task: Task) -> str:
        testbed = self._bench
        return sampling.key(
            task.cell, task.kernel, testbed.guest, self._emulator, self._host, testbed.plugin
        )

    def _memory(self, task: Task) -> int:
        """The memory of a task's guest, in MiB."""
        nowhere = self._store.folder
        return sampling.machine(task.cell, task.kernel, self._bench.guest, nowhere, None).memory_mib

    def _boot(self, task: Task, key: str) -> Sample | GuestError:
        """Boot a task; again when that could be QEMU's fault, until two boots agree."""
        seen: list[str] = []
        while True:
            done = self._attempt(task, key)
            if isinstance(done, Sample):
                return done
            if not _doubtful(task, done, seen):
                self._errors[key] = done
                return done
            seen.append(done.outcome)
            self._progress.say(f"    {task.cell}: {done.what}\n    trying again")

    def _attempt(
        self, task: Task, key: str, round_id: str = "", slot: Slot | None = None
    ) -> Sample | GuestError:
        """One boot, written down however it ends; the error when it failed."""
        testbed, cell, identity = self._bench, task.cell, self._store.new_boot()
        folder = self._store.boot_folder(identity)
        origin = Provenance(key, task.kernel.id, self._emulator, self._host, round_id)
        started = time.time()
        phase = "boot"

        def observe(current: str) -> None:
            nonlocal phase
            phase = current
            if self._stop.is_set():
                raise CancelledError

        try:
            with (
                slot or nullcontext(),
                self._memory_budget.taken(self._memory(task)),
                self._progress.live(str(cell), lambda: phase),
            ):
                started = time.time()
                sample = sampling.measure(
                    cell, task.kernel, testbed.guest, folder, observe, testbed.plugin, slot
                )
        except GuestError as exc:
            why = (exc.outcome, str(exc))
            self._store.add(identity, cell, origin, started, None, outcome=why[0], reason=why[1])
            self._report(cell, f"FAILED: {exc.outcome}", time.time() - started, done=False)
            return exc
        self._store.add(identity, cell, origin, started, sample)
        self._report(cell, _shown(cell, sample), time.time() - started, done=True)
        return sample

    def _report(self, cell: Cell, shown: str, seconds: float, *, done: bool) -> None:
        self._done += done
        self._spent.append(seconds)
        left = max(0, self._total - self._done)
        arm = "" if cell.arm == "stock" else f"{cell.arm}: "
        self._progress.say(
            f"[{self._done:>{len(str(self._total))}}/{self._total}] {arm + str(cell):<44} "
            f"{shown:>14}  {seconds:3.0f} s{self._forecast(left)}"
        )

    def _forecast(self, left: int) -> str:
        known = self._spent[-20:]
        usual = sum(known) / len(known) if known else self._store.usual_seconds()
        return f", {duration(left * usual / self._workers)} left" if left and usual else ""


def _doubtful(task: Task, error: GuestError, seen: Sequence[str]) -> bool:
    """Whether a failed boot may have been QEMU's fault, given how earlier ones failed.

    What is known to be QEMU's is tried again in any case. A guest that hung under multi-threaded
    TCG may have met a failure of QEMU's that is not known; a kernel that hangs does so again. A
    sealed guest that hung would hang in the same place.
    """
    if error.outcome in QEMU_FAILURES:
        return sum(outcome in QEMU_FAILURES for outcome in seen) < ATTEMPTS - 1
    return error.outcome == "hang" and not task.cell.engine.sealed and "hang" not in seen


def _shown(cell: Cell, sample: Sample) -> str:
    if cell.counters:
        return f"{len(cell.counters)} counters"
    metric = headline(cell, sample.values)
    return f"{number(sample.values[metric])} {sample.units[metric]}"


def headline(cell: Cell, values: Mapping[str, float]) -> str:
    """The metric that stands for a cell: its cost from the exact engine, else the workload's."""
    own = workload.get(cell.workload).metric
    return next((name for name in EXACT if cell.engine.sealed and name in values), own)
