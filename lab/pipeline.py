# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the stages meet. Read this first: from a source to measured numbers.

source -> tree -> kernel -> guest root -> proved engines -> cells -> boots -> store
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lab import cache, guestroot, host, kernel, measure, plan, source, tree
from lab.errors import GuestError
from lab.guestroot import GuestRoot
from lab.host import Report
from lab.kernel import Kernel
from lab.plan import Cell, Selection
from lab.profile import Profile
from lab.progress import Progress, duration
from lab.store import Provenance, Store
from lab.table import Outcome, number
from lab.workload import get as get_workload


@dataclass(frozen=True)
class Bench:
    """Everything that measuring needs once: kernel, guest root, and what the host can do."""

    kernel: Kernel
    guest: GuestRoot
    host: Report


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
    built: Kernel, progress: Progress, *, proof: Kernel | None = None, fresh: bool = False
) -> Bench:
    """The guest root, and engines proved with a kernel that is known to be good.

    proof is that kernel; by default the one to be measured.
    """
    with progress.phase("guest root"):
        guest = guestroot.build(progress)
    with progress.phase("engines"):
        report = host.examine(proof or built, guest, progress, fresh=fresh)
    return Bench(built, guest, report)


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
    with (
        progress.phase("measuring"),
        cache.lock(store.folder / "lock", progress, "measuring into these results"),
    ):
        store.forget_unfinished()
        runner = _Runner(bench, store, progress, profile.boots)
        workers = (os.cpu_count() or 1) if engine.sealed else 1
        return runner.run(cells, workers)


class _Runner:
    """Runs the boots that a list of cells still lacks."""

    def __init__(self, bench: Bench, store: Store, progress: Progress, boots: int) -> None:
        self._bench = bench
        self._store = store
        self._progress = progress
        self._boots = boots
        self._qemu = bench.host.facts.qemu
        self._host = host.identity()
        self._failures: dict[Cell, str] = {}
        self._done = 0
        self._total = 0
        self._spent: list[float] = []

    def run(self, cells: Sequence[Cell], workers: int) -> list[Outcome]:
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
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return [
            Outcome(cell, tuple(self._store.finished(key)), self._failures.get(cell, ""))
            for cell, key in keys.items()
        ]

    def _key(self, cell: Cell) -> str:
        return measure.key(cell, self._bench.kernel, self._bench.guest, self._qemu, self._host)

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
        identity = self._store.new_boot()
        folder = self._store.boot_folder(identity)
        origin = Provenance(key, self._bench.kernel.id, self._qemu, self._host)
        started = time.time()
        phase = "boot"

        def note(entered: str) -> None:
            nonlocal phase
            phase = entered

        title = str(cell)
        try:
            with self._progress.live(title, lambda: phase):
                sample = measure.measure(cell, self._bench.kernel, self._bench.guest, folder, note)
        except GuestError as exc:
            why = (exc.outcome, str(exc))
            self._store.add(identity, cell, origin, started, None, outcome=why[0], reason=why[1])
            self._failures[cell] = f"{exc.what} ({folder})"
            self._report(title, f"FAILED: {exc.outcome}", time.time() - started)
            return
        self._store.add(identity, cell, origin, started, sample)
        metric = get_workload(cell.workload).metric
        shown = f"{number(sample.values[metric])} {sample.units[metric]}"
        self._report(title, shown, time.time() - started)

    def _report(self, title: str, shown: str, seconds: float) -> None:
        self._done += 1
        self._spent.append(seconds)
        left = self._total - self._done
        self._progress.say(
            f"[{self._done:>{len(str(self._total))}}/{self._total}] {title:<44} {shown:>14}"
            f"  {seconds:3.0f} s{self._forecast(left)}"
        )

    def _forecast(self, left: int) -> str:
        known = self._spent[-20:]
        usual = sum(known) / len(known) if known else self._store.usual_seconds()
        return f", {duration(left * usual)} left" if left and usual else ""
