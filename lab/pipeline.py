# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the stages meet. Read this first: from a source to measured numbers.

source -> tree -> kernel -> guest root -> proved engines -> cells -> boots -> store
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from lab import cache, exact, guestroot, host, kernel, measure, plan, plugin, qemu, source, tree
from lab.boot import ATTEMPTS
from lab.cost import Cost, from_text
from lab.errors import GuestError, LabError, UsageError
from lab.guestroot import GuestRoot
from lab.host import Report
from lab.kernel import Kernel
from lab.plan import Cell, Selection
from lab.profile import Profile
from lab.progress import Progress, duration
from lab.store import Provenance, Store
from lab.table import Outcome, headline, number


@dataclass(frozen=True)
class Bench:
    """Everything that measuring needs once: kernel, guest root, and what the host can do.

    proof is the kernel that the engines were proved with: the one to be measured may be broken.
    """

    kernel: Kernel
    proof: Kernel
    guest: GuestRoot
    host: Report
    plugin: Path | None = None


def prepare_kernel(
    spec: str, patches: Sequence[Path], fragments: Sequence[str], progress: Progress
) -> Kernel:
    """From a source spec, patches and fragments to a built kernel."""
    with progress.phase("source"):
        found = source.resolve(spec, progress)
        patched = tree.patched(found, patches)
    with progress.phase("kernel"):
        return kernel.build(patched, fragments, progress)


def prepare(
    spec: str,
    patches: Sequence[Path],
    fragments: Sequence[str],
    progress: Progress,
    *,
    fresh: bool = False,
) -> Bench:
    """Kernel and guest root, and engines proved with the kernel without its patches."""
    proof = prepare_kernel(spec, (), fragments, progress)
    built = prepare_kernel(spec, patches, fragments, progress) if patches else proof
    with progress.phase("guest root"):
        guest = guestroot.build(progress)
    with progress.phase("engines"):
        report = host.examine(proof, guest, progress, fresh=fresh)
        counter = plugin.compiled(qemu.BINARY, report.facts.emulator)
    return Bench(built, proof, guest, report, counter)


def matrix(
    bench: Bench,
    profile: Profile,
    selection: Selection,
    engine_name: str | None,
    store: Store,
    progress: Progress,
) -> list[Outcome]:
    """Measure a profile's matrix on one kernel; what the store already has is not run again.

    A cell whose guest fails is reported as such and the others are measured all the same.
    Raises UsageError for a selection that fits nothing, LabError for an engine that does not work.
    """
    engine = host.chosen(bench.host, engine_name)
    cells = plan.cells(profile, selection, engine)
    return measured(bench, cells, profile.boots, store, progress)


def measured(
    bench: Bench, cells: Sequence[Cell], boots: int, store: Store, progress: Progress
) -> list[Outcome]:
    """Measure cells of one engine; what the store already has is not run again.

    The exact engine proves that it is exact first, and needs one boot a cell: more are equal.
    """
    engine = cells[0].engine
    with progress.phase("measuring"), ExitStack() as locks:
        locks.enter_context(cache.lock(store.folder / "lock", progress, "using these results"))
        if not engine.sealed:  # two labs that measure host time would disturb each other
            locks.enter_context(cache.lock(cache.root() / "measuring", progress, "measuring"))
        store.forget_unfinished()
        if engine.sealed:
            emulator = bench.host.facts.emulator
            exact.require_sound(bench.proof, bench.guest, bench.plugin, emulator, progress)
        runner = _Runner(bench, store, progress, 1 if engine.sealed else boots)
        workers = (os.cpu_count() or 1) if engine.sealed else 1
        return runner.run(cells, workers)


def cost_of(bench: Bench, cell: Cell, store: Store, progress: Progress) -> Cost:
    """What an I/O of an fio cell costs by function, measured or out of the store.

    Raises LabError when the guest fails or no plugin can count, UsageError for a cell that the
    exact engine cannot give a cost for.
    """
    if bench.plugin is None:
        raise LabError(
            "instructions cannot be told by function: no compiler, or a QEMU without plugins",
            hint="`lab doctor` shows what this machine has",
        )
    (outcome,) = measured(bench, [cell], 1, store, progress)
    if outcome.failure:
        raise LabError(f"{cell} failed: {outcome.failure}")
    path = store.boot_folder(outcome.boots[-1].id) / "cost.tsv"
    if not path.exists():
        raise UsageError(f"{cell.workload} has no cost per I/O", hint="choose an fio workload")
    return from_text(path.read_text())


