# SPDX-License-Identifier: GPL-2.0-or-later
"""The gate's nights out of its history, with the commits that lie at a change point."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from lab.base.errors import UsageError, nearest
from lab.base.process import CommandError
from lab.build import repository
from lab.commands.gate_history import GateHistory
from lab.report import trend
from lab.report.trend import BranchTrend, CellTrend, Jump, Night

# So many commits of a change point are named.
_NAMED = 5


def collect(
    history: GateHistory, least: float, branches: Collection[str] = (), pattern: str = "*"
) -> list[BranchTrend]:
    """The trends of branches, or of all, in the cells whose names match a pattern.

    least is the smallest change, a fraction. Raises UsageError without any night, or
    for a branch that was never judged.
    """
    nights = history.nights()
    if not nights:
        raise UsageError("no night was judged yet", hint="`lab gate` judges one")
    for name in branches:
        if name not in nights:
            raise UsageError(f"no branch {name!r} was ever judged", hint=nearest(name, nights))
    wanted = {
        name: [_matching(night, pattern) for night in branch_nights]
        for name, branch_nights in nights.items()
        if not branches or name in branches
    }
    return [_with_commits(branch) for branch in trend.of(wanted, least)]


def _matching(night: Night, pattern: str) -> Night:
    values = {name: v for name, v in night.values.items() if fnmatchcase(name, pattern)}
    return replace(night, values=values)


def _with_commits(branch: BranchTrend) -> BranchTrend:
    cells = tuple(
        CellTrend(cell.name, cell.values, tuple(_named(branch, jump) for jump in cell.jumps))
        for cell in branch.cells
    )
    return replace(branch, cells=cells)


def _named(branch: BranchTrend, jump: Jump) -> Jump:
    """A change point with the commits between its states, where their repository is still there."""
    path, _, last = branch.nights[jump.night].source.removeprefix("git:").rpartition("@")
    first = branch.nights[jump.last].commit
    if not path:
        return jump
    options = ("--format=%h %s", f"--max-count={_NAMED + 1}")
    try:
        with repository.opened(Path(path)) as repo:
            lines = repo.git("log", *options, f"{first}..{last}").splitlines()
    except (CommandError, UsageError):
        return jump
    more = ("...",) if len(lines) > _NAMED else ()
    return replace(jump, commits=(*lines[:_NAMED], *more))
