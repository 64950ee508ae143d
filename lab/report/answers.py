# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run answers: a line for each claim, what needs a reader first."""

from __future__ import annotations

from dataclasses import dataclass

from lab.inputs.terms import Verdict
from lab.report import finding
from lab.report.run_record import Claim, Run, Series

ORDER = (
    *(Verdict.REFUTED, Verdict.ERROR, Verdict.INCONCLUSIVE),
    *(Verdict.HOLDS, Verdict.LEFT_OUT),
)


@dataclass(frozen=True)
class Answer:
    """A claim, or a series that could not be judged: its verdict, what was published and measured.

    shown is the verdict in words; target is the id of the place that has the details.
    """

    series: str
    name: str
    target: str
    verdict: Verdict
    shown: str
    published: str
    measured: str


def of_run(run: Run) -> list[Answer]:
    """The answers of a run, refuted before inconclusive before what holds."""
    found = [answer for own in run.series for answer in _of_series(own)]
    return sorted(found, key=lambda answer: ORDER.index(answer.verdict))


def _of_series(own: Series) -> list[Answer]:
    answers = [_of_claim(own, claim) for claim in own.claims]
    if own.error:
        told = ("", "could not be judged")
        answers.append(Answer(own.title, own.name, own.name, own.verdict, own.verdict, *told))
    return answers


def _of_claim(own: Series, claim: Claim) -> Answer:
    found = finding.deciding(claim)
    told = finding.parts(found, " → ") if found else None
    measured = ""
    if found and told:
        values = ", ".join(filter(None, (f"{found.metric} {told.values}".strip(), told.change)))
        expected = f"expected {found.expected}" if found.verdict is not Verdict.HOLDS else ""
        why = "; ".join(filter(None, (told.reason, expected)))
        measured = ": ".join(filter(None, (values, why)))
    return Answer(
        series=own.name,
        name=claim.name,
        target=f"{own.name}.{claim.name}",
        verdict=claim.verdict,
        shown=finding.verdict(claim),
        published=(told and told.published) or claim.published,
        measured=measured,
    )
