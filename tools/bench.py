# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure the lab itself: whether the exact engine is exact on this host, and how fast the lab is.

`python -m tools.bench` (`make bench`). Speeds are ratios within one run, because a host's time
depends on what else runs there.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import click

from lab.base import cache
from lab.base.errors import ExitCode, LabError
from lab.base.process import paste, run, supervised, tail
from lab.base.progress import Progress, duration
from lab.base.system import PROJECT
from lab.cli import main, options
from lab.inputs import series
from lab.inputs.terms import Engine
from lab.measure import cost, determinism, sampling
from lab.measure.boot_store import BootStore
from lab.measure.cell import Cell, Task
from lab.measure.job import Testbed, resolve
from lab.measure.place import ThisHost
from lab.measure.runner import Runner
from lab.measure.sampling import Sample
from lab.measure.session import Session
from tools import planted

# With a disk that the kernel has itself, and with each of QEMU's own.
TOPOLOGIES = ("nullb_mq", "nvme_mq", "megasas")
# Boots that are compared stay here, to look at where they differ.
FOLDER = PROJECT / "build" / "bench"

# Deadlines for what hangs: several times what was seen on two busy cores.
_VNG_S = 300.0
_COMMAND_S = 7200.0

# The line of `lab run` about the first series that is judged.
_FIRST_VERDICT = re.compile(r"^\w+: [A-Z]+.*, (?P<after>after .+)$", re.MULTILINE)
# The series that is built with one patch more, and the one that is judged again with one more.
_BUILT, _JUDGED = "async_depth", "plug_order"
_CONTROL = "planted_half"

# What vng's init writes to the console after its command.
_RAN = "script exited with code 0"


@click.command()
@click.option(
    "--repeat",
    default=10,
    show_default=True,
    type=click.IntRange(2),
    help="Boots of the same cell on each topology.",
)
@click.option(
    "--cells",
    default=12,
    show_default=True,
    type=click.IntRange(1),
    help="Small cells that are measured on one CPU.",
)
@click.option("--builds", is_flag=True, help="Build a kernel from nothing, too: ten minutes more.")
@click.option("--verdicts", is_flag=True, help="Judge all series from nothing, too: half an hour.")
@options.measuring
def bench(session: Session, repeat: int, cells: int, builds: bool, verdicts: bool) -> None:
    """Measure the lab itself: whether the exact engine is exact here, and how fast the lab is.

    Exit code 3: the exact engine is not exact on this host.
    """
    testbed = session.check_engines()
    testbed.host.require(Engine.EXACT)
    exact = boots_side_by_side_are_equal(testbed)
    for topology in TOPOLOGIES:
        exact &= repeated_boots_are_equal(testbed, topology, repeat)
    time_phases(testbed)
    time_small_cells(testbed, cells, session.progress)
    time_first_command(testbed)
    if builds:
        time_builds(series.get(_BUILT).patches("series")[0])
    if verdicts:
        time_verdicts(planted.control(_CONTROL).patches("series")[0])
    if not exact:
        raise LabError("the exact engine is not exact on this host", where=str(FOLDER))


def repeated_boots_are_equal(testbed: Testbed, topology: str, count: int) -> bool:
    """Boot a cell on a topology count times, every second time with every core loaded; whether
    console, result channel and instruction counts of every block were equal, byte for byte.
    """
    cell = determinism.probe_cell(topology_name=topology)
    folders = [_empty_folder(f"{topology}-{number:02d}") for number in range(count)]
    click.echo(f"{count} repetitions of {cell}")
    for number, folder in enumerate(folders):
        loaded = number % 2 == 1
        with _every_core_loaded(folder.parent) if loaded else nullcontext():
            sample = _boot(testbed, cell, folder)
        state = "cores loaded" if loaded else "alone"
        insns = f"{sample.values[cost.KERNEL]:.6f} insns/I/O"
        click.echo(f"  {number + 1:>2} {state:<12} {insns}, profile and console {_digest(folder)}")
    compared = (determinism.first_difference(folders[0], folder) for folder in folders[1:])
    differences = [difference for difference in compared if difference]
    first = f"; first: {differences[0]}" if differences else ""
    click.echo(f"  {count - len(differences)} of {count} identical{first}")
    return not differences


def boots_side_by_side_are_equal(testbed: Testbed) -> bool:
    """Time one boot alone, then as many at once as there are cores; whether all were equal."""
    workers = os.cpu_count() or 1
    first = _empty_folder("alone")
    start = time.monotonic()
    _boot(testbed, determinism.probe_cell(), first)
    alone = time.monotonic() - start
    folders = [_empty_folder(f"beside-{number}") for number in range(workers)]
    start = time.monotonic()
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda folder: _boot(testbed, determinism.probe_cell(), folder), folders))
    together = time.monotonic() - start
    equal = not any(determinism.first_difference(first, folder) for folder in folders)
    click.echo(
        f"{workers} cells side by side took {duration(together)}, one alone {duration(alone)}: "
        f"ratio {together / alone:.2f}, {'equal' if equal else 'DIFFERENT'} numbers"
    )
    return equal


