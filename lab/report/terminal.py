# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts as plain text within 80 columns: published, expected and measured side by side."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from lab.base.stats import Interval
from lab.base.text import PlainTable, number
from lab.inputs import counters, workload
from lab.inputs.profile import Profile
from lab.inputs.terms import Verdict
from lab.judge.experiment import conditions
from lab.judge.verdict import Finding, Judged, of_claim
from lab.measure import cost, dbench, fio

_WIDTH = 80
_INDENT = " " * 6


def text(judged: Sequence[Judged], profile: Profile) -> str:
    """Every series with its claims and expectations, then one line a claim."""
    parts = [series(one, profile) for one in judged]
    return "\n".join([*parts, summary(judged, profile)])


def summary(judged: Sequence[Judged], profile: Profile) -> str:
    """One line a claim."""
    table = PlainTable("Verdicts")
    for title in ("series", "claim", "verdict"):
        table.column(title)
    for one in judged:
        if one.error:
            table.row(one.title, "-", Verdict.ERROR)
        for title, found in one.claims().items():
            table.row(one.title, title, of_claim(found))
    lines = [table.text()]
    findings = [found for one in judged for found in one.findings]
    if any(found.p is not None for found in findings):
        percents = (100 * (1 - profile.alpha), 100 * profile.alpha)
        lines += _wrapped(
            f"Wall clock: rounds of boots in turn, {percents[0]:g} % intervals; "
            "p is that of the sign-flip test at the bound, corrected for the number of "
            f"expectations (Benjamini-Hochberg, {percents[1]:g} %). {_rejections(findings)}",
            "",
        )
    if profile.leaves_out and any(f.verdict is Verdict.LEFT_OUT for f in findings):
        lines += _wrapped(f"Left out by the profile: {profile.leaves_out}", "")
    return "\n".join(lines) + "\n"


def series(judged: Judged, profile: Profile) -> str:
    """The claims of one series."""
    lines = [f"{judged.title}: {judged.verdict()}", *_wrapped(judged.series.title, "  ")]
    lines += _wrapped(judged.series.origin, "  ")
    if judged.error:
        lines += ["", *(part for own in judged.error.splitlines() for part in _wrapped(own, "  "))]
    for title, found in judged.claims().items():
        lines += ["", *claim(judged, title, found)]
    return "\n".join(lines) + "\n"


def claim(judged: Judged, title: str, findings: Sequence[Finding]) -> list[str]:
    """One claim: what was published, then each expectation with what was measured."""
    made = judged.series.claims[title]
    lines = [f"  {title}: {of_claim(findings)}"]
    lines += _wrapped(f"published: {made.published}", "    ")
    lines += _wrapped(f"{made.topology}, {made.scheduler}, {made.workload}", "    ")
    for found in findings:
        lines += _finding(found)
    return lines


def _finding(found: Finding) -> list[str]:
    asked = found.experiment
    expectation = asked.expectation
    arms = [cell.arm for cell in asked.cells]
    conditions = [f"{name}={value}" for name, value in expectation.parameters.items()]
    cpus = asked.cells[0].cpus
    conditions += [f"{cpus} vCPUs"] if cpus > 1 else []
    title = f"{found.verdict:<12} {asked.level} ({asked.engine}): {expectation.metric}"
    title += f", {' '.join(conditions)}" if conditions else ""
    lines = _wrapped(title, "    - ")
    expected = expectation.change or expectation.value
    if expectation.published:
        lines += _wrapped(f"published {expectation.published}", _INDENT)
    lines += _wrapped(f"expected  {' -> '.join(arms)} {expected}: {expectation.because}", _INDENT)
    if found.measured:
        lines += _wrapped(f"measured  {_measured(found)}", _INDENT)
    if not found.verdict.decided or not found.measured:
        lines += _wrapped(f"because   {found.reason}", _INDENT)
    return lines


def _measured(found: Finding) -> str:
    values = " -> ".join(number(value) for value in found.measured)
    shown = f"{values} {unit(found)}"
    if found.change is not None:
        shown += f", {percent(found.change)}"
        if found.experiment.timed and found.interval:
            shown += f" {interval(found.interval)}"
    if found.p is not None:
        shown += f", p {found.p:.3f}"
    if found.detectable is not None and math.isfinite(found.detectable):
        shown += f", detectable {100 * found.detectable:.0f} %"
    boots = len(found.evidence.values[0])
    return f"{shown}, {boots} boot{'s' if boots > 1 else ''} an arm"


def unit(found: Finding) -> str:
    """The unit of a finding's metric."""
    metric = found.experiment.expectation.metric
    if metric in counters.known():
        return counters.get(metric).unit
    tool = workload.get(found.experiment.cells[0].workload).tool
    return ({**fio.UNITS, **cost.UNITS} if tool == "fio" else dbench.UNITS)[metric]


def percent(change: float) -> str:
    """A change as a signed percentage."""
    return f"{100 * change:+,.1f} %"


def interval(found: Interval) -> str:
    """A confidence interval of a change."""
    if not math.isfinite(found.high):
        return "[too few rounds for an interval]"
    return f"[{100 * found.low:+,.1f}, {100 * found.high:+,.1f}]"


def _rejections(findings: Sequence[Finding]) -> str:
    rejected = {
        conditions(f.experiment): f.evidence.rejected for f in findings if f.experiment.timed
    }
    total = sum(rejected.values())
    return f"Rounds rejected because the host disturbed them: {total}."


def _wrapped(text: str, indent: str) -> list[str]:
    rest = " " * len(indent) if indent.strip() else indent
    if text.startswith(("published ", "expected ", "measured ", "because ")):
        rest += " " * 10
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=rest)
