# SPDX-License-Identifier: GPL-2.0-or-later
"""What the simulation wrote: the guest's time, and where it and the cache lines went.

Of a run of fio the I/Os after a warm-up are measured (lab/build/sim/plugin.c), and after another
one again, at another cache-line transfer cost, between the run's beginning and its end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.base.errors import GuestError
from lab.build.tcg_plugin import PER_IO
from lab.inputs.terms import Metric
from lab.measure import cost, plugin_output
from lab.measure.cost import Cost
from lab.measure.insn_counts import PARTS, Phase, Symbols

_CONTENT = "the simulated times"
CPU = "cpu_ns_per_io"
TRANSFERS = "transfers_per_io"
LOCK = "lock_ns_per_io"
METRICS = {CPU: Metric("ns"), TRANSFERS: Metric("lines/I/O"), LOCK: Metric("ns")}
# Where a CPU waits for a spinlock that another one holds.
_WAITING = "queued_spin_lock_slowpath"
# Fio's clock has a resolution of a millisecond.
_RESOLUTION_MS = 1.0
_LINE_SIZE = 64
# Where the kernel's own image begins (Documentation/arch/x86/x86_64/mm.rst).
_IMAGE = 0xFFFFFFFF80000000
# So many of the lines with most transfers are kept.
_LINES = 20
_NUMBER = r"([0-9]{1,20})"
_ADDRESS = r"([0-9a-f]{1,16})"
_PHASE = re.compile(rf"phase ([01]) {_NUMBER} {_NUMBER}")
_BLOCK = re.compile(rf"{_ADDRESS} {_NUMBER} {_NUMBER}")
_INSTRUCTION = re.compile(rf"{_ADDRESS} {_NUMBER} {_NUMBER} {_NUMBER} {_NUMBER}")
_LINE = re.compile(rf"line {_ADDRESS} {_ADDRESS} {_NUMBER}")


@dataclass(frozen=True)
class SimPhase:
    """A phase: whether it is the measured one, when it ended, and what happened in it.

    user is the vCPUs' time in user space, kernel that in the kernel by address, in parts of a
    nanosecond, summed over all vCPUs, waiting in loops included. executed says how often, by the
    address of a kernel block; transfers of lines by instruction; lines by line, too.
    """

    measured: bool
    ended_ns: float
    user: int
    kernel: Counter[int]
    executed: Counter[int]
    transfers: Counter[int]
    lines: Counter[tuple[int, int]]


@dataclass(frozen=True)
class Line:
    """A cache line: how often CPUs take it from each other for an I/O, and by which functions.

    variable names those of the kernel's own that lie in it; none do in memory that was allocated.
    """

    address: int
    transfers: Mapping[str, float]
    variable: str = ""

    @property
    def place(self) -> str:
        """The variable, else the address."""
        return self.variable or f"{self.address:x}"

    @property
    def total(self) -> float:
        """Moves per I/O."""
        return sum(self.transfers.values())


@dataclass(frozen=True)
class Simulated:
    """What the simulation says of a workload: CPU time and cache-line transfers per I/O, and IOPS
    by its own clock. lines are those that move most, the first most of all.

    Part of the CPU time is waiting for spinlocks.
    """

    simulated_iops: float
    transfers: float
    cost: Cost
    lines: tuple[Line, ...]

    def values(self) -> dict[str, float]:
        """These numbers by metric."""
        return {
            "iops": self.simulated_iops,
            CPU: self.cost.user + self.cost.kernel_total,
            TRANSFERS: self.transfers,
            LOCK: self.cost.kernel.get(_WAITING, 0.0),
        }


def variant(metric: str, scaled: str) -> str:
    """The name of a metric with costs as one of machine_model.SENSITIVITY names them."""
    return f"{metric}_{scaled.replace(' ', '_')}"


def phases(output: str) -> list[SimPhase]:
    """The phases that the plugin wrote, in order.

    Raises GuestError (``corrupt``) for a file that was cut off or has a line of anybody else's.
    """
    phases_written: list[SimPhase] = []
    for number, line in plugin_output.record_lines(output, _CONTENT):
        if phase := _PHASE.fullmatch(line):
            ended, user = int(phase[2]) / PARTS, int(phase[3])
            empty: tuple[Counter[int], Counter[int], Counter[int]] = Counter(), Counter(), Counter()
            phases_written.append(SimPhase(phase[1] == "1", ended, user, *empty, Counter()))
        elif not (phases_written and _add(phases_written[-1], line)):
            raise plugin_output.foreign_line(number, line, _CONTENT)
    return phases_written


def _add(phase: SimPhase, line: str) -> bool:
    """Add a line of the plugin's to its phase; whether it is one."""
    if block := _BLOCK.fullmatch(line):
        address = int(block[1], 16)
        phase.kernel[address] += int(block[2])
        phase.executed[address] += int(block[3])
    elif instruction := _INSTRUCTION.fullmatch(line):
        address = int(instruction[1], 16)
        phase.kernel[address] += int(instruction[2])
        phase.transfers[address] += sum(int(instruction[kind]) for kind in (3, 4, 5))
    elif moved := _LINE.fullmatch(line):
        phase.lines[int(moved[1], 16), int(moved[2], 16)] += int(moved[3])
    else:
        return False
    return True


