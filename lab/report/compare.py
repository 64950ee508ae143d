# SPDX-License-Identifier: GPL-2.0-or-later
"""Two runs side by side: which verdicts changed, and what was measured then and now."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from lab.base.plain_table import PlainTable
from lab.base.text import number, percent, visible
from lab.report import finding
from lab.report.run_record import Finding, Run

# What one run of an engine differs by from the next is not for this table to judge.
_NOTE = (
    "Host time (tcg, kvm) was measured at different times: its differences are no\nfinding. "
    "Exact values differ only when something that is executed does.\n"
)


def text(one: Run, other: Run) -> str:
    """Verdicts that changed, then every measured value that both runs have, in 80 columns."""
    lines = [f"{one.id}  {one.command}", f"{other.id}  {other.command}", ""]
    lines += [_verdicts(one, other), _values(one, other), _NOTE]
    return visible("\n".join(lines))


def _verdicts(one: Run, other: Run) -> str:
    before, after = (dict(_claims(run)) for run in (one, other))
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if not changed:
        same = f"all {len(before)} verdicts are the same" if before else "no claim was judged"
        return f"Verdicts: {same}.\n"
    table = PlainTable("Verdicts that differ")
    for title in ("claim", "then", "now"):
        table.column(title)
    for name in changed:
        table.row(name, before.get(name, "-"), after.get(name, "-"))
    return table.text()


def _values(one: Run, other: Run) -> str:
    before, after = (dict(_measured(run)) for run in (one, other))
    shared = [name for name in before if name in after]
    if not shared:
        return "Nothing was measured in both runs.\n"
    table = PlainTable("Measured in both")
    table.column("what")
    for title in ("then", "now", "change"):
        table.column(title, right=True)
    equal = 0
    for name in shared:
        (then, sealed), (now, _) = before[name], after[name]
        # The seeds that both have: more of them in one run are no change of what is measured.
        seeds = min(len(then), len(now)) if sealed else None
        was, is_now = statistics.fmean(then[:seeds]), statistics.fmean(now[:seeds])
        if sealed and was == is_now:
            equal += 1
            continue
        change = percent(is_now / was - 1, exact=sealed) if was else "-"
        table.row(name, number(was), number(is_now), change)
    exact = sum(sealed for _, sealed in (before[name] for name in shared))
    summary = f"{equal} of {exact} exact values are equal to the last digit.\n" if exact else ""
    return (table.text() if equal < len(shared) else "") + summary


def _claims(run: Run) -> Iterator[tuple[str, str]]:
    for series in run.series:
        for claim in series.claims:
            yield f"{series.name}.{claim.name}", claim.verdict


def _measured(run: Run) -> Iterator[tuple[str, tuple[tuple[float, ...], bool]]]:
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
                    name = _name(f"{series.name}.{claim.name}", found, arm)
                    if values:
                        yield name, (values, found.engine.sealed)
    if not run.series:
        for cell in run.cells:
            if values := cell.values():
                name = f"{cell.arm} {cell.name} {cell.metric} {cell.executed}"
                yield name, (values, cell.engine.sealed)


def _name(claim: str, found: Finding, arm: str) -> str:
    return f"{claim} {arm} {finding.parts(found).subject}, {found.executed}"
