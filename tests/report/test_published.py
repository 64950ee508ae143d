# SPDX-License-Identifier: GPL-2.0-or-later
"""What was published beside what was measured."""

from __future__ import annotations

from typing import Any

import examples

from lab.inputs.terms import Level
from lab.report.exports import published

_SKIPPED: dict[str, Any] = {"verdict": "skipped", "values": (), "measured": ()}


def _of(*findings: object) -> str:
    return published(examples.run(examples.series(examples.claim(*findings))))  # type: ignore[arg-type]


def test_each_figure_has_a_line_with_its_verdict() -> None:
    text = published(examples.swept_run())
    lines = [line for line in text.splitlines() if line.startswith("| own")]
    assert len(lines) == sum(
        bool(found.published)
        for series in examples.swept_run().series
        for claim in series.claims
        for found in claim.findings
    )
    (line,) = (line for line in lines if "-40.73 %" in line)
    assert "-39.8 %" in line
    assert "clients=8" in line


def test_a_figure_that_another_engine_judged_is_not_shown_as_left_out() -> None:
    held = examples.finding(level=Level.SIMULATED, engine="sim", machine="xeon16")
    lines = _of(held, examples.finding(**_SKIPPED)).splitlines()
    assert sum(line.startswith("| own") for line in lines) == 1
    assert lines[-1] == "1 of 1 published figures are decided: 1 HOLDS."


def test_a_figure_that_nothing_judged_is_shown_and_counted() -> None:
    text = _of(examples.finding(**_SKIPPED), examples.finding(verdict="REFUTED"))
    assert "1 of 1 published" in text  # the same figure, judged
    other = {
        **_SKIPPED,
        "published": examples.figure("+80%"),
        "reason": "the profile leaves it out",
    }
    text = _of(examples.finding(**other), examples.finding(verdict="INCONCLUSIVE"))
    assert "the profile leaves it out" in text
    assert "0 of 2 published figures are decided: 1 skipped, 1 INCONCLUSIVE." in text


def test_a_run_without_published_figures_says_so() -> None:
    assert _of(examples.finding(published=None)) == (
        "no expectation of this run carries a published figure\n"
    )
