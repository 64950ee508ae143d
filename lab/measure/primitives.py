# SPDX-License-Identifier: GPL-2.0-or-later
"""What cache lines, atomic operations and locks cost: on this machine, and on a simulated one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import NamedTuple

from lab.base import cache
from lab.base.errors import LabError
from lab.base.process import run
from lab.base.progress import Progress
from lab.build import benchmark, guest_root
from lab.build.kernel import Kernel
from lab.guest import boot
from lab.guest.orders import Orders
from lab.guest.qemu_command import Machine
from lab.inputs.machine_model import MachineModel
from lab.inputs.terms import Engine
from lab.measure import host
from lab.measure.job import Testbed

# Chosen: on 16 CPUs the whole takes ten seconds on a machine, and as long under the simulation.
_REPETITIONS = 5
_ROUNDS = 2000
_SIMULATED_REPETITIONS = 2
_SIMULATED_ROUNDS = 300
# Of the instructions in a round of the loop that is longer there (work() in primitives.h), so many
# wait for one another.
_LOOP = 50 / 53
_BOOT_S = 120.0
_LIMIT_S = 900.0
# Chosen. A ping-pong that differs by more means that CPUs were moved, or that something else ran on
# them: near and far differ by more on all machines, and what a line's home adds is less.
_STEADY = 1.5


class Primitive(NamedTuple):
    """Something that is timed: its name, how many lines it uses, and by how many threads."""

    name: str
    lines: int
    threads: int

    def __str__(self) -> str:
        lines = f", {self.lines} lines" if self.lines else ""
        return f"{self.name}{lines}, {self.threads} threads"


@dataclass(frozen=True)
class Repetition:
    """One measurement in ns; before and after are ping-pongs around it, 0 where there were none."""

    ns: float
    before: float = 0.0
    after: float = 0.0

    def apart(self, low: float, high: float) -> bool:
        """Whether both ping-pongs took a time within these, if there were any."""
        return not self.before or (low <= self.before <= high and low <= self.after <= high)


Measured = dict[Primitive, list[Repetition]]


def parsed(text: str) -> Measured:
    """What the benchmark printed. Raises LabError for anything else."""
    measured: Measured = {}
    for line in text.splitlines():
        words = line.split("\t")
        try:
            name, lines, threads, ns, before, after = words
            key = Primitive(name, int(lines), int(threads))
            repetition = Repetition(float(ns), float(before), float(after))
        except ValueError as exc:
            raise LabError(f"the benchmark printed {line!r}") from exc
        measured.setdefault(key, []).append(repetition)
    return measured


def undisturbed(measured: Measured) -> Measured:
    """The repetitions before and after which the CPUs were as far from each other as mostly."""
    return at_each_distance(measured)[0]


def at_each_distance(measured: Measured) -> list[Measured]:
    """The repetitions before and after which the CPUs were equally far from each other, for each
    distance: the usual one first. A hypervisor may move CPUs to and fro.
    """
    every = [each for repetitions in measured.values() for each in repetitions]
    seen = [ns for each in every for ns in (each.before, each.after) if ns]
    parts: list[Measured] = []
    while seen or not parts:
        usual = median_low(seen or [0.0])
        low, high = usual / _STEADY, usual * _STEADY
        parts.append(
            {
                key: [each for each in repetitions if each.apart(low, high)]
                for key, repetitions in measured.items()
            }
        )
        seen = [ns for ns in seen if not low <= ns <= high]
    return parts


def thread_counts(cpus: int) -> tuple[int, ...]:
    """1, 2, 4, ... up to the number of CPUs, which is the last one."""
    powers = [1 << power for power in range(cpus.bit_length()) if 1 << power < cpus]
    return (*powers, cpus)


def natively(threads: Sequence[int], cpus: Sequence[int]) -> Measured:
    """The benchmark on this machine, thread i on the i-th of cpus."""
    return on_host(joined(threads), _REPETITIONS, _ROUNDS, joined(cpus))


def on_host(*words: str | int) -> Measured:
    """The benchmark with such arguments on this machine. Raises CommandError when it fails."""
    program = benchmark.compiled().program
    return parsed(run([str(program), *map(str, words)], timeout_s=_LIMIT_S).output)


def simulated(
    testbed: Testbed, model: MachineModel, threads: Sequence[int], progress: Progress
) -> Measured:
    """The benchmark on a simulated machine. Raises GuestError when the guest fails.

    What a lock protects are instructions that wait for one another, so each of them takes a cycle
    on a machine. Simulated ones take insn_ns, so there are more of them.
    """
    cpus = max(2, *threads)
    longer = _LOOP * model.core.cycle_ns / model.insn_ns if model.core else 1.0
    sizes = f"{_SIMULATED_REPETITIONS} {_SIMULATED_ROUNDS}"
    words = f"{joined(threads)} {sizes} {joined(range(cpus))} {1000 * longer:.0f}"
    return in_guest(testbed, testbed.probe_kernel, model, cpus, words, progress)


def in_guest(
    testbed: Testbed,
    kernel: Kernel,
    model: MachineModel,
    cpus: int,
    words: str,
    progress: Progress,
) -> Measured:
    """The benchmark with such arguments in a simulated guest. Raises GuestError when it fails."""
    testbed.host.require(Engine.SIM)
    built = benchmark.compiled()
    guest = guest_root.build(progress, built.program)
    folder = cache.root() / "probe" / "primitives"
    machine = Machine(
        kernel,
        guest,
        host.PROBE.model_copy(update={"cpus": cpus}),
        Engine.SIM,
        folder,
        plugin=testbed.plugin,
        plugin_options=("programs=1", *model.options(cpus)),
        marker=built.marker,
    )
    deadlines = {"boot": _BOOT_S, "agent": _BOOT_S, "workload": _LIMIT_S}
    orders = Orders(("phase workload", f"primitives {words}"), deadlines)
    with cache.lock(cache.root() / "probe" / "lock", progress, "measuring primitives"):
        cache.remove(folder)
        return parsed(boot.run(machine, orders).outputs["primitives.log"])


def joined(numbers: Sequence[int]) -> str:
    """Numbers as the benchmark takes them."""
    return ",".join(map(str, numbers))


def recorded(path: Path) -> Measured:
    """What the benchmark printed on a machine before; lines with a hash sign are comments."""
    lines = path.read_text().splitlines()
    return parsed("\n".join(line for line in lines if not line.startswith("#")))
