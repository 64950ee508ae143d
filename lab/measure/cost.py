# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost per I/O by a two-point slope, and what changed between two of them, by function.

The same job is run with two amounts of work in one boot. What both runs have in common (starting
fio, opening the disk) cancels in the difference, and what is left, divided by the difference in
I/Os, is the cost of one: (instructions(N2) - instructions(N1)) / (N2 - N1).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lab.base.stats import SEED_COUNTS, surely_apart
from lab.build.code_diff import function
from lab.inputs.terms import Metric
from lab.measure.insn_counts import Phase, Symbols, by_function

KERNEL = "kernel_insns_per_io"
BLOCK_LAYER = "block_layer_insns_per_io"
USER = "user_insns_per_io"
TIME = "guest_ns_per_io"
METRICS = {
    KERNEL: Metric("insns/I/O"),
    BLOCK_LAYER: Metric("insns/I/O"),
    USER: Metric("insns/I/O"),
    TIME: Metric("ns"),
    "measured_share": Metric("%"),
}


# How often a function is called sure that is not, for all functions together; an I/O and what
# programs do beside it execute some 750.
_ALPHA = 0.05
_FAMILY = 1000
# What is executed once in thousands of I/Os may cost the same with three seeds and something else
# with three others: in every second comparison of a kernel with itself some function did, by 0.3
# instructions at most. With six it was one comparison in 80.
_RARE = 0.5
# By what fraction user space may differ for an I/O between arms that do the same. Chosen: 1.4 % was
# seen where 128 writers share a disk, in 22 other cells 0.3 % at most.
_SAME_WORK = 0.02
# Fio's own thread wakes while its jobs wait: in every cell 193 instructions a millisecond more.
_WAITING_PER_NS = 2e-4


@dataclass(frozen=True)
class Cost:
    """Instructions per I/O: in user space, and in the kernel by function; where the kernel's stacks
    were followed also by path, from the outermost function to the one that executes them.
    """

    user: float
    kernel: Mapping[str, float]
    paths: Mapping[tuple[str, ...], float] = field(default_factory=dict)

    @property
    def kernel_total(self) -> float:
        """Kernel instructions per I/O."""
        return sum(self.kernel.values())

    def by_function(self) -> dict[str, float]:
        """Kernel instructions per I/O; the compiler's pieces and clones count as the function."""
        counts: dict[str, float] = {}
        for symbol, count in self.kernel.items():
            name = function(symbol)
            counts[name] = counts.get(name, 0.0) + count
        return counts

    def within(self, functions: Collection[str]) -> float:
        """Kernel instructions per I/O in some functions."""
        return math.fsum(value for name, value in self.kernel.items() if name in functions)


@dataclass(frozen=True)
class Change:
    """A function whose cost per I/O differs between two measurements, surely or by chance."""

    function: str
    before: float
    after: float
    sure: bool = False

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


def other_work(arms: Sequence[Sequence[Mapping[str, float]]]) -> str:
    """Why what the kernel costs cannot be compared between arms, as the values of their boots tell:
    their programs did not do the same for an I/O. Empty when they did.

    The kernel decides what is executed in user space, the plugin counts it: work that is hidden
    there, or a window of the count that was moved, shows.
    """
    seen = [
        (statistics.fmean(b[USER] for b in boots), statistics.fmean(b[TIME] for b in boots))
        for boots in arms
        if boots and all(USER in boot and TIME in boot for boot in boots)
    ]
    for user, ns in seen[1:]:
        first, first_ns = seen[0]
        apart = abs(user - first) - _WAITING_PER_NS * abs(ns - first_ns)
        if apart > _SAME_WORK * min(user, first):
            return f"user space did other work: {first:,.0f} and {user:,.0f} instructions an I/O"
    return ""


def changes(before: Sequence[Cost], after: Sequence[Cost], alpha: float = _ALPHA) -> list[Change]:
    """Every function whose mean cost differs between two kernels' seeds, the largest change first.

    They sum to the difference of the totals. With the chance 1 - alpha no sure one is chance.
    """
    names = sorted({name for cost in (*before, *after) for name in cost.kernel})
    changed = []
    for name in names:
        old, new = ([cost.kernel.get(name, 0.0) for cost in costs] for costs in (before, after))
        known = Change(name, statistics.fmean(old), statistics.fmean(new))
        if known.difference:
            sure = len(old) == len(new) and surely_apart(old, new, alpha / max(_FAMILY, len(names)))
            rare = len(old) < SEED_COUNTS[1] and abs(known.difference) < _RARE
            changed.append(replace(known, sure=sure and not rare))
    return sorted(changed, key=lambda change: (-abs(change.difference), change.function))


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
