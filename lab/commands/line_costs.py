# SPDX-License-Identifier: GPL-2.0-or-later
"""What an I/O costs more or less by source line, on two kernels or under two schedulers."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lab.base.process import CommandError
from lab.build import source_lines
from lab.build.kernel import Kernel
from lab.build.source import git
from lab.build.source_lines import LinePlace
from lab.guest import qemu_command
from lab.inputs import workload
from lab.measure import cost, insn_counts
from lab.measure.boot_store import BootStore
from lab.measure.cell_orders import ordered_ios
from lab.measure.runner import Outcome
from lab.report import tables
from lab.report.run_record import Column, TableRecord

# Chosen: so many functions tell nearly all that differs; each has to be disassembled.
_FUNCTIONS = 40
# A line of source is cut off here, in characters: a table has 80 columns.
_WIDTH = 22
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)

# First line and number of lines, before and after.
Hunk = tuple[int, int, int, int]


@dataclass(frozen=True)
class Difference:
    """What an I/O executes of a source line, in instructions; with a line that only one of the
    kernels has, the other has none.
    """

    place: LinePlace
    source: str
    before: float = 0.0
    after: float = 0.0

    @property
    def more(self) -> float:
        """Instructions per I/O more than before."""
        return self.after - self.before


def differences(store: BootStore, sides: tuple[Outcome, Outcome]) -> list[Difference]:
    """What each line costs on both sides, of the functions that differ most; the largest first.

    All sides have boots, on kernels with source_lines.FRAGMENT.
    """
    known = [side_cost for side in sides if (side_cost := store.cost(side.boots[-1].id))]
    changed = cost.changes(known[:1], known[1:])[:_FUNCTIONS]
    names = frozenset(change.function for change in changed)
    before, after = (_costs(store, side, names) for side in sides)
    old, new = (side.task.kernel for side in sides)
    by_file = _hunks(old, new, {place.file for place in before})
    now = {place: moved(place, by_file.get(place.file, ())) for place in before}
    kept = {there: before[here] for here, there in now.items() if there}
    read = functools.cache(_read)
    every = [
        Difference(
            place,
            _shown(read(new.tree, place.file), place.line),
            kept.get(place, 0.0),
            after.get(place, 0.0),
        )
        for place in kept.keys() | after.keys()
    ]
    every += [
        Difference(place, _shown(read(old.tree, place.file), place.line), before=before[place])
        for place, there in now.items()
        if not there
    ]
    return sorted(
        (difference for difference in every if difference.more),
        key=lambda difference: (-abs(difference.more), difference.place),
    )


def table(names: tuple[str, str], lines: Sequence[Difference], rows: int) -> TableRecord:
    """The lines that differ, as many as rows, and the rest in one."""
    shown = [(_short(line.place), line.before, line.after, line.source) for line in lines[:rows]]
    if rest := lines[rows:]:
        sums = (sum(line.before for line in rest), sum(line.after for line in rest))
        shown.append((f"{len(rest)} more", *sums, ""))
    every = (sum(line.before for line in lines), sum(line.after for line in lines))
    return TableRecord(
        title=f"Kernel instructions per I/O by source line: {names[0]} -> {names[1]}",
        columns=(*tables.columns("line", *names, "difference"), Column(title="source")),
        rows=tuple(_row(*row) for row in shown),
        totals=(_row("these lines", *every, ""),),
        notes=(
            f"Lines of {names[1]}, of the {_FUNCTIONS} functions that differ most; a line that is "
            f"gone has its number in {names[0]}. What was inlined has its own lines.",
        ),
    )


def _short(place: LinePlace) -> str:
    """A place, a header as it is included."""
    return re.sub(r"^(.*/)?include/", "", str(place))


def _row(name: str, before: float, after: float, source: str) -> tuple[str, ...]:
    return name, f"{before:,.2f}", f"{after:,.2f}", f"{after - before:+z,.2f}", source


def _costs(store: BootStore, outcome: Outcome, functions: frozenset[str]) -> dict[LinePlace, float]:
    """What an I/O executes of each line of some functions, in instructions, by a boot's record."""
    cell, kernel = outcome.task.cell, outcome.task.kernel
    ordered = ordered_ios(cell, workload.get(cell.workload))
    record = store.boot_folder(outcome.boots[-1].id) / qemu_command.COUNTS
    phases = insn_counts.phases(record.read_text(errors="replace"))
    few, many = (phases[insn_counts.run_place(run)] for run in (1, 2))
    symbols = insn_counts.symbols(kernel.system_map)
    ranges = [addresses for name in sorted(functions) for addresses in symbols.ranges(name)]
    places = source_lines.places(kernel.vmlinux, ranges)
    costs: dict[LinePlace, float] = defaultdict(float)
    for start, end in ranges:
        first, second = (
            insn_counts.by_instruction(phase, [a for a in places if start <= a < end], end)
            for phase in (few, many)
        )
        for address in first.keys() | second.keys():
            executed = second[address] - first[address]
            costs[places[address]] += executed / (ordered["many"] - ordered["few"])
    return costs


def _hunks(old: Kernel, new: Kernel, files: Collection[str]) -> dict[str, list[Hunk]]:
    """By which hunks some files of a kernel differ from another one's."""
    if old.tree == new.tree:
        return {}
    named = ["diff", "--no-ext-diff", "--no-color", "-U0", old.tree, new.tree, "--"]
    return {file: hunks(git(*named, file)) for file in files}


def moved(place: LinePlace, of_file: Sequence[Hunk]) -> LinePlace | None:
    """Where a line is in the other tree, by the hunks of its file; None when it is not there."""
    shift = 0
    for old, olds, new, news in of_file:
        # A hunk without lines stands behind the one it names.
        first, end = (old, old + olds) if olds else (old + 1, old + 1)
        if place.line < first:
            break
        if place.line < end:
            return None
        shift = (new if news else new + 1) + news - end
    return LinePlace(place.file, place.line + shift)


def hunks(diff: str) -> list[Hunk]:
    """The hunks of one file's unified diff."""
    return [
        (int(old), int(olds or 1), int(new), int(news or 1))
        for old, olds, new, news in _HUNK.findall(diff)
    ]


def _read(tree: str, file: str) -> list[str]:
    """The lines of a file of a source tree; none where the build has made the file."""
    try:
        return git("show", f"{tree}:{file}").split("\n")
    except CommandError:
        return []


def _shown(lines: Sequence[str], number: int) -> str:
    """A line of a file, cut off; empty where there is none of that number."""
    text = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
