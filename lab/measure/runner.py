# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs boots and writes every one down: what is missing of a list, or rounds of several arms."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Event
from typing import TypeVar

from lab.base import host_time
from lab.base.errors import LABS_FAILURES, GuestError, LabError
from lab.base.progress import Progress
from lab.base.stats import Paired, paired
from lab.base.text import number
from lab.guest import host_noise
from lab.guest.boot import ATTEMPTS, Retries
from lab.guest.time_slices import Slot, TimeSlices
from lab.measure import durations, host, metrics
from lab.measure.boot_store import BootStore, Provenance, StoredBoot
from lab.measure.cell import STOCK, Task
from lab.measure.job import Job, Testbed, resolve, round_keys
from lab.measure.place import Place, ThisHost
from lab.measure.sampling import Sample
from lab.measure.tally import Tally

T = TypeVar("T")

# A round that the host disturbed is run again so many times before the host is called too noisy.
# Chosen: with a third of all rounds disturbed, four in a row are 1 in 80.
_ROUND_ATTEMPTS = 4


@dataclass(frozen=True)
class Outcome:
    """A task and what came of it: its boots, or the error that there is instead."""

    task: Task
    boots: tuple[StoredBoot, ...]
    error: GuestError | None = None

    def require_boots(self) -> None:
        """Raise LabError when there is an error instead of boots."""
        if self.error:
            raise LabError(f"{self.task} failed: {self.error.what}", where=self.error.where)

    def value(self, metric: str) -> float | None:
        """The mean of a metric over the boots; None without any."""
        found = [boot.values[metric] for boot in self.boots if metric in boot.values]
        return statistics.fmean(found) if found else None


@dataclass(frozen=True)
class Rounds:
    """Boots of several arms in rounds: the complete ones in order of time, by arm.

    rejected counts the rounds that were run again because the host disturbed them; error is of
    the arm whose guest failed, and then there are no more rounds.
    """

    boots: Mapping[str, tuple[StoredBoot, ...]]
    rejected: int = 0
    failed_arm: str = ""
    error: GuestError | None = None

    @property
    def complete(self) -> int:
        """How many rounds have a boot of every arm."""
        return min(len(boots) for boots in self.boots.values())

    def paired(self, metric: str) -> Paired | None:
        """A metric of both arms; None without a round."""
        before, after = ([boot.values[metric] for boot in own] for own in self.boots.values())
        return paired(before, after) if before else None


