# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs boots and writes every one down: what is missing of a list, or rounds of several arms."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from threading import Event, Lock
from typing import TypeVar

from lab.base import host_time
from lab.base.errors import LABS_FAILURES, GuestError, LabError
from lab.base.progress import Progress
from lab.base.stats import Paired, paired
from lab.base.text import number
from lab.guest import host_noise
from lab.guest.retries import ATTEMPTS, QEMU_FAILURES, Retries
from lab.guest.time_slices import Slot, TimeSlices
from lab.measure import determinism, durations, host, metrics
from lab.measure.boot_store import BootStore, Provenance, StoredBoot
from lab.measure.cell import STOCK, Cell, Task
from lab.measure.cell_orders import changes
from lab.measure.job import Job, Testbed, resolve, round_keys
from lab.measure.place import Place, ThisHost
from lab.measure.sampling import Sample
from lab.measure.tally import Tally
from lab.measure.workers import Workers

T = TypeVar("T")

# A round that the host disturbed is run again so many times before the host is called too noisy.
# Chosen: with a third of all rounds disturbed, four in a row are 1 in 80.
_ROUND_ATTEMPTS = 4
# So many rounds in a row that a kernel broke are no accident. Chosen.
_BROKEN_ROUNDS = 3


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
        values = [boot.values[metric] for boot in self.boots if metric in boot.values]
        return statistics.fmean(values) if values else None


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
        before, after = ([boot.values[metric] for boot in boots] for boots in self.boots.values())
        return paired(before, after) if before else None


