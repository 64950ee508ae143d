# SPDX-License-Identifier: GPL-2.0-or-later
"""What the gate's nights say together: each cell over all of them, and its change points."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.base import change_points
from lab.base.text import percent
from lab.report.run_record import Column, TableRecord
from lab.report.tables import columns, texts

# The chance that a history without change points gets one at all.
_ERROR = 0.01


@dataclass(frozen=True)
class Night:
    """A run of the gate on a branch: its state as a source, when (seconds since 1970), how it was
    judged, and what an I/O costs in the block layer by cell, in instructions.
    """

    source: str
    judged: float
    good: bool
    reason: str
    values: Mapping[str, float]

    @property
    def commit(self) -> str:
        """The state: a commit, or a source that is none."""
        return self.source.rpartition("@")[2] or self.source

    @property
    def day(self) -> str:
        """The day it was judged, UTC."""
        return time.strftime("%Y-%m-%d", time.gmtime(self.judged))


@dataclass(frozen=True)
class Jump:
    """A change point of a cell: the first night behind it and the last before, as places among the
    nights, the change as a fraction, and the commits that may have made it, as git names them.
    """

    night: int
    last: int
    change: float
    commits: tuple[str, ...] = ()


@dataclass(frozen=True)
class CellTrend:
    """A cell over the nights of a branch: a value for each night, None where it has none."""

    name: str
    values: tuple[float | None, ...]
    jumps: tuple[Jump, ...]


@dataclass(frozen=True)
class BranchTrend:
    """A branch: its nights, oldest first, and its cells, those with the largest changes first."""

    name: str
    nights: tuple[Night, ...]
    cells: tuple[CellTrend, ...]

    @property
    def jumps(self) -> list[tuple[CellTrend, Jump]]:
        """All change points, the newest first."""
        every = [(cell, jump) for cell in self.cells for jump in cell.jumps]
        return sorted(every, key=lambda pair: (-pair[1].night, -abs(pair[1].change)))


def of(nights: Mapping[str, Sequence[Night]], least: float) -> list[BranchTrend]:
    """The trends of branches; a change of less than least, a fraction, is none."""
    names = {branch: _cells(branch_nights) for branch, branch_nights in nights.items()}
    series = sum(map(len, names.values()))
    trends = []
    for branch, branch_nights in nights.items():
        cells = [_cell(name, branch_nights, least, series) for name in names[branch]]
        cells.sort(key=lambda cell: -max((abs(j.change) for j in cell.jumps), default=0.0))
        trends.append(BranchTrend(branch, tuple(branch_nights), tuple(cells)))
    return trends


def tables(branches: Sequence[BranchTrend]) -> tuple[TableRecord, ...]:
    """A line for each branch, and one for each change point."""
    rows = []
    for branch in branches:
        last = branch.nights[-1]
        state = "green" if last.good else last.reason.partition(":")[0] or "red"
        shown = (last.day, str(len(branch.nights)), str(len(branch.cells)), str(len(branch.jumps)))
        rows.append((branch.name, state, last.commit[:12], *shown))
    titles = texts("branch", "last night", "state")
    counts = columns("on", "nights", "cells", "changes")
    overview = TableRecord(title="Branches", columns=(*titles, *counts), rows=tuple(rows))
    return (overview, *(_change_points(branch) for branch in branches if branch.jumps))


def suspects(branch: BranchTrend, jump: Jump) -> str:
    """The states between which a change point lies, as git writes a range."""
    first, last = branch.nights[jump.last].commit, branch.nights[jump.night].commit
    return f"{first[:12]}..{last[:12]}"


def bisection(branch: BranchTrend, cell: CellTrend, jump: Jump) -> str:
    """The command that finds the commit of a change point."""
    source = branch.nights[jump.night].source
    repository = source.removeprefix("git:").rpartition("@")[0]
    states = suspects(branch, jump).replace("..", " ")
    return f"lab bisect {states} --cell '{cell.name}' --repo {repository}" if repository else ""


def _cells(nights: Sequence[Night]) -> list[str]:
    return list(dict.fromkeys(name for night in nights for name in night.values))


def _cell(name: str, nights: Sequence[Night], least: float, series: int) -> CellTrend:
    values = tuple(night.values.get(name) for night in nights)
    places = [place for place, value in enumerate(values) if value is not None]
    known = [value for value in values if value is not None]
    jumps = tuple(
        Jump(places[point.place], places[point.place - 1], point.change)
        for point in change_points.find(known, least, _ERROR, series)
    )
    return CellTrend(name, values, jumps)


def _change_points(branch: BranchTrend) -> TableRecord:
    rows, notes = [], []
    for cell, jump in branch.jumps:
        change = percent(jump.change, exact=True)
        rows.append((branch.nights[jump.night].day, cell.name, change, suspects(branch, jump)))
        notes += [f"  {line}" for line in jump.commits]
    if command := bisection(branch, *branch.jumps[0]):
        notes.append(f"which commit: {command}")
    return TableRecord(
        title=f"{branch.name}: change points of the block layer's instructions per I/O",
        columns=(*texts("night", "cell"), Column(title="change", right=True), *texts("commits")),
        rows=tuple(rows),
        notes=tuple(dict.fromkeys(notes)),
    )
