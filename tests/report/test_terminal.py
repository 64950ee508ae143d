# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts as text: nothing hidden, nothing wider than a terminal."""

from __future__ import annotations

from typing import Any

import examples
import guests
import pytest

from lab.inputs import profile
from lab.inputs.claims import Expectation
from lab.inputs.terms import Level, Miss, Verdict
from lab.judge import verdict
from lab.judge.experiment import Experiment
from lab.judge.finding import Evidence, Failure
from lab.judge.verdict import Judged
from lab.report import terminal, view
from lab.report.run_builder import RunBuilder
from lab.report.run_record import FindingRecord, RunRecord
from lab.report.view import FindingView

ROUNDS = Evidence(((100.0,) * 8, (140.0,) * 8))


def make_experiment(
    metric: str = "iops",
    change: str = ">= +20%",
    *,
    claim: str = "faster",
    level: Level = Level.WALL,
    cpus: int = 0,
    work: str = "randread_burst",
    lacking: str = "",
    skipped: str = "",
    **more: object,
) -> Experiment:
    """An experiment that answers an expectation, of which more has other keys."""
    keys = {"metric": metric, "change": change or None, "because": "half of it", **more}
    expectation = Expectation.model_validate(keys)
    return examples.experiment(
        expectation,
        claim=claim,
        level=level,
        cell=guests.cell(work=work, cpus=cpus),
        conditions={**expectation.parameters, **({"cpus": cpus} if cpus > 1 else {})},
        lacking=lacking,
        skipped=skipped,
    )


def judged(*answers: tuple[Experiment, Evidence], words: str = "words", error: str = "") -> Judged:
    """A series with these experiments answered; words stand in every text of it."""
    claims = {
        title: examples.claimed(
            *(experiment.expectation for experiment, _ in answers if experiment.claim == title),
            words=f"published {words}",
        )
        for title in dict.fromkeys(experiment.claim for experiment, _ in answers)
    }
    series = examples.judged_series(
        claims or {"a": examples.claimed(make_experiment().expectation)}
    )
    series = series.model_copy(update={"title": f"title {words}", "origin": f"origin {words}"})
    findings = verdict.judge(answers, profile.get("quick").alpha)
    return Judged(series, () if error else tuple(findings), error)


def recorded(*judged: Judged) -> RunRecord:
    """The record of judged series."""
    return RunBuilder(examples.session(), "a title", "lab run").judged(judged)


def finding_view(experiment: Experiment, evidence: Evidence = ROUNDS) -> FindingView:
    """What is said of one expectation."""
    (series,) = view.of_run(recorded(judged((experiment, evidence))))
    return series.claims[0].findings[0]


def test_published_expected_and_measured_stand_beside_each_other() -> None:
    experiment = make_experiment(
        published=examples.figure("+40%"), parameters={"numjobs": 4}, cpus=8
    )
    (series,) = recorded(judged((experiment, ROUNDS))).series
    assert [" ".join(line.split()) for line in terminal.claim(series.claims[0])] == [
        "faster: HOLDS",
        "Published: published words",
        "nullb, bfq, randread_burst",
        "- HOLDS wall clock (tcg): iops, numjobs=4, 8 vCPUs",
        "published +40 %; the measured change is consistent with it",
        "expected before -> after >= +20%: half of it",
        "measured 100.0 -> 140.0 host-clock IOPS, +40.0 % [+35.0, +45.2], p 0.012,",
        "8 boots an arm",
    ]


@pytest.mark.parametrize(
    ("after", "shown"), [(2000.0, "2,000 insns/I/O, -50.0 %"), (0.0, "0.00 insns/I/O, -100.0 %")]
)
def test_an_exact_finding_has_no_chance_and_no_interval(after: float, shown: str) -> None:
    experiment = make_experiment("kernel_insns_per_io", "<= 0%", level=Level.COST)
    finding = finding_view(experiment, Evidence(((4000.0,), (after,))))
    assert (finding.evidence, finding.subject) == ("cost (exact)", "kernel_insns_per_io")
    assert finding.measured == f"4,000 -> {shown}, 1 boot an arm"


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
    experiment = make_experiment(metric, "", value=">= 1", level=Level.MECHANISM, work=work)
    assert finding_view(experiment, Evidence(((9.0,),))).values == f"9.00 {unit}"


def test_too_few_rounds_show_no_interval_and_how_many_more_it_takes() -> None:
    finding = finding_view(make_experiment(), Evidence(((100.0,) * 2, (140.0,) * 2)))
    assert finding.change == "+40.0 % [too few rounds for an interval]"
    assert finding.certainty == ("p 0.582", "2 boots an arm")
    assert finding.reason == "2 rounds do not decide it: about 4 more"


@pytest.mark.parametrize(
    ("lacking", "evidence", "reason"),
    [
        ({"skipped": "skipped because"}, Evidence(), "skipped because"),
        ({"lacking": "needs 16 host CPUs"}, ROUNDS, "needs 16 host CPUs"),
        ({}, Evidence(((), ()), 4), "4 rejected"),
        ({}, Evidence(failure=Failure("after", True, "panic", "BUG x")), "BUG x"),
        ({}, Evidence(failure=Failure("before", False, "died", "gone")), "gone"),
        ({}, Evidence(same=True), "nothing was changed"),
    ],
)
def test_what_was_not_decided_by_measuring_says_why(
    lacking: dict[str, Any], evidence: Evidence, reason: str
) -> None:
    assert reason in finding_view(make_experiment(**lacking), evidence).reason


