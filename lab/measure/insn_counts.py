# SPDX-License-Identifier: GPL-2.0-or-later
"""What the instruction plugin wrote: instructions by phase, and by function of the kernel.

QEMU writes the file outside of the guest. What a guest decides is when phases end, and so how many
there are: of a guest that made another number of marks than it was told nothing is believed.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache as memoized
from pathlib import Path

from lab.base.errors import GuestError
from lab.measure import plugin_output

_CONTENT = "the instruction counts"
# The plugin counts in 64 bits, and in parts of a nanosecond (NS in lab/build/sim/sim.h).
_NUMBER = r"([0-9]{1,20})"
_PHASE = re.compile(rf"phase {_NUMBER} {_NUMBER} {_NUMBER} {_NUMBER}")
_ADDRESS = r"([0-9a-f]{1,16})"
_BLOCK = re.compile(rf"{_ADDRESS} {_NUMBER} {_NUMBER} {_ADDRESS}")
_SYMBOL = re.compile(r"([0-9a-f]{1,16}) ([A-Za-z?]) (\S{1,512})(?:\t\[\S+\])?")
# The linker script's, such as __lock_text_start (include/asm-generic/vmlinux.lds.h).
_LABEL = re.compile(r"__\w+_text_(start|end)$")
_LOCK_KEY = re.compile(r"__key\.")
PARTS = 256
# Entries of x86-64 (arch/x86/entry/entry_64.S), with these names since v5.8; before, interrupts
# have no cost of their own.
_SYSCALL = "entry_SYSCALL_64"
_INTERRUPT, _VECTOR = "asm_common_interrupt", "asm_sysvec_"
# A run of fio ends one as it begins, as its first job begins, as its last one ends, and as it ends.
_PHASES_OF_A_RUN = 4


@dataclass(frozen=True)
class Phase:
    """Instructions executed between two marks: in user space, and in the kernel by address; when
    it ended, by the guest's clock; and how many marks the guest had made by then.

    executions tells how often a block of the kernel was executed, by where it begins and where it
    goes by a direct call or jump (0: nowhere so).
    """

    user: int
    kernel: Mapping[int, int]
    ended_ns: float = 0.0
    executions: Mapping[tuple[int, int], int] = field(default_factory=dict)
    marks: int = 0

    @property
    def kernel_total(self) -> int:
        """All kernel instructions of the phase."""
        return sum(self.kernel.values())

    @property
    def total(self) -> int:
        """All instructions of the phase."""
        return self.user + self.kernel_total


@dataclass(frozen=True)
class Symbols:
    """The functions of a kernel, ordered by address."""

    addresses: tuple[int, ...]
    names: tuple[str, ...]

    def name(self, address: int) -> str:
        """The function that address lies in."""
        index = bisect_right(self.addresses, address) - 1
        return self.names[index] if index >= 0 else "?"

    def within(self, start: int, end: int) -> tuple[str, ...]:
        """What lies between two addresses: what start lies in, and what begins before end."""
        first = max(0, bisect_right(self.addresses, start) - 1)
        return self.names[first : bisect_left(self.addresses, end)]

    def ranges(self, name: str) -> list[tuple[int, int]]:
        """Where each function of that name begins, and where the next one does."""
        known = zip(self.names, self.addresses, self.addresses[1:], strict=False)
        return [(start, end) for symbol, start, end in known if symbol == name]

    def address(self, name: str) -> int:
        """Where a function begins; GuestError when the kernel has none of that name."""
        try:
            return self.addresses[self.names.index(name)]
        except ValueError as exc:
            raise GuestError("mismatch", f"the kernel has no function {name}") from exc

    def entries(self) -> list[int]:
        """Where the kernel is entered: by system calls, then by each interrupt."""
        interrupts = (
            address
            for name, address in zip(self.names, self.addresses, strict=True)
            if name == _INTERRUPT or name.startswith(_VECTOR)
        )
        return [self.address(_SYSCALL), *interrupts]


@memoized
def symbols(system_map: Path) -> Symbols:
    """The functions listed in a System.map; of several names for one address the first.

    Where a section begins is no function's name. Raises GuestError for a line that is none of a
    System.map: the kernel's own build wrote it.
    """
    return _symbols(system_map, "tTwW", _LABEL)


@memoized
def variables(system_map: Path) -> Symbols:
    """The variables listed in a System.map; of several names for one address the first.

    A lock's key (struct lock_class_key) is empty without lockdep, and has the next one's address.
    """
    return _symbols(system_map, "dDbBrR", _LOCK_KEY)


def _symbols(system_map: Path, kinds: str, left_out: re.Pattern[str]) -> Symbols:
    by_address: dict[int, str] = {}
    lines = system_map.read_text(errors="replace").removesuffix("\n").split("\n")
    for number, line in enumerate(lines, start=1):
        symbol = _SYMBOL.fullmatch(line)
        if not symbol:
            what = f"this is no line of a System.map: {line[:80]!r}"
            raise GuestError("corrupt", what, where=f"{system_map}:{number}")
        address, kind, name = symbol.groups()
        if kind in kinds and not left_out.match(name):
            by_address.setdefault(int(address, 16), name)
    ordered = sorted(by_address.items())
    return Symbols(tuple(a for a, _ in ordered), tuple(n for _, n in ordered))


def phases(output: str) -> list[Phase]:
    """The phases that the plugin wrote, in order.

    Raises GuestError (``corrupt``) for a file that was cut off or has a line of anybody else's.
    """
    phases_written: list[Phase] = []
    kernel = Counter[int]()
    executions: dict[tuple[int, int], int] = {}
    for number, line in plugin_output.record_lines(output, _CONTENT):
        if block := phases_written and _BLOCK.fullmatch(line):
            address = int(block[1], 16)
            kernel[address] += int(block[2])
            executions[address, int(block[4], 16)] = int(block[3])
        elif (phase := _PHASE.fullmatch(line)) and int(phase[1]) == len(phases_written):
            kernel, executions = Counter(), {}
            user, ended, marks = map(int, phase.groups()[1:])
            phases_written.append(Phase(user, kernel, ended / PARTS, executions, marks))
        else:
            raise plugin_output.foreign_line(number, line, _CONTENT)
    return phases_written


def require_marks(phases: Sequence[Phase], runs: int, jobs: int) -> None:
    """Raise GuestError unless the guest made the marks of so many fio runs, and no other: of each
    run two by the agent and two by each job.

    One more or less would make the I/O of one run that of another.
    """
    made, ordered = phases[-1].marks if phases else 0, runs * (2 * jobs + 2)
    if made != ordered or len(phases) != 1 + runs * _PHASES_OF_A_RUN:
        raise GuestError(
            "corrupt",
            f"the guest made {made} marks, not the {ordered} of {runs} fio runs with {jobs} jobs",
        )


def run_place(run: int) -> int:
    """Which phase has the I/O of the run-th fio run, counted from 0: from when its first job began
    until its last one ended.
    """
    return run * _PHASES_OF_A_RUN + 2


def run_ns(phases: Sequence[Phase], run: int) -> float:
    """How long the I/O of the run-th fio run took."""
    place = run_place(run)
    return phases[place].ended_ns - phases[place - 1].ended_ns


def by_function(phase: Phase, names: Symbols) -> Counter[str]:
    """The kernel instructions of a phase by function."""
    counts: Counter[str] = Counter()
    for address, instructions in phase.kernel.items():
        counts[names.name(address)] += instructions
    return counts


def by_instruction(phase: Phase, addresses: Sequence[int], end: int) -> Counter[int]:
    """What a phase executed of a function's instructions, which lie at addresses and before end.

    A block is executed from where it begins on, instruction by instruction. It adds up to what
    by_function gives.
    """
    executions = Counter[int]()
    for (block, _), count in phase.executions.items():
        executions[block] += count
    counts: Counter[int] = Counter()
    for block, instructions in phase.kernel.items():
        if not addresses or not addresses[0] <= block < end:
            continue
        place, left = bisect_right(addresses, block) - 1, instructions
        while left:
            # What goes on behind the function belongs to where it began, as its whole block does.
            last = place == len(addresses) - 1
            executed = left if last else min(left, executions[block])
            counts[addresses[place]] += executed
            left -= executed
            place += not last
    return counts
