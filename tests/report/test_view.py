# SPDX-License-Identifier: GPL-2.0-or-later
"""A finding reads the same wherever it is shown, and a percentage is written in one way."""

from __future__ import annotations

import json

import examples
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import page

from lab.base.text import percent
from lab.inputs.terms import Verdict
from lab.report import ci, exports, view


@pytest.mark.parametrize(
    ("change", "timed", "exact"),
    [
        (0.0, "+0.0 %", "+0.00 %"),
        (-0.0, "+0.0 %", "+0.00 %"),
        (0.2, "+20.0 %", "+20.0 %"),
        (-0.999, "-99.9 %", "-99.9 %"),
        (12.345, "+1,234.5 %", "+1,234.5 %"),
        (5168 / 5170 - 1, "+0.0 %", "-0.04 %"),
        (0.0025, "+0.2 %", "+0.25 %"),
        (0.00004, "+0.0 %", "+0.004 %"),
        (-0.000004, "+0.0 %", "-0.0004 %"),
        (1e-16, "+0.0 %", "+0.00 %"),
    ],
)
def test_a_change_is_a_signed_percentage(change: float, timed: str, exact: str) -> None:
    assert percent(change, exact=False) == timed
    assert percent(change, exact=True) == exact


@given(st.floats(-1, 1e6), st.booleans())
def test_a_percentage_is_near_and_never_a_negative_zero(change: float, exact: bool) -> None:
    shown = percent(change, exact=exact)
    value = float(shown.removesuffix(" %").replace(",", ""))
    assert value == pytest.approx(
        100 * change, abs=0.0501 if not exact or abs(value) >= 10 else 0.00501
    )
    assert value or shown.startswith("+")


def test_the_parts_of_a_finding() -> None:
    finding_view = view.of_finding(
        examples.finding(conditions={"numjobs": 4, "cpus": 8}, rejected=2)
    )
    assert finding_view.subject == "iops, numjobs=4, 8 vCPUs"
    assert finding_view.evidence == "wall clock (tcg)"
    assert finding_view.expected == "before -> after >= +20%"
    assert finding_view.measured == (
        "20,667 -> 28,917 host-clock IOPS, +39.9 % [+35.0, +47.0], p 0.016, 6 boots an arm, "
        "2 rounds rejected"
    )
    assert finding_view.reason == ""


@pytest.mark.parametrize("verdict", list(Verdict))
def test_only_what_holds_needs_no_reason(verdict: Verdict) -> None:
    measured = view.of_finding(examples.finding(verdict=verdict, reason="why"))
    unmeasured = view.of_finding(examples.finding((), (), verdict=verdict, reason="why"))
    assert measured.reason == ("" if verdict is Verdict.HOLDS else "why")
    assert (unmeasured.reason, unmeasured.measured) == ("why", "")


def test_an_interval_without_an_end_is_none() -> None:
    assert view.of_finding(examples.finding(interval=(-0.05, 0.2))).change.endswith("[-5.0, +20.0]")
    open_end = view.of_finding(examples.finding(interval=(-1.0, None)))
    assert open_end.change == "+39.9 % [too few rounds for an interval]"


def test_every_output_says_the_same_of_a_finding() -> None:
    run = examples.paired_run()
    finding_view = view.of_finding(run.series[0].claims[0].findings[0])
    (test,) = json.loads(ci.kcidb(run))["tests"]
    outputs = {
        "page": page(run).words.replace("→", "->").replace(" ,", ",").replace(" · ", ", "),
        "markdown": exports.markdown(run).replace("`", "").replace(" | ", ", "),
        "junit": ci.junit(run).replace("&gt;", ">"),
        "kcidb": test["misc"]["findings"][0],
    }
    for name, text in outputs.items():
        flat = " ".join(text.split())
        for part in (
            finding_view.values,
            finding_view.change,
            finding_view.evidence,
            finding_view.subject,
            finding_view.expected,
        ):
            assert part in flat, name
