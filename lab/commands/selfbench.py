# SPDX-License-Identifier: GPL-2.0-or-later
"""Benchmarks of the lab itself: is it exact, and how fast is it, as ratios within one run."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from lab.base import cache
from lab.base.errors import ExitCode, LabError
from lab.base.process import paste, run, supervised, tail
from lab.base.progress import Progress, duration
from lab.inputs import series
from lab.measure import cost, determinism, sampling
from lab.measure.boot_store import BootStore
from lab.measure.cell import Cell, Task
from lab.measure.job import Testbed, resolve
from lab.measure.place import ThisHost
from lab.measure.runner import Runner
from lab.measure.sampling import Sample

# With a disk that the kernel has itself, and with each of QEMU's own.
TOPOLOGIES = ("nullb_mq", "nvme_mq", "megasas")

Say = Callable[[str], None]

# Deadlines for what hangs: several times what was seen on two busy cores.
_VNG_S = 300.0
_BUILD_S = 7200.0

# What `lab run` says of the first series that is judged, and the series that is judged again.
_FIRST = re.compile(r"^\w+: [A-Z]+.*, (?P<after>after .+)$", re.MULTILINE)
_CHANGED = "plug_order"

# What vng's init writes to the console after its command.
_RAN = "script exited with code 0"


def repetitions(testbed: Testbed, topology: str, count: int, say: Say) -> bool:
    """Run a cell on a topology count times, half of them with every core loaded; whether all were
    equal.

    Equal means: console, result channel and instruction counts of every block, byte for byte.
    """
    cell = determinism.probe_cell(topology_name=topology)
    folders = [_folder(f"{topology}-{number:02d}") for number in range(count)]
    say(f"{count} repetitions of {cell}")
    for number, folder in enumerate(folders):
        loaded = number % 2 == 1
        with ExitStack() as stack:
            if loaded:
                stack.enter_context(_load(folder.parent))
            sample = _boot(testbed, cell, folder)
        state = "cores loaded" if loaded else "alone"
        insns = f"{sample.values[cost.KERNEL]:.6f} insns/I/O"
        say(
            f"  {number + 1:>2} {state:<12} {insns}, "
            f"profile and console {determinism.digest(folder)}"
        )
    differences = [determinism.first_difference(folders[0], folder) for folder in folders[1:]]
    found = [difference for difference in differences if difference]
    say(f"  {count - len(found)} of {count} identical" + (f"; first: {found[0]}" if found else ""))
    return not found


def side_by_side(testbed: Testbed, say: Say) -> bool:
    """Time one cell alone, then as many at once as there are cores; whether all were equal."""
    workers = os.cpu_count() or 1
    first = _folder("alone")
    start = time.monotonic()
    _boot(testbed, determinism.probe_cell(), first)
    alone = time.monotonic() - start
    folders = [_folder(f"beside-{number}") for number in range(workers)]
    start = time.monotonic()
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda folder: _boot(testbed, determinism.probe_cell(), folder), folders))
    together = time.monotonic() - start
    equal = not any(determinism.first_difference(first, f) for f in folders)
    say(
        f"{workers} cells side by side took {duration(together)}, one alone {duration(alone)}: "
        f"ratio {together / alone:.2f}, {'equal' if equal else 'DIFFERENT'} numbers"
    )
    return equal


def speed(testbed: Testbed, say: Say) -> None:
    """Seconds of one cell by phase, and the share of its instructions that are measured."""
    for cpus in (1, 2):
        sample = _boot(testbed, determinism.probe_cell(cpus=cpus), _folder("speed"))
        phases = ", ".join(f"{name} {took:.1f} s" for name, took in sample.phases_s.items())
        share = sample.values["measured_share"]
        total = sum(sample.phases_s.values())
        say(f"{cpus} vCPU: {total:.1f} s a cell ({phases}); {share:.0f} % measured")


def throughput(testbed: Testbed, count: int, progress: Progress, say: Say) -> None:
    """Measure so many small cells on one CPU, as a command does, and say how many an hour has."""
    cell = determinism.probe_cell(topology_name="nullb", scheduler="none")
    tasks = [
        Task(cell=replace(cell, seed=n + 1), kernel=testbed.probe_kernel) for n in range(count)
    ]
    with cache.scratch() as folder:
        one_cpu = ThisHost(testbed.host.facts.memory_gib, cpus=1)
        runner = Runner(testbed, BootStore(folder), progress, one_cpu)
        start = time.monotonic()
        found = runner.all(tasks)
        seconds = time.monotonic() - start
    for outcome in found:
        outcome.require_boots()
    share = statistics.fmean(outcome.value("measured_share") or 0 for outcome in found)
    say(
        f"{count} cells of {cell} on one CPU took {duration(seconds)}: "
        f"{3600 * count / seconds:,.0f} cells a core-hour; {share:.0f} % of their instructions are "
        "measured"
    )


def first_command(testbed: Testbed, say: Say) -> None:
    """How long until the first command of a guest runs: a deterministic one's, and one of plain
    vng's.
    """
    sample = _boot(testbed, determinism.probe_cell(topology_name="nullb"), _folder("first"))
    start = time.monotonic()
    _plain_guest(testbed.probe_kernel.vmlinux)
    plain, own = time.monotonic() - start, sample.phases_s["boot"]
    say(
        f"first command after {own:.1f} s in a deterministic guest, {plain:.1f} s with plain vng: "
        f"ratio {own / plain:.2f}"
    )


def _plain_guest(image: Path) -> None:
    """Boot the kernel by plain vng for one command; raises LabError when that did not run."""
    # It starts a program of its own by name.
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    vng = ["vng", "--verbose", "--disable-kvm", "--exec", "true", "--run", str(image)]
    result = run(vng, env={"PATH": path}, check=False, merge=True, timeout_s=_VNG_S)
    # On a host without udev the guest finds no port to send the status through, and vng fails
    # after a command that did run: its console still tells.
    if result.status and _RAN not in result.output:
        last = result.output.strip().rpartition("\n")[2]
        raise LabError(
            f"plain vng ran no command in its guest: status {result.status}, last line {last!r}",
            where=paste(vng),
        )


def builds(patch: Path, say: Say) -> None:
    """Build the profile's kernel from nothing, then with one patch more: how long each takes."""
    took = []
    with cache.scratch() as folder:
        for words in ([], ["--patch", str(patch)]):
            start = time.monotonic()
            lab = [sys.executable, "-m", "lab", "-q", "build", *words]
            run(lab, env={"LAB_CACHE": str(folder)}, timeout_s=_BUILD_S)
            took.append(time.monotonic() - start)
    full, variant = took
    say(
        f"a kernel from nothing, its source fetched, takes {duration(full)}, with one patch more "
        f"{duration(variant)}: ratio {variant / full:.2f}"
    )


