# SPDX-License-Identifier: GPL-2.0-or-later
"""The verdicts of a run on one screen."""

from __future__ import annotations

import examples
import pytest

from lab.inputs.terms import Miss
from lab.report import run_record, terminal


def shown(*findings: run_record.FindingRecord, **claim: object) -> list[str]:
    own = examples.claim(*findings).model_copy(update=claim)
    return terminal.screen(examples.run(examples.series(own))).splitlines()


def test_a_figure_has_a_row_with_what_was_published_and_measured() -> None:
    figure = examples.figure(before=256e3, after=594e3)
    found = examples.finding(((172_348.0,), (362_591.0,)), published=figure)
    row = shown(found)[2].split()
    assert row == ["faster", "256k->594k", "+132%", "172k->363k", "+110%", "HOLDS", "tcg"]


@pytest.mark.parametrize(
    ("state", "column", "note"),
    [
        (Miss.KNOWN, "known miss", "known miss: "),
        (Miss.HOLDS, "miss holds!", "!: series.toml records another result"),
        (Miss.MOVED, "miss moved!", "!: series.toml records another result"),
    ],
)
def test_a_known_miss_is_shown_as_such_whatever_its_verdict(
    state: Miss, column: str, note: str
) -> None:
    lines = shown(examples.finding(**examples.missed(state), verdict="INCONCLUSIVE"))
    assert f" {column} " in lines[2]
    assert any(line.startswith(note) for line in lines)


def test_figures_of_a_claim_are_told_apart_by_what_differs() -> None:
    rows = [
        examples.finding(
            conditions={"numjobs": jobs, "seconds": 2}, published=examples.figure("+40%")
        )
        for jobs in (4, 8)
    ]
    assert [line.split()[0] for line in shown(*rows)[2:4]] == ["faster", "numjobs=8"]


def test_a_claim_has_one_row_where_its_figures_do_not_fit() -> None:
    many = [
        examples.finding(conditions={"numjobs": jobs}, published=examples.figure("+40%"))
        for jobs in range(60)
    ]
    lines = shown(*many)
    assert len(lines) <= terminal.LINES
    assert max(map(len, lines)) <= 80
    assert sum("faster" in line for line in lines) == 1


def test_checks_are_shown_where_no_claim_was_asked_for() -> None:
    lines = shown(examples.finding(published=None), is_check=True)
    assert "1 of 1 checks hold" in lines[1]
    assert lines[2].split()[0] == "faster"
