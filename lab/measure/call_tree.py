# SPDX-License-Identifier: GPL-2.0-or-later
"""Who calls whom in the kernel during an I/O, and what each costs there.

The plugin follows the stacks (lab/build/sim/stacks.c). A cost is the difference of two amounts of
I/O, as in cost.py, and so is a number of calls.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lab.base.errors import GuestError
from lab.measure import plugin_output
from lab.measure.insn_counts import Symbols

FILE = "callers.tsv"
ROOT = 0
_CONTENT = "the call stacks"
_PHASE = re.compile(r"phase ([0-9]{1,9})")
_NODE = re.compile(r"([0-9]{1,9}) ([0-9]{1,9}) ([0-9a-f]{1,16}) ([0-9]{1,20}) ([0-9]{1,20})")
# What stacks.c makes of a function: it only leads to another one, begins a tree, or switches tasks.
_LEADS, _BEGINS, _SWITCHES = 1, 2, 4
_LEADING = re.compile(r"__x86_(indirect|return)_|__SCT__|srso_|retbleed_")
_BEGINNING = re.compile(r"entry_SYSCALL_64$|asm_(common_interrupt|sysvec_|exc_)|ret_from_fork")
_SWITCHING = "__switch_to_asm"
# Parts of a function that have symbols of their own: what the compiler puts elsewhere, and labels.
_COLD = ".cold"
_ENTRY = "entry_SYSCALL_64"


@dataclass(frozen=True)
class Node:
    """A function where it is called from its parent, another node's number; ROOT for none.

    own are the instructions of an I/O in it alone, calls how often it is called for one.
    """

    parent: int
    function: str
    own: float
    calls: float


@dataclass(frozen=True)
class CallTree:
    """All that an I/O executes in the kernel by call path: nodes by number, parents first."""

    nodes: dict[int, Node]

    @cached_property
    def totals(self) -> dict[int, float]:
        """The instructions of each node and of all below it."""
        totals = {number: node.own for number, node in self.nodes.items()}
        for number, node in reversed(self.nodes.items()):
            if node.parent != ROOT:
                totals[node.parent] += totals[number]
        return totals

    def path(self, number: int) -> tuple[str, ...]:
        """The functions that lead to a node, the outermost first, and its own."""
        names: list[str] = []
        while number != ROOT:
            names.append(self.nodes[number].function)
            number = self.nodes[number].parent
        return tuple(reversed(names))

    def stacks(self) -> dict[tuple[str, ...], float]:
        """The instructions of an I/O by path."""
        return {self.path(number): node.own for number, node in self.nodes.items() if node.own}

    def callers(self, function: str) -> dict[str, tuple[float, float]]:
        """Who calls a function: calls, and instructions with all that it calls, for an I/O. Of a
        function that calls itself only the outermost call counts.
        """
        found: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for number in self._outermost(function):
            node = self.nodes[number]
            caller = self.nodes[node.parent].function if node.parent != ROOT else ""
            found[caller][0] += node.calls
            found[caller][1] += self.totals[number]
        return {caller: (calls, cost) for caller, (calls, cost) in found.items()}

    def main_callers(self) -> dict[str, str]:
        """Of each function that another calls the one that calls it most often."""
        calls: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        for node in self.nodes.values():
            if node.parent != ROOT:
                calls[node.function][self.nodes[node.parent].function] += node.calls
        return {name: max(by, key=lambda caller: by[caller]) for name, by in calls.items()}

    def callees(self, function: str) -> dict[str, tuple[float, float]]:
        """Whom a function calls, as callers() tells; and itself, without calls, for what it alone
        executes.
        """
        found: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        outermost = set(self._outermost(function))
        for number, node in self.nodes.items():
            if number in outermost:
                found[function][1] += node.own
            elif node.parent in outermost:
                found[node.function][0] += node.calls
                found[node.function][1] += self.totals[number]
        return {callee: (calls, cost) for callee, (calls, cost) in found.items()}

    def _outermost(self, function: str) -> Iterator[int]:
        for number, node in self.nodes.items():
            if node.function == function and function not in self.path(node.parent):
                yield number


def functions_file(names: Symbols) -> str:
    """The functions of a kernel as the plugin takes them (functions= in stacks.c)."""
    by_name = dict(zip(reversed(names.names), reversed(names.addresses), strict=True))
    lines = []
    for address, name in zip(names.addresses, names.names, strict=True):
        owner = by_name.get(_owner(name), address)
        lines.append(f"{address:x} {owner if owner <= address else address:x} {_flags(name)}\n")
    return "".join(lines)


def _owner(name: str) -> str:
    if name.startswith(f"{_ENTRY}_"):
        return _ENTRY
    return name.removesuffix(_COLD)


def _flags(name: str) -> int:
    if _LEADING.match(name):
        return _LEADS
    if name == _SWITCHING:
        return _SWITCHES
    return _BEGINS if _BEGINNING.match(name) else 0


def parse(output: str) -> dict[int, dict[int, tuple[int, int, int, int]]]:
    """Each phase's nodes, by their numbers: parent, address, instructions, calls.

    Raises GuestError (``corrupt``) for a file that was cut off or has a line of anybody else's.
    """
    phases: dict[int, dict[int, tuple[int, int, int, int]]] = {}
    nodes: dict[int, tuple[int, int, int, int]] | None = None
    for number, line in plugin_output.lines(output, _CONTENT):
        if phase := _PHASE.fullmatch(line):
            nodes = phases.setdefault(int(phase[1]), {})
            continue
        found = _NODE.fullmatch(line)
        if nodes is None or not found:
            raise plugin_output.foreign_line(number, line, _CONTENT)
        node, parent = int(found[1]), int(found[2])
        if parent != ROOT and parent not in nodes:
            raise plugin_output.foreign_line(number, line, _CONTENT)
        nodes[node] = (parent, int(found[3], 16), int(found[4]), int(found[5]))
    return phases


def slope(output: str, few: int, many: int, ios: int, names: Symbols) -> CallTree:
    """The calls of one I/O, the phase many having done ios more I/Os than the phase few.

    Raises GuestError as parse does, and where a phase is missing.
    """
    phases = parse(output)
    if few not in phases or many not in phases:
        raise GuestError("corrupt", f"{_CONTENT} lack a phase of the guest")
    first, second = phases[few], phases[many]
    nodes = {}
    for number, (parent, address, instructions, calls) in second.items():
        _, _, before, calls_before = first.get(number, (0, 0, 0, 0))
        own, called = (instructions - before) / ios, (calls - calls_before) / ios
        nodes[number] = Node(parent, names.name(address), own, called)
    return CallTree(_used(nodes))


def _used(nodes: dict[int, Node]) -> dict[int, Node]:
    """The nodes that an I/O executes something of, and those that lead to them."""
    used: set[int] = set()
    for number, node in reversed(nodes.items()):
        if number in used or node.own or node.calls:
            used.update((number, node.parent))
    return {number: node for number, node in nodes.items() if number in used}


def to_text(tree: CallTree) -> str:
    """A call tree as tab-separated text: node, parent, function, instructions, calls."""
    return "".join(
        f"{number}\t{node.parent}\t{node.function}\t{node.own!r}\t{node.calls!r}\n"
        for number, node in tree.nodes.items()
    )


def of_boot(folder: Path) -> CallTree | None:
    """The call tree of a boot with these raw files; None where stacks were not followed."""
    path = folder / FILE
    return from_text(path.read_text()) if path.exists() else None


def from_text(text: str) -> CallTree:
    """A call tree out of such text."""
    nodes = {}
    for line in text.splitlines():
        number, parent, function, own, calls = line.split("\t")
        nodes[int(number)] = Node(int(parent), function, float(own), float(calls))
    return CallTree(nodes)
