# SPDX-License-Identifier: GPL-2.0-or-later
"""What the commands find, as tables of the record."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from lab.base.stats import rate
from lab.base.text import number, percent
from lab.commands import error_rates
from lab.commands.aa_control import Comparison, Repetition, SeedPair
from lab.commands.bisect_measure import CommitMeasure
from lab.commands.bisect_search import Found, is_bad
from lab.commands.check_series import Commit
from lab.commands.controls import NOTHING, Answer
from lab.commands.cost_diff import CellChange
from lab.commands.error_rates import Rates
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
# A rate is given with 95 % of certainty.
_DOUBT = 0.05


def of_changes(found: Sequence[CellChange]) -> tuple[TableRecord, ...]:
    """The cells that differ, then the functions of the one that differs most."""
    return tuple(_of_changes(found))


def of_steps(steps: Sequence[SeriesStep]) -> tuple[TableRecord, ...]:
    """Every step: the cells that differ, then the functions of the one that differs most."""
    return tuple(table for step in steps for table in _of_step(step))


def of_scaling(title: str, cpus: Sequence[int], found: Sequence[Curve]) -> TableRecord:
    """A row a curve, a column for each number of CPUs; and the same to be drawn."""
    values = {one.name: tuple(each.value(_METRIC) for each in one.outcomes) for one in found}
    arms = list(dict.fromkeys(one.arm for one in found))
    failed = [each for one in found for each in one.outcomes if each.error]
    clock = found[0].outcomes[0].task.cell.engine.clock
    return TableRecord(
        title=title,
        columns=columns(f"1000 {clock} IOPS, by CPUs", *map(str, cpus)),
        rows=tuple(
            (name, *("failed" if value is None else number(value / 1000) for value in own))
            for name, own in values.items()
        ),
        notes=tuple(f"{each.task}: {each.error.brief}" for each in failed if each.error),
        curves=Curves(
            labels=tuple(map(str, cpus)),
            values=values,
            dashed=tuple(one.name for one in found if len(arms) > 1 and one.arm == arms[0]),
        ),
    )


def note(text: str) -> TableRecord:
    """A paragraph."""
    return TableRecord(title="", notes=(text,))


def of_error_rates(found: Sequence[Rates], alpha: float) -> TableRecord:
    """A row for each noise and truth: how often made-up rounds were judged how."""

    def share(hits: int, runs: int) -> str:
        return f"{100 * hits / runs:.1f} %"

    shown = [
        (
            one.noise,
            percent(math.expm1(one.truth * error_rates.PUBLISHED), exact=False),
            share(one.holds, one.runs),
            share(one.refuted, one.runs),
            f"{one.rounds:.1f}",
        )
        for one in found
    ]
    bound = percent(math.expm1(error_rates.PUBLISHED / 2), exact=False)
    return TableRecord(
        title=f"Verdicts on made-up rounds: +40 % is claimed, so {bound} is the bound",
        columns=columns("noise", "true change", "HOLDS", "REFUTED", "rounds"),
        rows=tuple(shown),
        notes=(
            f"At the bound either is wrong, and promised in {100 * alpha / 2:g} % of runs at most, "
            f"for noise that is symmetric and independent. {found[0].runs:,} runs a row, noise of "
            f"{100 * error_rates.SPREAD:g} %.",
        ),
    )


def of_seed_pairs(compared: Sequence[SeedPair]) -> TableRecord:
    """One line a simulated cell, then how often a change was called where there is none."""
    rows, notes = [], []
    for cell, other in dict.fromkeys((one.cell, one.kernels[1]) for one in compared):
        own = [one for one in compared if (one.cell, one.kernels[1]) == (cell, other)]
        widest = max(own, key=lambda one: abs(one.change))
        calls = sum(one.called for one in own)
        shown = (f"{calls} of {len(own)}", percent(widest.change, exact=True))
        rows.append((str(cell), other, *shown, f"{100 * widest.margin:g} %"))
    for other in dict.fromkeys(one.kernels[1] for one in compared):
        own = [one for one in compared if one.kernels[1] == other]
        notes.append(f"{other}: {_called([one.called for one in own])}")
    titles = columns("simulated, one seed against another", "", "called", "largest", "margin")
    return TableRecord(title="A/A control", columns=titles, rows=tuple(rows), notes=tuple(notes))


def of_control(
    compared: Sequence[Comparison], repeated: Sequence[Repetition], alpha: float
) -> TableRecord:
    """One line a cell, then how often a change was called where there is none."""
    rows = []
    for cell in dict.fromkeys(one.cell for one in compared):
        own = [one for one in compared if one.cell == cell]
        calls = sum(one.called(alpha) for one in own)
        widest = max(abs(one.pairs.change) for one in own)
        spread = max(one.pairs.spread for one in own)
        shown = (f"{calls} of {len(own)}", f"{100 * widest:.1f} %", f"{100 * spread:.1f} %")
        rows.append((str(cell), *shown))
    answered = [one for one in repeated if not one.failure]
    differ = sum(not one.equal for one in answered)
    notes = [
        f"wall clock: {_called([one.called(alpha) for one in compared])}; nominal "
        f"{100 * alpha:g} %",
        f"exact engine: {differ} of {len(answered)} cells differ when repeated",
        *(f"  {one.cell} failed: {one.failure}" for one in repeated if one.failure),
    ]
    titles = columns("the same under several names", "called", "largest change", "pair SD")
    return TableRecord(title="A/A control", columns=titles, rows=tuple(rows), notes=tuple(notes))


def of_controls(found: Sequence[Answer]) -> TableRecord:
    """A row for each claim of a control, then how often a change was seen where there is none."""
    same = [one for one in found if one.control == NOTHING and Verdict.HOLDS in one.expected]
    return TableRecord(
        title="Patches whose verdict is known",
        columns=texts("control", "claim", "must be", "found", ""),
        rows=tuple(map(_answer, found)),
        notes=(
            f"{NOTHING}: {_called([one.found is Verdict.REFUTED for one in same])}",
            *(f"{one.control}/{one.claim}: {one.reason}" for one in found),
        ),
    )


def of_commits(found: Sequence[Commit]) -> TableRecord:
    """Every patch of a series: its style, what its kernels said, and what is wrong with it."""
    return TableRecord(
        title="Patches, each with all before it applied",
        columns=texts("patch", "checkpatch", "boots", ""),
        rows=tuple(
            (one.patch.name, one.style, one.booted, "FAILED" if one.error else "") for one in found
        ),
        notes=tuple(f"{one.patch.name}: {one.error}" for one in found if one.error),
    )


def of_bisection(
    found: Found, line: Sequence[str], measure: CommitMeasure, subjects: Sequence[str]
) -> TableRecord:
    """Every commit that was looked at, in that order, and the first bad one, or those it may be."""
    rows = []
    for place, step in enumerate(found.steps, start=1):
        shown, which = "skipped", ""
        if step.value is not None:
            shown = measure.shown(step.value)
            which = "bad" if is_bad(found.good, found.bad, step.value) else "good"
        rows.append((str(place), str(line.index(step.commit)), step.commit[:12], shown, which))
    return TableRecord(
        title=f"{len(found.steps)} commits looked at of {len(line)}",
        columns=texts("", "place", "commit", "measured", ""),
        rows=tuple(rows),
        notes=tuple(subjects),
    )


def _answer(one: Answer) -> tuple[str, ...]:
    # What may come to any of three verdicts is only to come to its end.
    must = " or ".join(one.expected) if len(one.expected) < 3 else "-"
    return one.control, one.claim, must, str(one.found), "" if one.right else "WRONG"


def _called(calls: Sequence[bool]) -> str:
    """How many comparisons called a change, and at which rate that may be."""
    if not calls:
        return "nothing was compared"
    possible = rate(sum(calls), len(calls), _DOUBT)
    return (
        f"{sum(calls)} of {len(calls)} comparisons called a change: a rate of "
        f"{100 * possible.low:.1f} to {100 * possible.high:.1f} %"
    )


def _of_step(step: SeriesStep) -> Iterator[TableRecord]:
    yield TableRecord(title=step.title)
    if step.configuration:
        yield note(f"The kernel's configuration differs, too: {view.options(step.configuration)}")
    yield from _of_changes(step.found)
    if step.broken:
        yield note(f"{Verdict.REFUTED}: {step.broken}")
    elif step.warned:
        yield note(step.warned)


def _of_changes(found: Sequence[CellChange]) -> Iterator[TableRecord]:
    shown = [one for one in found if one.failed or one.finding.verdict is not Verdict.HOLDS]
    equal = sum(one.equal for one in found)
    chance = len(found) - len(shown) - equal
    rest = f"{equal} of {len(found)} cells are equal to the last digit"
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
    if largest := next((one for one in shown if one.functions), None):
        yield _functions(largest)
    if failed := tuple(_failures(found)):
        yield TableRecord(title="", notes=failed)


def _row(one: CellChange) -> tuple[str, ...]:
    before, after = one.values
    if one.failed or not before or after is None:
        return str(one.planned), number(before), number(after), "", "", "failed"
    told = "" if one.finding.verdict is Verdict.REFUTED else "open"
    shown = percent(after / before - 1, exact=True)
    return (str(one.planned), number(before), number(after), shown, _with_doubt(one), told)


def _with_doubt(one: CellChange) -> str:
    """The change of the block layer, and by how much it may be off."""
    change, interval = one.change, one.finding.interval
    if change is None or interval is None:
        return ""
    off = max(interval.high - change, change - interval.low)
    return f"{percent(change, exact=True).removesuffix(' %')} ±{100 * off:.2g} %"


def _functions(one: CellChange) -> TableRecord:
    """The functions that surely differ; where none does, the ones that do most."""
    surely = [f for f in one.functions if f.sure]
    listed = [f for f in surely or one.functions if abs(f.difference) >= _SHOWN][:_ROWS]
    shown = [
        (f.function, f"{f.before:,.2f}", f"{f.after:,.2f}", f"{f.difference:+,.2f}") for f in listed
    ]
    if rest := [f for f in one.functions if f not in listed]:
        total = sum(f.difference for f in rest)
        shown.append((f"{len(rest)} more", "", "", f"{total:+z,.2f}"))
    how = "those that surely differ" if surely else "none surely differs"
    return TableRecord(
        title=f"Where it is: {one.planned}, kernel instructions per I/O by function, {how}",
        columns=columns("function", "before", "after", "difference"),
        rows=tuple(shown),
    )


def _failures(found: Sequence[CellChange]) -> Iterator[str]:
    for one in found:
        for side, outcome in (("first", one.before), ("second", one.after)):
            if outcome.error:
                yield f"{one.planned}: the {side} kernel failed: {outcome.error.brief}"
