# SPDX-License-Identifier: GPL-2.0-or-later
"""A check of the deterministic engines: one cell run twice must be equal to the last digit."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path

from lab.base import cache
from lab.base.errors import LabError
from lab.base.progress import Progress
from lab.inputs import topology, workload
from lab.inputs.terms import Engine
from lab.measure import sampling
from lab.measure.cell import Cell, Task, resolved
from lab.measure.job import Job, Testbed, resolve

# What a boot leaves that must not differ: the console with its time stamps, the result channel
# with fio's own numbers, the instruction counts or the simulated time of every block of the kernel.
COMPARED = ("console.log", "results", "insns", "sim")
# The first that the kernel can have is booted for the check.
_PROBES = ("nullb_mq", "nullb_mq_old")


def probe_cell(
    scheduler: str = "mq-deadline",
    topology_name: str = "nullb_mq",
    cpus: int = 1,
    engine: Engine = Engine.EXACT,
) -> Cell:
    """A cell that touches nothing outside the guest; simulated, all vCPUs contend."""
    jobs = cpus if engine.simulated else 1
    usual = {**workload.get("randread_burst").parameters, workload.JOBS: jobs}
    parameters = {name: value for name, value in usual.items() if not isinstance(value, tuple)}
    return resolved(
        topology_name=topology_name,
        scheduler=scheduler,
        workload="randread_burst",
        parameters=parameters,
        engine=engine,
        cpus=cpus,
    )


def require_sound(
    testbed: Testbed,
    engine: Engine,
    progress: Progress,
    look: Callable[[], None] = lambda: None,
) -> None:
    """Raise LabError when a deterministic engine does not repeat itself on this host.

    The answer is kept until `lab doctor --fresh`. look is called now and then while guests run;
    what it raises ends them.
    """
    kept = _answer(testbed, engine)
    probes = cache.root() / "probe"
    with cache.lock(probes / "lock", progress, "checking an engine"):
        difference = cache.read(kept, _text)
        if difference is None:
            folders = [probes / f"{engine}-{run}" for run in ("first", "second")]
            release_and_fragments = (testbed.probe_kernel.release, testbed.probe_kernel.fragments)
            possible = (
                name for name in _PROBES if not topology.get(name).refusal(*release_and_fragments)
            )
            cell = probe_cell(topology_name=next(possible, _PROBES[0]), cpus=4, engine=engine)
            job = resolve(Task(cell=cell, kernel=testbed.probe_kernel), testbed)
            with progress.step(f"checking that {engine} repeats itself exactly"):
                _boot_in_each(folders, job, look)
            difference = first_difference(*folders)
            cache.write_atomically(kept, json.dumps(difference))
    if difference:
        raise LabError(
            f"the engine {engine} does not repeat itself on this host: {difference}",
            where=str(probes),
            hint="`lab doctor --fresh` tries again",
        )


def _boot_in_each(folders: Sequence[Path], job: Job, look: Callable[[], None]) -> None:
    """Boot a job in each folder, side by side: how busy the host is must not matter."""

    def boot(folder: Path) -> None:
        cache.remove(folder)
        sampling.measure(job, folder, lambda phase: look())

    with ThreadPoolExecutor(len(folders)) as pool:
        list(pool.map(boot, folders))


def forget(testbed: Testbed) -> None:
    """Let the deterministic engines be checked again the next time they are used."""
    for engine in Engine:
        _answer(testbed, engine).unlink(missing_ok=True)


def first_difference(left: Path, right: Path) -> str:
    """Where two boots' outputs differ first: file, line and both lines; empty when they do not."""
    for name in COMPARED:
        if not (left / name).exists() and not (right / name).exists():
            continue
        texts = [(folder / name).read_text(errors="replace") for folder in (left, right)]
        for number, (left_line, right_line) in enumerate(
            zip_longest(*map(str.splitlines, texts), fillvalue="(nothing)"), start=1
        ):
            if left_line != right_line:
                return f"{name}, line {number}: {left_line!r} against {right_line!r}"
    return ""


def _text(answer: object) -> str:
    if not isinstance(answer, str):
        raise TypeError
    return answer


def _answer(testbed: Testbed, engine: Engine) -> Path:
    """Where it is kept whether a deterministic engine repeats itself."""
    plugin, emulator = str(testbed.plugin), testbed.host.facts.emulator
    identity = cache.key(testbed.probe_kernel.id, testbed.guest.id, plugin, emulator)
    return cache.root() / "host" / f"exact-{engine}-{identity}.json"
