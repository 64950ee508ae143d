# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts as text: nothing hidden, nothing wider than a terminal."""

from __future__ import annotations

import examples
import guests
import pytest

from lab.inputs import profile
from lab.inputs.claims import Expectation
from lab.inputs.terms import Level, Verdict
from lab.judge import verdict
from lab.judge.experiment import Experiment
from lab.judge.verdict import Evidence, Failure, Judged
from lab.report import tables, terminal
from lab.report.run_builder import RunBuilder
from lab.report.run_record import RunRecord

QUICK = profile.get("quick")
ROUNDS = Evidence(((100.0,) * 8, (140.0,) * 8))


def expectation(metric: str = "iops", change: str = ">= +20%", **more: object) -> Expectation:
    keys = {"metric": metric, "change": change or None, "because": "half of it", **more}
    return Expectation.model_validate(keys)


def experiment(
    asked: Expectation,
    claim: str = "faster",
    level: Level = Level.WALL,
    cpus: int = 0,
    work: str = "randread_burst",
    **lacking: str,
) -> Experiment:
    conditions = {**asked.parameters, **({"cpus": cpus} if cpus > 1 else {})}
    cell = guests.cell(work=work, cpus=cpus)
    return examples.experiment(
        asked, claim=claim, level=level, cell=cell, conditions=conditions, **lacking
    )


def judged(*asked: tuple[Experiment, Evidence], words: str = "words", error: str = "") -> Judged:
    """A series with these experiments answered; words stand in every text of it."""
    claims = {
        title: examples.claimed(
            *(own.expectation for own, _ in asked if own.claim == title),
            words=f"published {words}",
        )
        for title in dict.fromkeys(own.claim for own, _ in asked)
    }
    usual = examples.claimed(expectation())
    series = examples.judged_series(claims or {"a": usual})
    series = series.model_copy(update={"title": f"title {words}", "origin": f"origin {words}"})
    found = verdict.judge(asked, QUICK.alpha)
    return Judged(series, () if error else tuple(found), error)


def recorded(*judged: Judged) -> RunRecord:
    """The record of judged series."""
    return RunBuilder(examples.session(), "a title", "lab run").judged(judged)


def shown(asked: Experiment, evidence: Evidence = ROUNDS) -> str:
    """The claim with one expectation, on one line."""
    (series,) = recorded(judged((asked, evidence))).series
    return " ".join(" ".join(terminal.claim(series.claims[0])).split())


def test_published_expected_and_measured_stand_beside_each_other() -> None:
    asked = expectation(published=examples.figure("+40%"), parameters={"numjobs": 4})
    text = shown(experiment(asked, cpus=8))
    for part in (
        "faster: HOLDS",
        "Published: published words",
        "nullb, bfq, randread_burst",
        "HOLDS wall clock (tcg): iops, numjobs=4, 8 vCPUs",
        "published +40 %",
        "expected before -> after >= +20%: half of it",
        "measured 100.0 -> 140.0 host-clock IOPS, +40.0 % [+35.0, +45.2], p 0.012, 8 boots an arm",
    ):
        assert part in text


def test_an_exact_finding_has_no_chance_and_no_interval() -> None:
    asked = expectation("kernel_insns_per_io", "<= 0%")
    text = shown(experiment(asked, level=Level.COST), Evidence(((4000.0,), (2000.0,))))
    assert "HOLDS cost (exact): kernel_insns_per_io" in text
    assert text.endswith("measured 4,000 -> 2,000 insns/I/O, -50.0 %, 1 boot an arm")


@pytest.mark.parametrize(
    ("metric", "work", "unit"),
    [
        ("iops", "randread_burst", "guest-clock IOPS"),
        ("lat_p99_ms", "randread_burst", "ms"),
        ("guest_ns_per_io", "randread_burst", "ns"),
        ("queue_expirations", "randread_burst", "expirations/request"),
        ("amean_ms", "dbench_xfs", "ms"),
        ("throughput_mb", "dbench_xfs", "MB/s"),
    ],
)
def test_every_metric_has_its_unit(metric: str, work: str, unit: str) -> None:
    asked = experiment(expectation(metric, "", value=">= 1"), level=Level.MECHANISM, work=work)
    assert f"measured 9.00 {unit}, 1 boot an arm" in shown(asked, Evidence(((9.0,),)))


def test_too_few_rounds_show_no_interval_and_how_many_more_it_takes() -> None:
    text = shown(experiment(expectation()), Evidence(((100.0,) * 2, (140.0,) * 2)))
    assert "+40.0 % [too few rounds for an interval], p 0.582, 2 boots an arm" in text
    assert "because 2 rounds do not decide it: about 4 more" in text


@pytest.mark.parametrize(
    ("asked", "evidence", "reason"),
    [
        (experiment(expectation(), skipped="skipped because"), Evidence(), "skipped because"),
        (experiment(expectation(), lacking="needs 16 host CPUs"), ROUNDS, "needs 16 host CPUs"),
        (experiment(expectation()), Evidence(((), ()), 4), "4 rejected"),
        (
            experiment(expectation()),
            Evidence(failure=Failure("after", True, "panic", "BUG x")),
            "BUG x",
        ),
        (
            experiment(expectation()),
            Evidence(failure=Failure("before", False, "died", "gone")),
            "gone",
        ),
        (experiment(expectation()), Evidence(same=True), "nothing was changed"),
    ],
)
def test_what_was_not_decided_by_measuring_says_why(
    asked: Experiment, evidence: Evidence, reason: str
) -> None:
    assert "because " in shown(asked, evidence)
    assert reason in shown(asked, evidence).partition("because ")[2]


