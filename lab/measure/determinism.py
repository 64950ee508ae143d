# SPDX-License-Identifier: GPL-2.0-or-later
"""The exact engine's proof of itself: one cell run twice must be equal to the last digit."""

from __future__ import annotations

import json
from itertools import zip_longest
from pathlib import Path

from lab.base import cache
from lab.base.errors import LabError
from lab.base.progress import Progress
from lab.build.guest_root import GuestRoot
from lab.build.kernel import Kernel
from lab.inputs import workload
from lab.inputs.terms import Engine
from lab.measure import sampling
from lab.measure.cell import Cell

# What a boot leaves that must not differ: the console with its time stamps, the result channel
# with fio's own numbers, the instruction counts of every block of the kernel.
COMPARED = ("console.log", "results", "insns")


def probe_cell(scheduler: str = "mq-deadline", topology: str = "nullb_mq", cpus: int = 1) -> Cell:
    """A cell that touches nothing outside the guest."""
    usual = {**workload.get("randread_burst").parameters, "numjobs": 1}
    parameters = {name: value for name, value in usual.items() if not isinstance(value, tuple)}
    settings = tuple(sorted(parameters.items()))
    return Cell(topology, scheduler, "randread_burst", settings, Engine.ICOUNT, cpus)


def require_sound(
    kernel: Kernel, guest: GuestRoot, plugin: Path | None, emulator: str, progress: Progress
) -> None:
    """Raise LabError when the exact engine is not exact on this host.

    The answer is kept for this kernel, guest root, QEMU and plugin.
    """
    record = cache.root() / "host" / f"exact-{_identity(kernel, guest, plugin, emulator)}.json"
    if not record.exists():
        folders = [cache.root() / "probe" / f"exact-{run}" for run in ("first", "second")]
        with progress.step("proving that the exact engine is exact"):
            for folder in folders:
                cache.remove(folder)
                sampling.measure(probe_cell(), kernel, guest, folder, plugin=plugin)
        cache.write_atomically(record, json.dumps(first_difference(*folders)))
    difference = json.loads(record.read_text())
    if difference:
        raise LabError(
            f"the exact engine is not exact on this host: {difference}",
            where=str(cache.root() / "probe"),
            hint=f"to try again delete {record}",
        )


def first_difference(left: Path, right: Path) -> str:
    """Where two boots' outputs differ first: file, line and both lines; empty when they do not."""
    for name in COMPARED:
        if not (left / name).exists() and not (right / name).exists():
            continue
        lines = (_lines(folder / name) for folder in (left, right))
        for number, (one, other) in enumerate(zip_longest(*lines, fillvalue="(nothing)"), start=1):
            if one != other:
                return f"{name}, line {number}: {one!r} against {other!r}"
    return ""


def digest(folder: Path) -> str:
    """An id for all that is compared of a boot; equal boots, equal ids."""
    return cache.key([_lines(folder / name) for name in COMPARED if (folder / name).exists()])


def _lines(path: Path) -> list[str]:
    """A file's lines; of the counts, those up to the last mark.

    What follows is the guest's end, where QEMU stops a second vCPU whenever it gets there.
    """
    lines = path.read_text(errors="replace").splitlines()
    if path.name == "insns":
        last = max((n for n, line in enumerate(lines) if line.startswith("phase")), default=0)
        return lines[:last]
    return lines


def _identity(kernel: Kernel, guest: GuestRoot, plugin: Path | None, emulator: str) -> str:
    return cache.key(kernel.id, guest.id, str(plugin), emulator)
