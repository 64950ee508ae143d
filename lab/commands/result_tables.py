# SPDX-License-Identifier: GPL-2.0-or-later
"""What the commands find, as tables of the record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.base.text import number, percent
from lab.commands.bisect_measure import CommitMeasure
from lab.commands.bisect_search import Bisection, is_bad
from lab.commands.check_series import Commit
from lab.commands.cost_diff import CellChange
from lab.commands.scaling import Curve
from lab.commands.try_patches import SeriesStep
from lab.inputs.terms import Verdict
from lab.report import view
from lab.report.run_record import Curves, TableRecord
from lab.report.tables import columns, texts

# Instructions per I/O; what is less would be shown as nothing.
_SHOWN = 0.005
_ROWS = 12
_METRIC = "iops"


def of_steps(steps: Sequence[SeriesStep]) -> tuple[TableRecord, ...]:
    """Every step: the cells that differ, then the functions of the one that differs most."""
    return tuple(table for step in steps for table in _of_step(step))


def of_scaling(title: str, cpus: Sequence[int], curves: Sequence[Curve]) -> TableRecord:
    """A row a curve, a column for each number of CPUs; and the same to be drawn."""
    values = {
        curve.name: tuple(outcome.value(_METRIC) for outcome in curve.outcomes) for curve in curves
    }
    arms = list(dict.fromkeys(curve.arm for curve in curves))
    outcomes = [outcome for curve in curves for outcome in curve.outcomes]
    clock = outcomes[0].task.cell.engine.clock
    return TableRecord(
        title=title,
        columns=columns(f"1000 {clock} IOPS, by CPUs", *map(str, cpus)),
        rows=tuple(
            (name, *("failed" if value is None else number(value / 1000) for value in points))
            for name, points in values.items()
        ),
        notes=tuple(
            f"{outcome.task}: {outcome.error.brief}" for outcome in outcomes if outcome.error
        ),
        curves=Curves(
            labels=tuple(map(str, cpus)),
            values=values,
            dashed=tuple(curve.name for curve in curves if len(arms) > 1 and curve.arm == arms[0]),
        ),
    )


def note(text: str) -> TableRecord:
    """A paragraph."""
    return TableRecord(title="", notes=(text,))


def of_commits(commits: Sequence[Commit]) -> TableRecord:
    """Every patch of a series: its style, what its kernels said, and what is wrong with it."""
    return TableRecord(
        title="Patches, each with all before it applied",
        columns=texts("patch", "checkpatch", "boots", ""),
        rows=tuple(
            (commit.patch.name, commit.style, commit.booted, "FAILED" if commit.error else "")
            for commit in commits
        ),
        notes=tuple(f"{commit.patch.name}: {commit.error}" for commit in commits if commit.error),
    )


def of_bisection(
    bisection: Bisection, line: Sequence[str], measure: CommitMeasure, subjects: Sequence[str]
) -> TableRecord:
    """Every commit that was looked at, in that order, and the first bad one, or those it may be."""
    rows = []
    for place, step in enumerate(bisection.steps, start=1):
        shown, which = "skipped", ""
        if step.value is not None:
            shown = measure.shown(step.value)
            which = "bad" if is_bad(bisection.good, bisection.bad, step.value) else "good"
        rows.append((str(place), str(line.index(step.commit)), step.commit[:12], shown, which))
    return TableRecord(
        title=f"{len(bisection.steps)} commits looked at of {len(line)}",
        columns=texts("", "place", "commit", "measured", ""),
        rows=tuple(rows),
        notes=tuple(subjects),
    )


def _of_step(step: SeriesStep) -> Iterator[TableRecord]:
    yield TableRecord(title=step.title)
    if step.configuration:
        yield note(f"The kernel's configuration differs, too: {view.options(step.configuration)}")
    yield from of_changes(step.changes)
    if step.broken:
        yield note(f"{Verdict.REFUTED}: {step.broken}")
    elif step.warned:
        yield note(step.warned)


def of_changes(changes: Sequence[CellChange]) -> Iterator[TableRecord]:
    """The cells that differ, then the functions of the one that differs most."""
    shown = [
        change for change in changes if change.failed or change.finding.verdict is not Verdict.HOLDS
    ]
    equal = sum(change.equal for change in changes)
    chance = len(changes) - len(shown) - equal
    rest = f"{equal} of {len(changes)} cells are equal to the last digit"
    rest += f", {chance} differ by no more than chance." if chance else "."
    if shown:
        yield TableRecord(
            title="Kernel instructions per I/O: before and after, the change in all, and that of "
            "the block layer",
            columns=columns("cell", "before", "after", "in all", "block layer", ""),
            rows=tuple(map(_row, shown)),
            notes=(rest,),
        )
    else:
        yield note(rest)
    if largest := next((change for change in shown if change.functions), None):
        yield _functions(largest)
    if failed := tuple(_failures(changes)):
        yield TableRecord(title="", notes=failed)


def _row(cell: CellChange) -> tuple[str, ...]:
    before, after = cell.values
    if cell.failed or not before or after is None:
        return str(cell.planned), number(before), number(after), "", "", "failed"
    verdict = "" if cell.finding.verdict is Verdict.REFUTED else "open"
    shown = percent(after / before - 1, exact=True)
    return (str(cell.planned), number(before), number(after), shown, _with_doubt(cell), verdict)


def _with_doubt(cell: CellChange) -> str:
    """The change of the block layer, and by how much it may be off."""
    change, interval = cell.change, cell.finding.interval
    if change is None or interval is None:
        return ""
    off = max(interval.high - change, change - interval.low)
    return f"{percent(change, exact=True).removesuffix(' %')} ±{100 * off:.2g} %"


def _functions(cell: CellChange) -> TableRecord:
    """The functions that surely differ; where none does, the ones that do most."""
    surely = [f for f in cell.functions if f.sure]
    listed = [f for f in surely or cell.functions if abs(f.difference) >= _SHOWN][:_ROWS]
    shown = [
        (f.function, f"{f.before:,.2f}", f"{f.after:,.2f}", f"{f.difference:+,.2f}") for f in listed
    ]
    if rest := [f for f in cell.functions if f not in listed]:
        total = sum(f.difference for f in rest)
        shown.append((f"{len(rest)} more", "", "", f"{total:+z,.2f}"))
    how = "those that surely differ" if surely else "none surely differs"
    return TableRecord(
        title=f"Where it is: {cell.planned}, kernel instructions per I/O by function, {how}",
        columns=columns("function", "before", "after", "difference"),
        rows=tuple(shown),
    )


def _failures(changes: Sequence[CellChange]) -> Iterator[str]:
    for change in changes:
        for side, outcome in (("first", change.before), ("second", change.after)):
            if outcome.error:
                yield f"{change.planned}: the {side} kernel failed: {outcome.error.brief}"