def full_report(words: str) -> str:
    figure = examples.figure("+40%").model_copy(update={"machine": words})
    asked = expectation(published=figure, because=words, parameters={"numjobs": words or 1})
    lacking = experiment(expectation(because=words), claim="slower", lacking=words or "x")
    huge = Evidence(((1e-9, 1e12) * 4, (1e12, 1e-9) * 4), 10**9)
    broken = Evidence(failure=Failure("after", True, "panic", f"BUG\n{words}"))
    own = judged(
        *((experiment(asked), ROUNDS), (lacking, ROUNDS), (experiment(asked), huge)),
        *((experiment(asked, claim="c" * 60), broken),),
        (experiment(asked, skipped=words or "x"), Evidence()),
        words=words,
    )
    return terminal.text(recorded(own, judged(words=words, error=f"it failed\n  where: {words}")))


@pytest.mark.parametrize(
    "words", ["", "word", "several words " * 40, "x" * 200, "/a/path/to/a.patch:12: " * 9]
)
def test_no_line_is_longer_than_a_terminal(words: str) -> None:
    lines = full_report(words).splitlines()
    assert max(map(len, lines)) <= 80
    assert all(line == line.rstrip() for line in lines)


def test_no_word_is_lost_where_lines_are_wrapped() -> None:
    words = " ".join(f"word{number}" for number in range(60))
    text = " ".join(full_report(words).split())
    for start in (
        *("Published: published", "title", "origin", "it failed where:"),
        *("expected before -> after >= +20%:", "because"),
        "because the patched kernel breaks in arm after: BUG",
    ):
        assert f"{start} {words}" in text, start
    assert f"numjobs={words}" in text


def test_a_series_that_was_not_judged_says_why() -> None:
    run = recorded(judged(error="0001.patch does not apply\n  hint:  rebase it"))
    text = terminal.series(run.series[0])
    assert text.startswith("own: ERROR\n")
    assert "  0001.patch does not apply\n    hint:  rebase it\n" in text
    assert summary_rows(terminal.summary(run)) == [["own", "-", "ERROR"]]


def summary_rows(text: str) -> list[list[str]]:
    return [line.split(None, 2) for line in text.splitlines() if line.startswith("  own")]


def test_the_summary_has_a_line_for_each_claim() -> None:
    asked = [
        (experiment(expectation(), "holds"), ROUNDS),
        (experiment(expectation("iops", "<= 0%"), "fails"), ROUNDS),
        (experiment(expectation(), "both"), ROUNDS),
        (experiment(expectation("iops", "<= 0%"), "both"), ROUNDS),
        (experiment(expectation(), "waits", skipped="x"), Evidence()),
    ]
    text = terminal.summary(recorded(judged(*asked)))
    assert summary_rows(text) == [
        ["own", "holds", "HOLDS"],
        ["own", "fails", "REFUTED"],
        ["own", "both", "REFUTED"],
        ["own", "waits", "skipped"],
    ]


def test_the_summary_says_how_chance_was_judged_and_what_was_rejected() -> None:
    noisy = Evidence(ROUNDS.values, 3)
    exact = (experiment(expectation(), level=Level.COST), Evidence(((1.0,), (2.0,))))
    run = recorded(judged((experiment(expectation()), noisy)))
    text = " ".join(terminal.summary(run).split())
    assert "rounds of boots in turn, 95 % intervals" in text
    assert "at most 5 % after any number of rounds" in text
    assert "Rounds rejected because the host disturbed them: 3." in text
    assert "Wall clock" not in terminal.summary(recorded(judged(exact)))


def test_rejected_rounds_of_one_trial_are_counted_once() -> None:
    asked = [
        (experiment(expectation()), Evidence(ROUNDS.values, 3)),
        (experiment(expectation("ctx")), Evidence(ROUNDS.values[::-1], 3)),
        (experiment(expectation(), cpus=4), Evidence(ROUNDS.values, 2)),
    ]
    assert "disturbed them: 5." in " ".join(terminal.summary(recorded(judged(*asked))).split())


def test_the_summary_says_what_the_profile_skips_only_when_it_did() -> None:
    skipped = (experiment(expectation(), skipped="x"), Evidence())
    said = "Skipped by the profile: One boot a cell"
    assert said in terminal.summary(recorded(judged(skipped)))
    assert said not in terminal.summary(recorded(judged((experiment(expectation()), ROUNDS))))


@pytest.mark.parametrize("result", list(Verdict))
def test_every_verdict_has_the_place_of_the_longest(result: Verdict) -> None:
    line = terminal.claim(examples.claim(examples.finding(verdict=result)))[3]
    assert line.startswith(f"    - {result} ")
    assert line.index("wall clock") == len("    - ") + len("INCONCLUSIVE ")


def test_lines_hang_below_what_they_say() -> None:
    found = examples.finding(verdict="INCONCLUSIVE", because="word " * 30, reason="why " * 30)
    lines = terminal.claim(examples.claim(found))
    for label in ("expected", "because"):
        first = next(place for place, line in enumerate(lines) if line.strip().startswith(label))
        assert lines[first].index(lines[first].split()[1]) == 16
        assert lines[first + 1].startswith(" " * 16 + lines[first + 1].split()[0])
    published = examples.claim().model_copy(update={"statement": "expected " * 30})
    assert terminal.claim(published)[2].startswith("    expected")


def test_a_run_with_tables_shows_them_and_nothing_else() -> None:
    run = examples.tables_run()
    assert terminal.text(run) == "\n".join(map(tables.text, run.tables))