class Runner:
    """Runs the boots that are still missing: sealed guests in a place, which is this host unless
    another is given, all others here.
    """

    def __init__(
        self, testbed: Testbed, store: BootStore, progress: Progress, place: Place | None = None
    ) -> None:
        self._testbed = testbed
        self._store = store
        self._progress = progress
        self._emulator = testbed.host.facts.emulator
        self._host = host.identity()
        self._here = ThisHost(testbed.host.facts.memory_gib)
        self._place = place or self._here
        self._stop = Event()
        self._errors: dict[str, GuestError] = {}

    def all(self, tasks: Sequence[Task], boots: int = 1) -> list[Outcome]:
        """The outcome of every task, in order, with at least that many boots.

        Sealed guests come first and run side by side; of these one boot is enough: more are equal.
        """
        jobs = [resolve(task, self._testbed) for task in tasks]
        self._complete([job for job in jobs if job.cell.engine.sealed], 1, self._place)
        self._complete([job for job in jobs if not job.cell.engine.sealed], boots, None)
        return [
            Outcome(job.task, tuple(self._store.finished(job.key)), self._errors.get(job.key))
            for job in jobs
        ]

    def rounds(
        self,
        tasks: Sequence[Task],
        most: int,
        decided: Callable[[Rounds], bool] = lambda rounds: False,
    ) -> Rounds:
        """Boot tasks of different arms together until that is decided, or most rounds are there.

        decided is asked after each round of all that are complete, those of earlier runs too. In a
        round the guests take turns of a time slice where their engine lets them and the host's
        memory holds them all, else each runs to its end (A B, B A, A B, ...). A round is kept whole
        or not at all. One in which the host disturbed a guest counts for nothing; after several of
        these in a row there are fewer rounds than most. Nor does one in which a guest failed: its
        failure is on record. Several of these in a row are returned as an error.
        """
        jobs = [resolve(task, self._testbed) for task in tasks]
        arms = [job.task.arm for job in jobs]
        keys = dict(zip(arms, round_keys([job.key for job in jobs]), strict=True))
        found = self._complete_rounds(keys)
        memory = [job.machine.memory_mib for job in jobs]
        together = jobs[0].cell.engine.pausable and self._here.holds(*memory)
        missing = 0 if decided(found) else max(0, most - found.complete) * len(jobs)
        title = f"{tasks[0]}: at most {most} rounds of {', '.join(keys)}"
        side_by_side = len(jobs) if together else 1
        took = durations.recorded(self._store)
        forecast = [took.of(job.cell) for job in jobs] * (missing // len(jobs))
        tally = self._tally(title, most * len(jobs), forecast, lambda: side_by_side)
        disturbed = failed = 0
        # A sealed guest that failed would fail in the same place.
        attempts = 1 if jobs[0].cell.engine.sealed else ATTEMPTS
        while found.complete < most and disturbed < _ROUND_ATTEMPTS and not decided(found):
            order = jobs if found.complete % 2 == 0 else jobs[::-1]
            identity = self._store.new_boot()
            done = self._round(order, keys, identity, tally, together=together)
            broken = [
                (job.task.arm, sample)
                for job, sample in zip(order, done, strict=True)
                if isinstance(sample, GuestError)
            ]
            noise = "" if broken else self._disturbance(order, done)
            if broken or noise:
                outcome, what = "disturbed", f"the host disturbed this round: {noise}"
                if broken:
                    outcome, what = "alone", f"in arm {broken[0][0]} {broken[0][1].what}"
                self._store.reject(identity, outcome, what)
                tally.take_back(sum(isinstance(sample, Sample) for sample in done))
                self._progress.say(f"    {what}; once more")
            failed = failed + 1 if broken else 0
            disturbed = disturbed + 1 if noise else 0
            found = self._complete_rounds(keys)
            if failed == attempts or any(error.outcome in LABS_FAILURES for _, error in broken):
                return Rounds(found.boots, found.rejected, *broken[0])
        return found

    def _complete(self, jobs: Sequence[Job], boots: int, place: Place | None) -> None:
        """Boot what is missing of jobs: all of them once, then all twice: drift meets all alike.

        As many run side by side as the place has room for; without one, one after the other.
        """
        if not jobs:
            return
        distinct: dict[str, Job] = {}  # equal jobs are run once
        for job in jobs:
            distinct.setdefault(job.key, job)
        # What takes longest begins first, so that no CPU waits for it in the end.
        took = durations.recorded(self._store)
        order = sorted(distinct, key=lambda key: took.of(distinct[key].cell), reverse=True)
        distinct = {key: distinct[key] for key in order}
        lacking = {key: boots - len(self._store.finished(key)) for key in distinct}
        missing = [
            distinct[key]
            for repetition in range(boots)
            for key, lack in lacking.items()
            if repetition < lack
        ]
        title = f"{len(distinct)} cells x {boots} boot(s)"
        slots = (lambda: place.slots) if place else (lambda: 1)
        forecast = [took.of(job.cell) for job in missing]
        tally = self._tally(title, len(distinct) * boots, forecast, slots)
        with self._undisturbed(missing), ThreadPoolExecutor(place.most if place else 1) as pool:
            self._results(pool, [pool.submit(self._boot, job, tally) for job in missing])

    def _tally(
        self, title: str, wanted: int, forecast: Sequence[float], side_by_side: Callable[[], int]
    ) -> Tally:
        tally = Tally(self._progress, title, wanted, forecast, side_by_side)
        tally.begin()
        return tally

    def _round(
        self,
        jobs: Sequence[Job],
        keys: Mapping[str, str],
        identity: str,
        tally: Tally,
        *,
        together: bool,
    ) -> list[Sample | GuestError]:
        """One boot of every job, in one round."""
        slices = TimeSlices(len(jobs)) if together else None
        slots = slices.slots if slices else [None] * len(jobs)
        with (
            self._undisturbed(jobs),
            slices or nullcontext(),
            ThreadPoolExecutor(len(jobs) if together else 1) as pool,
        ):
            running = [
                pool.submit(self._attempt, job, keys[job.task.arm], tally, identity, slot)
                for job, slot in zip(jobs, slots, strict=True)
            ]
            return self._results(pool, running)

    def _disturbance(self, jobs: Sequence[Job], done: Sequence[Sample | GuestError]) -> str:
        """Why the boots of a round say nothing of their kernels: the host disturbed one."""
        cpus = self._testbed.host.facts.cpus
        found = (
            host_noise.disturbance(
                sample.values, job.cell.cpus, cpus, shared=job.cell.engine.pausable
            )
            for job, sample in zip(jobs, done, strict=True)
            if isinstance(sample, Sample)
        )
        return next(filter(None, found), "")

    def _results(self, pool: Executor, running: Sequence[Future[T]]) -> list[T]:
        """What all jobs returned; when one raises, the running guests end at their next look."""
        try:
            return [one.result() for one in running]
        except BaseException:
            self._stop.set()
            pool.shutdown(cancel_futures=True)
            raise

    def _undisturbed(self, jobs: Sequence[Job]) -> AbstractContextManager[None]:
        """Have the host for the block if jobs are timed by its clock."""
        if all(job.cell.engine.sealed for job in jobs):
            return nullcontext()
        return host_time.told(host_time.alone, self._progress)

    def _look(self) -> None:
        """End whoever calls this once the runner is to stop."""
        if self._stop.is_set():
            raise CancelledError

    def _complete_rounds(self, keys: Mapping[str, str]) -> Rounds:
        """The complete rounds that the store has."""
        by_arm = {arm: self._store.in_rounds(key) for arm, key in keys.items()}
        first = next(iter(by_arm.values()))
        whole = [name for name in first if all(name in boots for boots in by_arm.values())]
        boots = {arm: tuple(found[name] for name in whole) for arm, found in by_arm.items()}
        return Rounds(boots, self._store.rejected(list(keys.values())))

    def _boot(self, job: Job, tally: Tally) -> Sample | GuestError:
        """Boot a job; again when that could be QEMU's fault, until two boots agree."""
        retries = Retries(sealed=job.cell.engine.sealed)
        while True:
            done = self._attempt(job, job.key, tally)
            if isinstance(done, Sample):
                return done
            if not retries.again(done):
                self._errors[job.key] = done
                return done
            self._progress.say(f"    {job.task}: {done.what}\n    trying again")

    def _attempt(
        self, job: Job, key: str, tally: Tally, round_id: str = "", slot: Slot | None = None
    ) -> Sample | GuestError:
        """One boot, written down however it ends; the error when it failed, or cannot be."""
        if job.refusal:
            return GuestError("mismatch", job.refusal)
        task, identity = job.task, self._store.new_boot()
        folder = self._store.boot_folder(identity)
        origin = Provenance(key, task.kernel.id, self._emulator, self._host, round_id)
        title = str(task) if task.arm == STOCK else f"{task.arm}: {task}"
        place = self._place if job.cell.engine.sealed else self._here
        started = time.time()
        phase = "boot"

        def observe(current: str) -> None:
            nonlocal phase
            phase = current
            self._look()

        try:
            with (
                slot or nullcontext(),
                place.room(job, self._look) as measure,
                self._progress.live(str(task), lambda: phase),
            ):
                started = time.time()
                sample = measure(folder, observe, slot)
        except GuestError as exc:
            self._store.add(
                identity, task, origin, started, None, outcome=exc.outcome, reason=str(exc)
            )
            tally.ended(title, f"FAILED: {exc.outcome}", time.time() - started, done=False)
            return exc
        self._store.add(identity, task, origin, started, sample)
        tally.ended(title, _shown(task, sample), time.time() - started, done=True)
        return sample


def _shown(task: Task, sample: Sample) -> str:
    if counted := task.cell.counters or (() if task.cell.cost else task.cell.calls):
        return f"{len(counted)} counters"
    metric = metrics.headline(task.cell, sample.values)
    return f"{number(sample.values[metric])} {metrics.get(metric).unit}"