def full_report(words: str) -> str:
    figure = examples.figure("+40%").model_copy(update={"machine": words})
    keys: dict[str, Any] = {"because": words or "b", "parameters": {"numjobs": words or 1}}
    keys["published"] = figure
    huge = Evidence(((1e-9, 1e12) * 4, (1e12, 1e-9) * 4), 10**9)
    broken = Evidence(failure=Failure("after", True, "panic", f"BUG\n{words}"))
    judged_series = judged(
        (make_experiment(**keys), ROUNDS),
        (make_experiment(because=words or "b", claim="slower", lacking=words or "x"), ROUNDS),
        (make_experiment(**keys), huge),
        (make_experiment(**keys, claim="c" * 60), broken),
        (make_experiment(**keys, skipped=words or "x"), Evidence()),
        words=words,
    )
    return terminal.text(
        recorded(judged_series, judged(words=words, error=f"it failed\n  where: {words}"))
    )


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
    answers = [
        (make_experiment(claim="holds"), ROUNDS),
        (make_experiment(change="<= 0%", claim="fails"), ROUNDS),
        (make_experiment(claim="both"), ROUNDS),
        (make_experiment(change="<= 0%", claim="both"), ROUNDS),
        (make_experiment(claim="waits", skipped="x"), Evidence()),
    ]
    text = terminal.summary(recorded(judged(*answers)))
    assert summary_rows(text) == [
        ["own", "holds", "HOLDS"],
        ["own", "fails", "REFUTED"],
        ["own", "both", "REFUTED"],
        ["own", "waits", "skipped"],
    ]


def test_the_summary_says_how_chance_was_judged_and_what_was_rejected() -> None:
    exact = (make_experiment(level=Level.COST), Evidence(((1.0,), (2.0,))))
    run = recorded(judged((make_experiment(), Evidence(ROUNDS.values, 3))))
    text = " ".join(terminal.summary(run).split())
    assert "rounds of boots in turn, 95 % intervals" in text
    assert "at most 5 % after any number of rounds" in text
    assert "Rounds rejected because the host disturbed them: 3." in text
    assert "Wall clock" not in terminal.summary(recorded(judged(exact)))


def test_rejected_rounds_of_one_trial_are_counted_once() -> None:
    answers = [
        (make_experiment(), Evidence(ROUNDS.values, 3)),
        (make_experiment("ctx"), Evidence(ROUNDS.values[::-1], 3)),
        (make_experiment(cpus=4), Evidence(ROUNDS.values, 2)),
    ]
    assert "disturbed them: 5." in " ".join(terminal.summary(recorded(judged(*answers))).split())


def test_the_summary_says_what_the_profile_skips_only_when_it_did() -> None:
    said = "Skipped by the profile: One boot a cell"
    assert said in terminal.summary(recorded(judged((make_experiment(skipped="x"), Evidence()))))
    assert said not in terminal.summary(recorded(judged((make_experiment(), ROUNDS))))


@pytest.mark.parametrize("result", list(Verdict))
def test_every_verdict_has_the_place_of_the_longest(result: Verdict) -> None:
    line = terminal.claim(examples.claim(examples.finding(verdict=result)))[3]
    assert line.startswith(f"    - {result} ")
    assert line.index("wall clock") == len("    - ") + len("INCONCLUSIVE ")


def test_lines_hang_below_what_they_say() -> None:
    finding = examples.finding(verdict="INCONCLUSIVE", because="word " * 30, reason="why " * 30)
    lines = terminal.claim(examples.claim(finding))
    for label in ("expected", "because"):
        first = next(place for place, line in enumerate(lines) if line.strip().startswith(label))
        assert lines[first].index(lines[first].split()[1]) == 16
        assert lines[first + 1].startswith(" " * 16 + lines[first + 1].split()[0])
    published = examples.claim().model_copy(update={"statement": "expected " * 30})
    assert terminal.claim(published)[2].startswith("    expected")


# --- on one screen


def on_screen(*findings: FindingRecord, **claim: object) -> list[str]:
    claim_record = examples.claim(*findings).model_copy(update=claim)
    return terminal.screen(examples.run(examples.series(claim_record))).splitlines()


def test_a_figure_has_a_row_with_what_was_published_and_measured() -> None:
    figure = examples.figure(before=256e3, after=594e3)
    finding = examples.finding(((172_348.0,), (362_591.0,)), published=figure)
    row = on_screen(finding)[2].split()
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
    lines = on_screen(examples.finding(**examples.missed(state), verdict="INCONCLUSIVE"))
    assert f" {column} " in lines[2]
    assert any(line.startswith(note) for line in lines)


def test_figures_of_a_claim_are_told_apart_by_what_differs() -> None:
    rows = [examples.finding(conditions={"numjobs": jobs, "seconds": 2}) for jobs in (4, 8)]
    assert [line.split()[0] for line in on_screen(*rows)[2:4]] == ["faster", "numjobs=8"]


def test_a_claim_has_one_row_where_its_figures_do_not_fit() -> None:
    many = [examples.finding(conditions={"numjobs": jobs}) for jobs in range(60)]
    lines = on_screen(*many)
    assert len(lines) <= terminal.LINES
    assert max(map(len, lines)) <= 80
    assert sum("faster" in line for line in lines) == 1


def test_checks_are_shown_where_no_claim_was_asked_for() -> None:
    lines = on_screen(examples.finding(published=None), is_check=True)
    assert "1 of 1 checks hold" in lines[1]
    assert lines[2].split()[0] == "faster"
