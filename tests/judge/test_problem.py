# SPDX-License-Identifier: GPL-2.0-or-later
"""What a refuted claim is where the claim of its problem does not hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import examples
import pytest

from lab.base.errors import UsageError
from lab.base.toml import parse
from lab.inputs.claims import Expectation
from lab.inputs.series import Series
from lab.inputs.terms import Level, Verdict
from lab.judge.finding import Evidence, Finding
from lab.judge.problem import with_problems

HOLDS, REFUTED, INCONCLUSIVE = Verdict.HOLDS, Verdict.REFUTED, Verdict.INCONCLUSIVE
OPEN = [verdict for verdict in Verdict if verdict is not HOLDS]
EIGHT, SIXTEEN = {"clients": 8}, {"clients": 16}


def expectation(metric: str = "iops") -> Expectation:
    levels = {"before": 100.0, "after": 60.0, "unit": "IOPS"}
    content = {"metric": metric, "because": "b", "change": "<= -23%", "published": levels}
    return Expectation.model_validate(content)


SERIES = examples.judged_series(
    {
        "gain": examples.claimed(expectation()).model_copy(update={"problem": "gap"}),
        "gap": examples.claimed(expectation()),
        "other": examples.claimed(expectation()),
    }
)


def found(claim: str, verdict: Verdict, metric: str = "iops", **changes: Any) -> Finding:
    """A finding of a claim, which measured -5 %."""
    conditions, level = changes.pop("conditions", EIGHT), changes.pop("level", Level.COST)
    return Finding(
        experiment=examples.experiment(
            expectation(metric), claim=claim, level=level, conditions=conditions
        ),
        evidence=Evidence(),
        verdict=verdict,
        reason="as measured",
        measured_change=-0.05,
        **changes,
    )


def judged(*findings: Finding) -> list[Finding]:
    return [*with_problems(SERIES, findings)]


def test_a_claim_is_refuted_where_its_problem_shows() -> None:
    findings = [found("gain", REFUTED), found("gap", HOLDS)]
    assert judged(*findings) == findings


@pytest.mark.parametrize("verdict", OPEN)
def test_a_claim_whose_problem_does_not_show_is_open(verdict: Verdict) -> None:
    gain, _ = judged(found("gain", REFUTED), found("gap", verdict))
    assert gain.verdict is INCONCLUSIVE
    assert gain.reason == (
        "the published problem does not show here: gap: -5.0 %, published -40.0 %"
    )


@pytest.mark.parametrize("verdict", [v for v in Verdict if v is not REFUTED])
def test_what_is_not_refuted_stays_as_it_is(verdict: Verdict) -> None:
    findings = [found("gain", verdict), found("gap", INCONCLUSIVE)]
    assert judged(*findings) == findings


@pytest.mark.parametrize(
    "elsewhere",
    [
        found("gap", HOLDS, conditions=SIXTEEN),
        found("gap", HOLDS, metric="lat_p99_ms"),
        found("gap", HOLDS, level=Level.WALL),
        found("other", HOLDS),
    ],
)
def test_a_problem_shows_under_the_same_conditions_only(elsewhere: Finding) -> None:
    gain, other = judged(found("gain", REFUTED), elsewhere)
    assert gain.verdict is INCONCLUSIVE
    assert "gap, was not measured beside it" in gain.reason
    assert other == elsewhere


def test_a_problem_that_is_refuted_itself_does_not_show() -> None:
    (gap,) = judged(found("gap", REFUTED))
    assert gap.verdict is INCONCLUSIVE
    assert gap.reason == "the published problem does not show here: -5.0 %, published -40.0 %"


def test_other_claims_are_refuted_as_before() -> None:
    findings = [found("other", REFUTED), found("gap", INCONCLUSIVE)]
    assert judged(*findings) == findings


@pytest.mark.parametrize("claim", ["gain", "gap"])
def test_a_kernel_that_breaks_is_refuted_whatever_the_problem(claim: str) -> None:
    broken = found(claim, REFUTED, broken=True)
    assert judged(broken, found("other", HOLDS))[0] == broken


def test_a_problem_that_is_no_claim_is_refused() -> None:
    claim = {
        **{"published": "p", "topology": "nullb", "scheduler": "bfq"},
        **{"workload": "randread_burst", "problem": "gab"},
        "expect": [{"metric": "iops", "change": ">= +5%", "because": "b"}],
    }
    lines = {"title": "t", "origin": "o", "claims": {"gain": claim, "gap": {**claim}}}
    with pytest.raises(UsageError, match="no claim is called 'gab'") as caught:
        parse(lines, Series, Path("series.toml"))
    assert "claims.gain.problem" in caught.value.where
