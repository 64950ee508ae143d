# SPDX-License-Identifier: GPL-2.0-or-later
"""A refutation needs the published problem: where that does not show, the series was not given what
it solves, and its claim is INCONCLUSIVE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab.base.text import number, percent
from lab.inputs.series import Series
from lab.inputs.terms import Verdict
from lab.judge.finding import Finding
from lab.measure import metrics

# How far off the level of the first arm may be, as a factor. Chosen: on one machine less than that
# separates kernels of two years.
PROBLEM = 2.0


def with_level(finding: Finding) -> Finding:
    """A refuted finding of which the first arm is not within a factor of two of what was published
    for it is inconclusive.
    """
    expectation = finding.experiment.expectation
    published = expectation.published
    if not _refuted(finding) or not published or not finding.measured:
        return finding
    unit, level = metrics.get(expectation.metric).unit, published.before
    if level is None or unit != published.unit or finding.experiment.subtract:
        return finding
    if not expectation.bound.is_change:
        return finding
    if 1 / PROBLEM <= finding.measured[0] / level <= PROBLEM:
        return finding
    return _open(finding, f"{number(finding.measured[0])} {unit}, published {number(level)}")


def with_problems(series: Series, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """All findings of a series, with those of claims whose problem another claim shows: refuted
    ones are inconclusive where that claim does not hold under the same conditions, and so is that
    claim where it is refuted itself.
    """
    problems = {name: claim.problem for name, claim in series.claims.items() if claim.problem}
    return tuple(_with_problem(finding, problems, findings) for finding in findings)


def _with_problem(
    finding: Finding, problems: dict[str, str], findings: Sequence[Finding]
) -> Finding:
    claim = finding.experiment.claim
    if not _refuted(finding):
        return finding
    if claim in problems.values():
        return _open(finding, _measured(finding))
    if claim not in problems:
        return finding
    shown = [other for other in findings if _shows(other, finding, problems[claim])]
    if not shown:
        return replace(
            finding,
            verdict=Verdict.INCONCLUSIVE,
            reason=f"the claim of the problem, {problems[claim]}, was not measured beside it",
        )
    missing = next((other for other in shown if other.verdict is not Verdict.HOLDS), None)
    return _open(finding, f"{problems[claim]}: {_measured(missing)}") if missing else finding


def _shows(other: Finding, finding: Finding, claim: str) -> bool:
    """Whether a finding belongs to a claim, and was measured as another finding was."""
    one, two = other.experiment, finding.experiment
    same = (one.expectation.metric, one.engine) == (two.expectation.metric, two.engine)
    return one.claim == claim and same and one.conditions == two.conditions


def _measured(finding: Finding) -> str:
    published = finding.experiment.expectation.published
    change = published.single_change if published else None
    if finding.measured_change is None:
        return finding.reason
    told = f", published {percent(change, exact=False)}" if change is not None else ""
    return f"{percent(finding.measured_change, exact=False)}{told}"


def _refuted(finding: Finding) -> bool:
    return finding.verdict is Verdict.REFUTED and not finding.broken


def _open(finding: Finding, instead: str) -> Finding:
    reason = f"the published problem does not show here: {instead}"
    return replace(finding, verdict=Verdict.INCONCLUSIVE, reason=reason)
