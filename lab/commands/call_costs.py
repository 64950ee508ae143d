# SPDX-License-Identifier: GPL-2.0-or-later
"""Who calls a function, whom it calls, and what that costs, in two measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import starmap

from lab.base.errors import LabError, UsageError, nearest
from lab.measure.boot_store import BootStore
from lab.measure.call_tree import CallTree, of_boot
from lab.measure.runner import Outcome
from lab.report.run_record import TableRecord
from lab.report.tables import columns

Pair = tuple[float, float]
_NOBODY = "(entry of the kernel)"
_ITSELF = "itself"


def tables(
    store: BootStore,
    names: Sequence[str],
    outcomes: Sequence[Outcome],
    functions: Sequence[str],
    rows: int,
) -> list[TableRecord]:
    """Two tables of each function, an I/O each: its callers, and what it calls.

    Raises UsageError for a function that no I/O executes, LabError where a boot has no call tree.
    """
    if not functions:
        return []
    trees = [_tree(store, outcome) for outcome in outcomes]
    return [table for function in functions for table in of_function(names, trees, function, rows)]


def _tree(store: BootStore, outcome: Outcome) -> CallTree:
    tree = of_boot(store.boot_folder(outcome.boots[-1].id))
    if not tree:
        raise LabError(f"the boot of {outcome.task} has no call tree")
    return tree


def of_function(
    names: Sequence[str], both: Sequence[CallTree], function: str, rows: int
) -> list[TableRecord]:
    """Who calls a function, and whom it calls. Raises UsageError for one that nothing executes."""
    known = {node.function for tree in both for node in tree.nodes.values()}
    if function not in known:
        raise UsageError(
            f"--callers: no I/O executes {function!r}", hint=nearest(function, sorted(known))
        )
    callers = [tree.callers(function) for tree in both]
    callees = [
        {_ITSELF if name == function else name: cost for name, cost in called.items()}
        for called in (tree.callees(function) for tree in both)
    ]
    return [
        _table(f"Who calls {function}, for an I/O", "caller", names, callers, rows),
        _table(f"Whom {function} calls, for an I/O", "function", names, callees, rows),
    ]


def _table(
    title: str,
    what: str,
    names: Sequence[str],
    both: Sequence[Mapping[str, Pair]],
    rows: int,
) -> TableRecord:
    pairs = {
        name: tuple(side.get(name, (0.0, 0.0)) for side in both)
        for name in dict.fromkeys(name for side in both for name in side)
    }
    ordered = sorted(pairs, key=lambda name: (-max(cost for _, cost in pairs[name]), name))
    shown = [(name or _NOBODY, *pairs[name]) for name in ordered[:rows]]
    if rest := ordered[rows:]:
        shown.append((f"{len(rest)} more", *_sum([pairs[name] for name in rest])))
    return TableRecord(
        title=f"{title}: {' -> '.join(names)}",
        columns=columns(what, "calls", "after", "insns", "after", "difference"),
        rows=tuple(starmap(_row, shown)),
        totals=(_row("all", *_sum([*pairs.values()])),),
    )


def _sum(pairs: Sequence[tuple[Pair, ...]]) -> tuple[Pair, Pair]:
    before, after = (
        (sum(pair[side][0] for pair in pairs), sum(pair[side][1] for pair in pairs))
        for side in (0, 1)
    )
    return before, after


def _row(name: str, before: Pair, after: Pair) -> tuple[str, ...]:
    calls = (f"{side[0]:z,.3f}" for side in (before, after))
    return name, *calls, f"{before[1]:z,.2f}", f"{after[1]:z,.2f}", f"{after[1] - before[1]:+z,.2f}"