def time_phases(testbed: Testbed) -> None:
    """Say how long each phase of a cell takes, and which share of its instructions is measured."""
    for cpus in (1, 2):
        sample = _boot(testbed, determinism.probe_cell(cpus=cpus), _empty_folder("phases"))
        phases = ", ".join(f"{name} {took:.1f} s" for name, took in sample.phases_s.items())
        share = sample.values["measured_share"]
        total = sum(sample.phases_s.values())
        click.echo(f"{cpus} vCPU: {total:.1f} s a cell ({phases}); {share:.0f} % measured")


def time_small_cells(testbed: Testbed, count: int, progress: Progress) -> None:
    """Measure count small cells on one CPU, as a command does; say how many fit into an hour."""
    cell = determinism.probe_cell(topology_name="nullb", scheduler="none")
    tasks = [
        Task(cell=replace(cell, seed=n + 1), kernel=testbed.probe_kernel) for n in range(count)
    ]
    with cache.scratch() as folder:
        one_cpu = ThisHost(testbed.host.facts.memory_gib, cpus=1)
        runner = Runner(testbed, BootStore(folder), progress, one_cpu)
        start = time.monotonic()
        outcomes = runner.all(tasks)
        seconds = time.monotonic() - start
    for outcome in outcomes:
        outcome.require_boots()
    share = statistics.fmean(outcome.value("measured_share") or 0 for outcome in outcomes)
    click.echo(
        f"{count} cells of {cell} on one CPU took {duration(seconds)}: "
        f"{3600 * count / seconds:,.0f} cells a core-hour; {share:.0f} % of their instructions are "
        "measured"
    )


def time_first_command(testbed: Testbed) -> None:
    """Say how long it takes until a guest runs its first command: a deterministic one, and one of
    plain vng.
    """
    cell = determinism.probe_cell(topology_name="nullb")
    sample = _boot(testbed, cell, _empty_folder("first-command"))
    start = time.monotonic()
    _boot_by_vng(testbed.probe_kernel.vmlinux)
    plain, deterministic = time.monotonic() - start, sample.phases_s["boot"]
    click.echo(
        f"first command after {deterministic:.1f} s in a deterministic guest, {plain:.1f} s with "
        f"plain vng: ratio {deterministic / plain:.2f}"
    )


def _boot_by_vng(image: Path) -> None:
    """Boot a kernel by plain vng for one command; raises LabError when that did not run."""
    # vng starts a program of its own by name.
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


def time_builds(patch: Path) -> None:
    """Build the profile's kernel from nothing, then with a patch; say how long each takes."""
    took = []
    with cache.scratch() as folder:
        for words in ([], ["--patch", str(patch)]):
            start = time.monotonic()
            lab = [sys.executable, "-m", "lab", "-q", "build", *words]
            run(lab, env={"LAB_CACHE": str(folder)}, timeout_s=_COMMAND_S)
            took.append(time.monotonic() - start)
    full, variant = took
    click.echo(
        f"a kernel from nothing, its source fetched, takes {duration(full)}, with one patch more "
        f"{duration(variant)}: ratio {variant / full:.2f}"
    )


def time_verdicts(patch: Path) -> None:
    """Judge all series in an empty cache, one of them again with a patch more, and try that patch;
    say how long each takes, absolutely and as a part of the first.
    """
    with cache.scratch() as folder:
        env = {"LAB_CACHE": str(folder / "cache"), "LAB_RESULTS": str(folder / "results")}

        def timed(*words: str) -> tuple[float, str]:
            start = time.monotonic()
            argv = [sys.executable, "-m", "lab", *words]
            result = run(argv, env=env, check=False, merge=True, timeout_s=_COMMAND_S)
            if result.status not in (ExitCode.DONE, ExitCode.REFUTED, ExitCode.INCONCLUSIVE):
                raise LabError(f"it failed:\n{tail(result.output)}", where=paste(argv))
            return time.monotonic() - start, result.output

        every, output = timed("run")
        first = _FIRST_VERDICT.search(output)
        longer = folder / "longer" / _JUDGED
        shutil.copytree(series.file(_JUDGED).parent, longer)
        shutil.copy(patch, longer / "series" / "9999-more.patch")
        changed, _ = timed("run", str(longer))
        tried, _ = timed("try", str(patch))
        again, _ = timed("try", str(patch))
    click.echo(
        f"from nothing, the first verdict comes {first['after'] if first else 'never'}, the last "
        f"after {duration(every)}"
    )
    for what, seconds in (
        (f"{_JUDGED} with one patch more", changed),
        ("lab try of that patch alone, the debug kernel built", tried),
        ("lab try of it again", again),
    ):
        click.echo(f"  {what}: {duration(seconds)}, {seconds / every:.2f} of that")


def _boot(testbed: Testbed, cell: Cell, folder: Path) -> Sample:
    return sampling.measure(resolve(Task(cell=cell, kernel=testbed.probe_kernel), testbed), folder)


def _digest(folder: Path) -> str:
    """An id of all that is compared of a boot; equal boots have equal ids."""
    files = (folder / name for name in determinism.COMPARED)
    return cache.key([file.read_text(errors="replace") for file in files if file.exists()])


def _empty_folder(name: str) -> Path:
    folder = FOLDER / name
    cache.remove(folder)
    return cache.make_folder(folder)


@contextmanager
def _every_core_loaded(folder: Path) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            spin = ("sh", "-c", "while :; do :; done")
            stack.enter_context(supervised(spin, log=folder / "load.log"))
        yield


if __name__ == "__main__":
    main.main(bench, "python -m tools.bench")