class Runner:
    """Runs the boots that are still missing: all here, but deterministic guests in a given place.

    Several threads may ask for deterministic guests at the same time.
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
        self._said: set[str] = set()
        self._errors: dict[str, GuestError] = {}
        self._workers = Workers[Sample | GuestError](self._place.most)
        # Boots of deterministic guests by their keys; one that failed would fail again.
        self._submitted: dict[str, Future[Sample | GuestError]] = {}
        self._lock = Lock()
        self._proving = Lock()
        self._tally = Tally(progress, lambda: self._place.slots)

    def all(
        self, tasks: Sequence[Task], boots: int = 1, *, urgency: int = 0, title: str = "measuring"
    ) -> list[Outcome]:
        """The outcome of every task, in order, with at least that many boots.

        Deterministic guests come first and run side by side, those of the lowest urgency of all
        threads first; one boot of each is enough: more are equal. title says what boots are for.
        """
        jobs = self._resolved(tasks)
        self._run_deterministic(
            [job for job in jobs if job.cell.engine.deterministic], urgency, title
        )
        self._run_timed([job for job in jobs if not job.cell.engine.deterministic], boots, title)
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
        memory holds them all, else each runs to its end (A B, B A, A B, ...). A round in which the
        host disturbed a guest, or a guest failed, counts for nothing. Several disturbed ones in a
        row end the rounds; several failures in a row are returned as an error.
        """
        alone = self._resolved(tasks)
        keys = round_keys([job.key for job in alone])
        # What is booted together is kept under other keys.
        jobs = [replace(job, key=key) for job, key in zip(alone, keys, strict=True)]
        rounds = self._complete_rounds(jobs)
        memory = [job.machine.memory_mib for job in jobs]
        together = jobs[0].cell.engine.pausable and self._here.memory.holds(*memory)
        if decided(rounds) or rounds.complete >= most:
            return rounds
        took = durations.recorded(self._store)
        forecast = [took.of(job.cell) for job in jobs] * (most - rounds.complete)
        tally = Tally(self._progress, lambda: len(jobs) if together else 1)
        arms = ", ".join(job.task.arm for job in jobs)
        with tally.expecting(f"{tasks[0]}, at most {most} rounds of {arms}", forecast):
            return self._run_rounds(rounds, jobs, most, decided, tally, together=together)

    def _resolved(self, tasks: Sequence[Task]) -> list[Job]:
        """The jobs of tasks; what was changed in a user's own fio job is said once."""
        for line in dict.fromkeys(changes(task.cell) for task in tasks):
            if line and line not in self._said:
                self._said.add(line)
                self._progress.say(line)
        return [resolve(task, self._testbed) for task in tasks]

    def _run_rounds(
        self,
        rounds: Rounds,
        jobs: Sequence[Job],
        most: int,
        decided: Callable[[Rounds], bool],
        tally: Tally,
        *,
        together: bool,
    ) -> Rounds:
        """Boot more rounds until that is decided, or most are there; see rounds()."""
        disturbed = 0
        failed: list[GuestError] = []
        while rounds.complete < most and disturbed < _ROUND_ATTEMPTS and not decided(rounds):
            order = jobs if rounds.complete % 2 == 0 else jobs[::-1]
            identity = self._store.new_boot()
            done = self._round(order, identity, tally, together=together)
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
            failed = [*failed, broken[0][1]] if broken else []
            disturbed = disturbed + 1 if noise else 0
            rounds = self._complete_rounds(jobs)
            if _given_up(failed, jobs[0].cell) or any(
                error.outcome in LABS_FAILURES for _, error in broken
            ):
                return Rounds(rounds.boots, rounds.rejected, *broken[0])
        return rounds

    def require_exact(self, tasks: Iterable[Task]) -> None:
        """Raise LabError unless the deterministic engines of tasks repeat themselves here."""
        with self._proving:
            for engine in sorted({task.cell.engine for task in tasks}):
                if engine.deterministic:
                    determinism.require_sound(self._testbed, engine, self._progress, self._look)

    def stop(self) -> None:
        """End all guests that run, and begin no other one."""
        self._stop.set()
        self._workers.cancel()
        wait(self._submitted.values())

    def _run_deterministic(self, jobs: Sequence[Job], urgency: int, title: str) -> None:
        """Boot once what the store lacks, side by side, each on a CPU of its own."""
        took = durations.recorded(self._store)
        # What takes longest begins first, so that no CPU waits for it in the end.
        order = sorted(jobs, key=lambda job: took.of(job.cell), reverse=True)
        missing = [job for job in _distinct(order) if not self._store.finished(job.key)]
        if not missing:
            return
        with self._tally.expecting(title, [took.of(job.cell) for job in missing]):
            self._results([self._submit(job, urgency) for job in missing])

    def _submit(self, job: Job, urgency: int) -> Future[Sample | GuestError]:
        """The boot of a deterministic guest: one of equal ones that several threads ask for."""
        with self._lock:
            if job.key not in self._submitted:
                self._submitted[job.key] = self._workers.submit(
                    urgency, lambda: self._boot(job, self._tally)
                )
            return self._submitted[job.key]

    def _run_timed(self, jobs: Sequence[Job], boots: int, title: str) -> None:
        """Boot what is missing of jobs: all once, then all twice, so that drift meets all alike."""
        lacking = [(job, boots - len(self._store.finished(job.key))) for job in _distinct(jobs)]
        missing = [job for repetition in range(boots) for job, lack in lacking if repetition < lack]
        if not missing:
            return
        took = durations.recorded(self._store)
        tally = Tally(self._progress, lambda: 1)
        with (
            tally.expecting(title, [took.of(job.cell) for job in missing]),
            self._undisturbed(missing),
            ThreadPoolExecutor(1) as pool,
        ):
            self._results([pool.submit(self._boot, job, tally) for job in missing])

    def _round(
        self, jobs: Sequence[Job], identity: str, tally: Tally, *, together: bool
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
                pool.submit(self._attempt, job, tally, identity, slot)
                for job, slot in zip(jobs, slots, strict=True)
            ]
            return self._results(running)

    def _disturbance(self, jobs: Sequence[Job], done: Sequence[Sample | GuestError]) -> str:
        """Why the boots of a round say nothing of their kernels: the host disturbed one."""
        cpus = self._testbed.host.facts.cpus
        reasons = (
            host_noise.disturbance(
                sample.values, job.cell.cpus, cpus, shared=job.cell.engine.pausable
            )
            for job, sample in zip(jobs, done, strict=True)
            if isinstance(sample, Sample)
        )
        return next(filter(None, reasons), "")

    def _results(self, running: Sequence[Future[T]]) -> list[T]:
        """What all jobs returned; when one raises, the running guests end at their next look."""
        try:
            return [future.result() for future in running]
        except BaseException:
            for future in running:
                future.cancel()
            self.stop()
            wait(running)
            raise

    def _undisturbed(self, jobs: Sequence[Job]) -> AbstractContextManager[None]:
        """Have the host for the block if jobs are timed by its clock."""
        if all(job.cell.engine.deterministic for job in jobs):
            return nullcontext()
        return host_time.showing_wait(host_time.alone, self._progress)

    def _look(self) -> None:
        """End whoever calls this once the runner is to stop."""
        if self._stop.is_set():
            raise CancelledError

    def _complete_rounds(self, jobs: Sequence[Job]) -> Rounds:
        """The complete rounds that the store has."""
        by_arm = {job.task.arm: self._store.in_rounds(job.key) for job in jobs}
        first = next(iter(by_arm.values()))
        whole = [name for name in first if all(name in boots for boots in by_arm.values())]
        boots = {arm: tuple(by_round[name] for name in whole) for arm, by_round in by_arm.items()}
        return Rounds(boots, self._store.rejected([job.key for job in jobs]))

    def _boot(self, job: Job, tally: Tally) -> Sample | GuestError:
        """Boot a job; again when that could be QEMU's fault, until two boots agree."""
        retries = Retries(deterministic=job.cell.engine.deterministic)
        while True:
            done = self._attempt(job, tally)
            if isinstance(done, Sample):
                return done
            if not retries.again(done):
                self._errors[job.key] = done
                return done
            self._progress.say(f"    {job.task}: {done.what}\n    trying again")

    def _attempt(
        self, job: Job, tally: Tally, round_id: str = "", slot: Slot | None = None
    ) -> Sample | GuestError:
        """One boot, written down however it ends; the error when it failed, or cannot be."""
        self._look()
        if job.refusal:
            return GuestError("mismatch", job.refusal)
        task, identity = job.task, self._store.new_boot()
        folder, emulation = self._store.boot_folder(identity), job.emulation(self._emulator)
        origin = Provenance(job.key, task.kernel.id, emulation, self._host, round_id)
        title = str(task) if task.arm == STOCK else f"{task.arm}: {task}"
        place = self._place if job.cell.engine.deterministic else self._here
        started = time.time()

        try:
            with slot or nullcontext(), place.slot(job, self._look) as measure:
                started = time.time()
                sample = measure(folder, lambda phase: self._look(), slot)
        except GuestError as exc:
            self._store.add(
                identity, task, origin, started, None, outcome=exc.outcome, reason=str(exc)
            )
            tally.ended(title, f"FAILED: {exc.outcome}", time.time() - started, done=False)
            return exc
        self._store.add(identity, task, origin, started, sample)
        tally.ended(title, _shown(task, sample), time.time() - started, done=True)
        return sample


def _distinct(jobs: Sequence[Job]) -> list[Job]:
    """The jobs in their order, the first of equal ones only."""
    by_key: dict[str, Job] = {}
    for job in jobs:
        by_key.setdefault(job.key, job)
    return [*by_key.values()]


def _given_up(failed: Sequence[GuestError], cell: Cell) -> bool:
    """Whether so many rounds failed in a row that one more would say nothing new.

    A deterministic guest that failed would fail in the same place.
    """
    of_qemu = sum(error.outcome in QEMU_FAILURES for error in failed)
    return bool(failed) and (
        cell.engine.deterministic or of_qemu == ATTEMPTS or len(failed) - of_qemu == _BROKEN_ROUNDS
    )


def _shown(task: Task, sample: Sample) -> str:
    if task.cell.counters and not task.cell.cost:
        return f"{len(task.cell.counters)} counters"
    metric = metrics.headline(task.cell, sample.values)
    return f"{number(sample.values[metric])} {metrics.get(metric).unit}"
