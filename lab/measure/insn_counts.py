# SPDX-License-Identifier: GPL-2.0-or-later
"""What the instruction plugin wrote: instructions by phase, and by function of the kernel."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache as memoized
from pathlib import Path

from lab.base.errors import LabError


@dataclass(frozen=True)
class Phase:
    """Instructions executed between two marks: in user space, and in the kernel by address."""

    user: int
    kernel: Mapping[int, int]

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

    def address(self, name: str) -> int:
        """Where a function begins; LabError when the kernel has none of that name."""
        try:
            return self.addresses[self.names.index(name)]
        except ValueError as exc:
            raise LabError(f"the kernel has no function {name}") from exc


@memoized
def symbols(system_map: Path) -> Symbols:
    """The functions listed in a System.map; of several names for one address the first."""
    return _symbols(system_map, "tTwW")


@memoized
def variables(system_map: Path) -> Symbols:
    """The variables listed in a System.map; of several names for one address the first.

    A lock's key (struct lock_class_key) is empty without lockdep, and has the next one's address.
    """
    return _symbols(system_map, "dDbBrR", leave_out="__key.")


def _symbols(system_map: Path, kinds: str, leave_out: str = "\n") -> Symbols:
    found: dict[int, str] = {}
    for line in system_map.read_text().splitlines():
        address, kind, name = line.split(maxsplit=2)
        if kind in kinds and not name.startswith(leave_out):
            found.setdefault(int(address, 16), name)
    ordered = sorted(found.items())
    return Symbols(tuple(a for a, _ in ordered), tuple(n for _, n in ordered))


def phases(output: str) -> list[Phase]:
    """The phases that the plugin wrote, in order. Raises LabError for a file that was cut off."""
    lines = output.splitlines()
    if not lines or lines[-1] != "end":
        raise LabError("the instruction counts are incomplete: QEMU did not end by itself")
    found: list[tuple[int, dict[int, int]]] = []
    for line in lines[:-1]:
        words = line.split()
        if words[0] == "phase":
            found.append((int(words[2]), {}))
        else:
            found[-1][1][int(words[0], 16)] = int(words[1])
    return [Phase(user, kernel) for user, kernel in found]


def run_phase(phases: Sequence[Phase], run: int, jobs: int) -> Phase:
    """What the I/O of the run-th fio run cost, counted from 0, starting and ending fio left out.

    The agent marks the start of fio; each job marks the start, then the end of its I/O; the agent
    marks the end of fio. Between two runs there is one more phase. Raises LabError when marks are
    missing.
    """
    first = 1 + run * (2 * jobs + 2) + 1
    inside = phases[first : first + 2 * jobs - 1]
    if len(phases) < first + 2 * jobs + 1:
        raise LabError(f"the guest made {len(phases) - 1} marks, too few for {run + 1} runs of fio")
    kernel: Counter[int] = Counter()
    for phase in inside:
        kernel.update(phase.kernel)
    return Phase(sum(phase.user for phase in inside), kernel)


def by_function(phase: Phase, names: Symbols) -> Counter[str]:
    """The kernel instructions of a phase by function."""
    counts: Counter[str] = Counter()
    for address, instructions in phase.kernel.items():
        counts[names.name(address)] += instructions
    return counts
