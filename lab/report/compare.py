# SPDX-License-Identifier: GPL-2.0-or-later
"""Two runs side by side: which verdicts changed, and what was measured then and now."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from pydantic import Field

from lab.base.text import number, percent, visible
from lab.base.toml import Model
from lab.report import tables, view
from lab.report.run_record import RunRecord, TableRecord

# What one run of an engine differs by from the next is not for this table to judge.
_NOTE = (
    "Host time (tcg, kvm) was measured at different times: its differences are no\nfinding. "
    "Exact values differ only when something that is executed does.\n"
)


class Verdicts(Model):
    """The verdicts on a claim; empty where it was not judged."""

    then: str
    now: str


class Values(Model):
    """A value that both runs measured, over the seeds that both have."""

    then: float
    now: float
    exact: bool = Field(description="it differs only when something that is executed does")


class RunComparison(Model):
    """Two runs side by side (`lab compare`)."""

    runs: tuple[str, str]
    verdicts: dict[str, Verdicts] = Field(description="by claim")
    values: dict[str, Values] = Field(description="by what was measured")


def compared(one: RunRecord, other: RunRecord) -> RunComparison:
    """The verdicts of two runs, and every measured value that both have."""
    before, after = (dict(_claims(run)) for run in (one, other))
    verdicts = {
        name: Verdicts(then=before.get(name, ""), now=after.get(name, ""))
        for name in {**before, **after}
    }
    then, now = (dict(_measured(run)) for run in (one, other))
    values = {name: _both(then[name], now[name]) for name in then if name in now}
    return RunComparison(runs=(one.id, other.id), verdicts=verdicts, values=values)


def text(one: RunRecord, other: RunRecord) -> str:
    """Verdicts that changed, then every measured value that both runs have, in 80 columns."""
    found = compared(one, other)
    lines = [f"{one.id}  {one.command}", f"{other.id}  {other.command}", ""]
    lines += [_verdicts(found), _values(found), _NOTE]
    return visible("\n".join(lines))


def _both(then: tuple[tuple[float, ...], bool], now: tuple[tuple[float, ...], bool]) -> Values:
    (old, deterministic), (new, _) = then, now
    # The seeds that both have: more of them in one run are no change of what is measured.
    seeds = min(len(old), len(new)) if deterministic else None
    means = statistics.fmean(old[:seeds]), statistics.fmean(new[:seeds])
    return Values(then=means[0], now=means[1], exact=deterministic)


def _verdicts(found: RunComparison) -> str:
    changed = {name: one for name, one in found.verdicts.items() if one.then != one.now}
    if not changed:
        count = len(found.verdicts)
        same = f"all {count} verdicts are the same" if count else "no claim was judged"
        return f"Verdicts: {same}.\n"
    rows = tuple((name, one.then or "-", one.now or "-") for name, one in changed.items())
    titles = tables.texts("claim", "then", "now")
    return tables.text(TableRecord(title="Verdicts that differ", columns=titles, rows=rows))


def _values(found: RunComparison) -> str:
    if not found.values:
        return "Nothing was measured in both runs.\n"
    exact = sum(one.exact for one in found.values.values())
    differ = {n: one for n, one in found.values.items() if not one.exact or one.then != one.now}
    rows = tuple(
        (
            *(name, number(one.then), number(one.now)),
            percent(one.now / one.then - 1, exact=one.exact) if one.then else "-",
        )
        for name, one in differ.items()
    )
    titles = tables.columns("what", "then", "now", "change")
    equal = len(found.values) - len(rows)
    summary = f"{equal} of {exact} exact values are equal to the last digit.\n" if exact else ""
    table = tables.text(TableRecord(title="Measured in both", columns=titles, rows=rows))
    return (table if rows else "") + summary


def _claims(run: RunRecord) -> Iterator[tuple[str, str]]:
    for series in run.series:
        for claim in series.claims:
            yield f"{series.name}.{claim.name}", claim.verdict


def _measured(run: RunRecord) -> Iterator[tuple[str, tuple[tuple[float, ...], bool]]]:
    """Name, values (one a boot, in the order of their seeds) and whether they are exact, of all
    that a run measured.

    What failed may have fewer values than arms, and which is whose nobody knows.
    """
    for series in run.series:
        for claim in series.claims:
            for found in claim.findings:
                if len(found.values) != len(found.arms):
                    continue
                for arm, values in zip(found.arms, found.values, strict=True):
                    subject = view.of_finding(found).subject
                    name = f"{series.name}.{claim.name} {arm} {subject}, {found.executed}"
                    if values:
                        yield name, (values, found.engine.deterministic)
    if not run.series:
        for cell in run.cells:
            if values := cell.values():
                name = f"{cell.arm} {cell.name} {cell.metric} {cell.executed}"
                yield name, (values, cell.engine.deterministic)
