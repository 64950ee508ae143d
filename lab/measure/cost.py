# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost per I/O by a two-point slope, and what changed between two of them, by function.

The same job is run with two amounts of work in one boot. What both runs have in common (starting
fio, opening the disk) cancels in the difference, and what is left, divided by the difference in
I/Os, is the cost of one: (instructions(N2) - instructions(N1)) / (N2 - N1).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.inputs.terms import Metric
from lab.measure.insn_counts import Phase, Symbols, by_function

KERNEL = "kernel_insns_per_io"
USER = "user_insns_per_io"
METRICS = {
    KERNEL: Metric("insns/I/O"),
    USER: Metric("insns/I/O"),
    "guest_ns_per_io": Metric("ns"),
    "measured_share": Metric("%"),
}


@dataclass(frozen=True)
class Cost:
    """Instructions per I/O: in user space, and in the kernel by function."""

    user: float
    kernel: Mapping[str, float]

    @property
    def kernel_total(self) -> float:
        """Kernel instructions per I/O."""
        return sum(self.kernel.values())


@dataclass(frozen=True)
class Change:
    """A function whose cost per I/O differs between two measurements."""

    function: str
    before: float
    after: float

    @property
    def difference(self) -> float:
        """Instructions per I/O more than before."""
        return self.after - self.before


def slope(few: Phase, many: Phase, ios: int, names: Symbols) -> Cost:
    """The cost of one I/O, many having done ios more I/Os than few."""
    first, second = by_function(few, names), by_function(many, names)
    functions = first.keys() | second.keys()
    kernel = {name: (second[name] - first[name]) / ios for name in sorted(functions)}
    return Cost((many.user - few.user) / ios, {n: v for n, v in kernel.items() if v})


def changes(before: Cost, after: Cost) -> list[Change]:
    """Every function whose cost differs, largest difference first; they sum to the total's."""
    return apart([before], [after])


def apart(before: Sequence[Cost], after: Sequence[Cost]) -> list[Change]:
    """Every function that the seeds before and after tell apart, by their means.

    They do when the two sides are farther from each other than seeds of either are among
    themselves. The largest difference comes first. Seeds differ in few functions, those whose work
    is chance (the search for a free tag, what memory is unmapped when); all others cost the same
    in every seed. So this leaves out noise that in the totals hides changes of 0.5 %.
    """
    found = []
    for name in {name for one in (*before, *after) for name in one.kernel}:
        old, new = ([one.kernel.get(name, 0.0) for one in own] for own in (before, after))
        gap = max(min(new) - max(old), min(old) - max(new))
        if gap > 0 and gap >= max(max(own) - min(own) for own in (old, new)):
            found.append(Change(name, statistics.fmean(old), statistics.fmean(new)))
    return sorted(found, key=lambda change: (-abs(change.difference), change.function))


def to_text(cost: Cost) -> str:
    """A cost as lines ``FUNCTION<TAB>INSTRUCTIONS``, user space under the name [user]."""
    rows = {"[user]": cost.user, **cost.kernel}
    return "".join(f"{name}\t{value!r}\n" for name, value in rows.items())


def from_text(text: str) -> Cost:
    """The inverse of to_text."""
    rows = {}
    for line in text.splitlines():
        name, value = line.split("\t")
        rows[name] = float(value)
    return Cost(rows.pop("[user]"), rows)