def simulated(
    sim_phases: Sequence[SimPhase],
    names: Symbols,
    variables: Symbols,
    fio_runtime_s: float,
    windows: int = 1,
) -> list[Simulated]:
    """What is simulated of an I/O on a kernel with functions and variables of these names, each of
    the times that it was measured in a run.

    Raises GuestError when the guest's marks are not those of one run of fio, when it was measured
    less often, or when the guest's own clock did not show the simulated time.
    """
    measured = [place for place, phase in enumerate(sim_phases) if phase.measured]
    # The guest's start; fio's; a warm-up before each time that it is measured; fio's end.
    expected = [2 + 2 * window for window in range(windows)]
    if measured != expected or len(sim_phases) != expected[-1] + 3:
        raise GuestError(
            "corrupt",
            "the guest did not do the I/Os that were to be measured, or not in one run of fio",
        )
    start, end = sim_phases[measured[0] - 1].ended_ns, sim_phases[measured[-1]].ended_ns
    whole_ns = sim_phases[measured[-1] + 1].ended_ns - sim_phases[measured[0] - 2].ended_ns
    _require_clock(fio_runtime_s * 1e3, (end - start) / 1e6, whole_ns / 1e6)
    return [
        _of_window(sim_phases[i - 1].ended_ns, sim_phases[i], names, variables) for i in measured
    ]


def _of_window(start_ns: float, window: SimPhase, names: Symbols, variables: Symbols) -> Simulated:
    """What is simulated of an I/O in a phase that is measured."""
    span_ns = window.ended_ns - start_ns
    ios = window.executed[names.address(PER_IO)]
    if span_ns <= 0 or not ios:
        raise GuestError("corrupt", "the guest did no I/O while it was measured")
    nothing, work = Phase(0, {}), Phase(window.user, window.kernel)
    return Simulated(
        simulated_iops=ios / span_ns * 1e9,
        transfers=window.transfers.total() / ios,
        cost=cost.slope(nothing, work, ios * PARTS, names),
        lines=_worst(window.lines, ios, names, variables),
    )


def _worst(
    transfers: Mapping[tuple[int, int], int], ios: int, names: Symbols, variables: Symbols
) -> tuple[Line, ...]:
    """The lines with most transfers, and the functions whose instructions cause them."""
    by_line: dict[int, Counter[str]] = {}
    for (line, instruction), count in transfers.items():
        by_line.setdefault(line, Counter())[names.name(instruction)] += count
    ordered = sorted(by_line.items(), key=lambda item: (-item[1].total(), item[0]))[:_LINES]
    return tuple(
        Line(
            line,
            {name: count / ios for name, count in counts.most_common()},
            ", ".join(variables.within(line, line + _LINE_SIZE)) if line >= _IMAGE else "",
        )
        for line, counts in ordered
    )


def to_text(lines: Sequence[Line]) -> str:
    """Lines as rows ``ADDRESS<TAB>VARIABLE<TAB>FUNCTION<TAB>TRANSFERS``, per I/O."""
    return "".join(
        f"{line.address:x}\t{line.variable}\t{name}\t{transfers!r}\n"
        for line in lines
        for name, transfers in line.transfers.items()
    )


def from_text(text: str) -> list[Line]:
    """The inverse of to_text."""
    by_line: dict[tuple[str, str], dict[str, float]] = {}
    for row in text.splitlines():
        address, variable, name, transfers = row.split("\t")
        by_line.setdefault((address, variable), {})[name] = float(transfers)
    return [Line(int(line[0], 16), transfers, line[1]) for line, transfers in by_line.items()]


def _require_clock(fio_ms: float, measured_ms: float, whole_ms: float) -> None:
    """Fio's I/O lasted longer than what is measured of it, and not as long as fio itself."""
    if not measured_ms - _RESOLUTION_MS <= fio_ms <= whole_ms + _RESOLUTION_MS:
        raise GuestError(
            "corrupt",
            f"the guest's clock is not the simulated one: fio says {fio_ms:.1f} ms, the simulation "
            f"at least {measured_ms:.1f} and at most {whole_ms:.1f} ms",
        )
