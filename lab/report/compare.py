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


def compared(first: RunRecord, second: RunRecord) -> RunComparison:
    """The verdicts of two runs, and every measured value that both have."""
    before, after = _claims(first), _claims(second)
    verdicts = {
        name: Verdicts(then=before.get(name, ""), now=after.get(name, ""))
        for name in {**before, **after}
    }
    then, now = dict(_measured(first)), dict(_measured(second))
    values = {}
    for name, (old, exact) in then.items():
        if name not in now:
            continue
        new, _ = now[name]
        # The seeds that both have: more of them in one run are no change of what is measured.
        seeds = min(len(old), len(new)) if exact else None
        old_mean, new_mean = statistics.fmean(old[:seeds]), statistics.fmean(new[:seeds])
        values[name] = Values(then=old_mean, now=new_mean, exact=exact)
    return RunComparison(runs=(first.id, second.id), verdicts=verdicts, values=values)


def text(first: RunRecord, second: RunRecord) -> str:
    """Verdicts that changed, then every measured value that both runs have, in 80 columns."""
    comparison = compared(first, second)
    lines = [f"{first.id}  {first.command}", f"{second.id}  {second.command}", ""]
    lines += [_verdicts(comparison), _values(comparison), _NOTE]
    return visible("\n".join(lines))


def _verdicts(comparison: RunComparison) -> str:
    rows = tuple(
        (name, verdicts.then or "-", verdicts.now or "-")
        for name, verdicts in comparison.verdicts.items()
        if verdicts.then != verdicts.now
    )
    if not rows:
        count = len(comparison.verdicts)
        same = f"all {count} verdicts are the same" if count else "no claim was judged"
        return f"Verdicts: {same}.\n"
    titles = tables.texts("claim", "then", "now")
    return tables.text(TableRecord(title="Verdicts that differ", columns=titles, rows=rows))


def _values(comparison: RunComparison) -> str:
    if not comparison.values:
        return "Nothing was measured in both runs.\n"
    exact = sum(value.exact for value in comparison.values.values())
    rows = tuple(
        (
            *(name, number(value.then), number(value.now)),
            percent(value.now / value.then - 1, exact=value.exact) if value.then else "-",
        )
        for name, value in comparison.values.items()
        if not value.exact or value.then != value.now
    )
    titles = tables.columns("what", "then", "now", "change")
    equal = len(comparison.values) - len(rows)
    summary = f"{equal} of {exact} exact values are equal to the last digit.\n" if exact else ""
    table = tables.text(TableRecord(title="Measured in both", columns=titles, rows=rows))
    return (table if rows else "") + summary


def _claims(run: RunRecord) -> dict[str, str]:
    return {f"{series.name}.{claim.name}": claim.verdict for series, claim in run.claims}


def _measured(run: RunRecord) -> Iterator[tuple[str, tuple[tuple[float, ...], bool]]]:
    """Name, values (one a boot, in the order of their seeds) and whether they are exact, of all
    that a run measured.

    What failed may have fewer values than arms, and which is whose nobody knows.
    """
    for series, claim in run.claims:
        for finding in claim.findings:
            if len(finding.values) != len(finding.arms):
                continue
            subject = view.of_finding(finding).subject
            for arm, values in zip(finding.arms, finding.values, strict=True):
                name = f"{series.name}.{claim.name} {arm} {subject}, {finding.executed}"
                if values:
                    yield name, (values, finding.engine.deterministic)
    if not run.series:
        for cell in run.cells:
            if values := cell.values():
                name = f"{cell.arm} {cell.name} {cell.metric} {cell.executed}"
                yield name, (values, cell.engine.deterministic)