def verdicts(patch: Path, say: Say) -> None:
    """Judge all series in an empty cache, one of them again with a patch more, and try that patch:
    how long each takes, and what that is beside the first.
    """
    with cache.scratch() as folder:
        env = {"LAB_CACHE": str(folder / "cache"), "LAB_RESULTS": str(folder / "results")}

        def took(*words: str) -> tuple[float, str]:
            start = time.monotonic()
            argv = [sys.executable, "-m", "lab", *words]
            said = run(argv, env=env, check=False, merge=True, timeout_s=_BUILD_S)
            if said.status not in (ExitCode.DONE, ExitCode.REFUTED, ExitCode.INCONCLUSIVE):
                raise LabError(f"it failed:\n{tail(said.output)}", where=paste(argv))
            return time.monotonic() - start, said.output

        every, output = took("run")
        first = _FIRST.search(output)
        own = folder / "own" / _CHANGED
        shutil.copytree(series.file(_CHANGED).parent, own)
        shutil.copy(patch, own / "series" / "9999-more.patch")
        changed, _ = took("run", str(own))
        tried, _ = took("try", str(patch))
        again, _ = took("try", str(patch))
    say(
        f"from nothing, the first verdict comes {first['after'] if first else 'never'}, the last "
        f"after {duration(every)}"
    )
    for what, seconds in (
        (f"{_CHANGED} with one patch more", changed),
        ("lab try of that patch alone, the debug kernel built", tried),
        ("lab try of it again", again),
    ):
        say(f"  {what}: {duration(seconds)}, {seconds / every:.2f} of that")


def _boot(testbed: Testbed, cell: Cell, folder: Path) -> Sample:
    return sampling.measure(resolve(Task(cell=cell, kernel=testbed.probe_kernel), testbed), folder)


def _folder(name: str) -> Path:
    folder = cache.root() / "selfbench" / name
    cache.remove(folder)
    return cache.make_folder(folder)


@contextmanager
def _load(folder: Path) -> Iterator[None]:
    """Keep every core busy with something else for the block."""
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            spin: Sequence[str] = ("sh", "-c", "while :; do :; done")
            stack.enter_context(supervised(spin, log=folder / "load.log"))
        yield