class _Runner:
    """Runs the boots that a list of cells still lacks."""

    def __init__(self, bench: Bench, store: Store, progress: Progress, boots: int) -> None:
        self._bench = bench
        self._store = store
        self._progress = progress
        self._boots = boots
        self._emulator = bench.host.facts.emulator
        self._host = host.identity()
        self._stop = Event()
        self._failures: dict[Cell, str] = {}
        self._done = 0
        self._total = 0
        self._workers = 1
        self._spent: list[float] = []

    def run(self, cells: Sequence[Cell], workers: int) -> list[Outcome]:
        self._workers = workers
        keys = {cell: self._key(cell) for cell in cells}
        missing = self._missing(keys)
        self._total = len(missing)
        kept = len(cells) * self._boots - len(missing)
        self._progress.say(
            f"{len(cells)} cells x {self._boots} boot(s): {kept} boots are there, "
            f"{len(missing)} to run{self._forecast(len(missing))}"
        )
        with ThreadPoolExecutor(workers) as pool:
            jobs = [pool.submit(self._boot, cell, keys[cell]) for cell in missing]
            try:
                for job in jobs:
                    job.result()
            except BaseException:
                self._stop.set()  # the running guests end at their next look at it
                pool.shutdown(cancel_futures=True)
                raise
        return [
            Outcome(cell, tuple(self._store.finished(key)), self._failures.get(cell, ""))
            for cell, key in keys.items()
        ]

    def _key(self, cell: Cell) -> str:
        bench = self._bench
        return measure.key(
            cell, bench.kernel, bench.guest, self._emulator, self._host, bench.plugin
        )

    def _missing(self, keys: dict[Cell, str]) -> list[Cell]:
        """The boots to run, all cells once, then all twice, so that drift is spread evenly."""
        needed = {c: self._boots - len(self._store.finished(key)) for c, key in keys.items()}
        return [
            cell
            for repetition in range(self._boots)
            for cell, lack in needed.items()
            if repetition < lack
        ]

    def _boot(self, cell: Cell, key: str) -> None:
        """Boot a cell; once more when QEMU ended by itself, which says nothing of the kernel."""
        for attempt in range(1, ATTEMPTS + 1):
            error = self._attempt(cell, key)
            if error is None:
                return
            if error.outcome != "died" or attempt == ATTEMPTS:
                self._failures[cell] = f"{error.what} ({error.where})"
                return
            self._progress.say(f"    {cell}: {error.what}\n    trying again")

    def _attempt(self, cell: Cell, key: str) -> GuestError | None:
        """One boot, written down however it ends; the error when it failed."""
        bench, identity = self._bench, self._store.new_boot()
        folder = self._store.boot_folder(identity)
        origin = Provenance(key, bench.kernel.id, self._emulator, self._host)
        started = time.time()
        phase = "boot"

        def observe(current: str) -> None:
            nonlocal phase
            phase = current
            if self._stop.is_set():
                raise CancelledError

        try:
            with self._progress.live(str(cell), lambda: phase):
                sample = measure.measure(
                    cell, bench.kernel, bench.guest, folder, observe, bench.plugin
                )
        except GuestError as exc:
            why = (exc.outcome, str(exc))
            self._store.add(identity, cell, origin, started, None, outcome=why[0], reason=why[1])
            self._report(cell, f"FAILED: {exc.outcome}", time.time() - started, done=False)
            return exc
        self._store.add(identity, cell, origin, started, sample)
        metric = headline(cell, sample.values)
        shown = f"{number(sample.values[metric])} {sample.units[metric]}"
        self._report(cell, shown, time.time() - started, done=True)
        return None

    def _report(self, cell: Cell, shown: str, seconds: float, *, done: bool) -> None:
        self._done += done
        self._spent.append(seconds)
        left = self._total - self._done
        self._progress.say(
            f"[{self._done:>{len(str(self._total))}}/{self._total}] {cell!s:<44} {shown:>14}"
            f"  {seconds:3.0f} s{self._forecast(left)}"
        )

    def _forecast(self, left: int) -> str:
        known = self._spent[-20:]
        usual = sum(known) / len(known) if known else self._store.usual_seconds()
        return f", {duration(left * usual / self._workers)} left" if left and usual else ""
