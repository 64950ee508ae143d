# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the stages meet. Read this first: from a source to measured numbers.

source -> tree -> kernel -> guest root -> proved engines -> cells -> boots -> store
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.base import cache, system
from lab.base.errors import LabError, UsageError
from lab.base.progress import Progress
from lab.build import guest_root, insn_plugin, kernel, patching, source
from lab.build.kernel import Kernel
from lab.inputs.profile import Profile
from lab.measure import determinism, host, matrix
from lab.measure.boot_store import BootStore
from lab.measure.cell import Cell
from lab.measure.cost import Cost
from lab.measure.matrix import Selection
from lab.measure.runner import Outcome, Runner, Task, Testbed


def prepare_kernel(
    spec: str, patches: Sequence[Path], fragments: Sequence[str], progress: Progress
) -> Kernel:
    """From a source spec, patches and fragments to a built kernel."""
    with progress.phase("source"):
        found = source.resolve(spec, progress)
        patched = patching.patched(found, patches)
    with progress.phase("kernel"):
        return kernel.build(patched, fragments, progress)


def prepare(
    spec: str,
    patches: Sequence[Path],
    fragments: Sequence[str],
    progress: Progress,
    *,
    fresh: bool = False,
) -> Testbed:
    """Kernel and guest root, and engines proved with the kernel without its patches."""
    proof = prepare_kernel(spec, (), fragments, progress)
    built = prepare_kernel(spec, patches, fragments, progress) if patches else proof
    with progress.phase("guest root"):
        guest = guest_root.build(progress)
    with progress.phase("engines"):
        report = host.examine(proof, guest, progress, fresh=fresh)
        counter = insn_plugin.compiled(system.QEMU, report.facts.emulator)
    return Testbed(built, proof, guest, report, counter)


def measured_matrix(
    testbed: Testbed,
    profile: Profile,
    selection: Selection,
    engine_name: str | None,
    store: BootStore,
    progress: Progress,
) -> list[Outcome]:
    """Measure a profile's matrix on one kernel; what the store already has is not run again.

    A cell whose guest fails is reported as such and the others are measured all the same.
    Raises UsageError for a selection that fits nothing, LabError for an engine that does not work.
    """
    engine = host.chosen(testbed.host, engine_name)
    cells = matrix.cells(profile, selection, engine)
    return measured(testbed, cells, profile.boots, store, progress)


def measured(
    testbed: Testbed, cells: Sequence[Cell], boots: int, store: BootStore, progress: Progress
) -> list[Outcome]:
    """Measure cells of one engine; what the store already has is not run again.

    The exact engine proves that it is exact first, and needs one boot a cell: more are equal.
    """
    engine = cells[0].engine
    with measuring(testbed, store, progress, sealed=engine.sealed, timed=not engine.sealed):
        tasks = [Task(cell, testbed.kernel) for cell in cells]
        boots = 1 if engine.sealed else boots
        return Runner(testbed, store, progress).all(tasks, boots, sealed=engine.sealed)


@contextmanager
def measuring(
    testbed: Testbed, store: BootStore, progress: Progress, *, sealed: bool, timed: bool
) -> Iterator[None]:
    """The block may use the store, sealed guests when these are exact, and host time alone.

    Raises LabError when the exact engine is wanted and not exact here.
    """
    with progress.phase("measuring"), ExitStack() as locks:
        locks.enter_context(cache.lock(store.folder / "lock", progress, "using these results"))
        if timed:  # two labs that measure host time would disturb each other
            locks.enter_context(cache.lock(cache.root() / "measuring", progress, "measuring"))
        store.forget_unfinished()
        if sealed:
            emulator = testbed.host.facts.emulator
            determinism.require_sound(
                testbed.proof, testbed.guest, testbed.plugin, emulator, progress
            )
        yield


def cost_of(testbed: Testbed, cell: Cell, store: BootStore, progress: Progress) -> Cost:
    """What an I/O of an fio cell costs by function, measured or out of the store.

    Raises LabError when the guest fails or no plugin can count, UsageError for a cell that the
    exact engine cannot give a cost for.
    """
    if testbed.plugin is None:
        raise LabError(
            "instructions cannot be told by function: no compiler, or a QEMU without plugins",
            hint="`lab doctor` shows what this machine has",
        )
    (outcome,) = measured(testbed, [cell], 1, store, progress)
    if outcome.error:
        raise LabError(f"{cell} failed: {outcome.error.what}", where=outcome.error.where)
    found = store.cost(outcome.boots[-1].id)
    if found is None:
        raise UsageError(f"{cell.workload} has no cost per I/O", hint="choose an fio workload")
    return found
