# SPDX-License-Identifier: GPL-2.0-or-later
"""What values say about expectations, and expectations about claims and series."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import examples
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lab.base.errors import KERNEL_FAILURES
from lab.inputs.bounds import Bound
from lab.inputs.claims import Check, Expectation, KnownMiss, Published
from lab.inputs.series import Series
from lab.inputs.terms import Level, Miss, Verdict
from lab.judge import verdict
from lab.judge.experiment import Experiment
from lab.judge.finding import Evidence, Failure, Finding
from lab.judge.verdict import Judged
from lab.measure.boot_store import Ends

ALPHA = 0.05
HOLDS, REFUTED, INCONCLUSIVE = Verdict.HOLDS, Verdict.REFUTED, Verdict.INCONCLUSIVE
SKIPPED, ERROR = Verdict.SKIPPED, Verdict.ERROR
LACKING = "needs 16 host CPUs, not 2"


def make_experiment(
    *,
    change: str = "",
    value: str = "",
    level: Level = Level.WALL,
    metric: str = "iops",
    expected: Mapping[str, object] | None = None,
    **fields: Any,
) -> Experiment:
    """An experiment about a metric, with these fields, and these of its expectation."""
    bound = {"change": change} if change else {"value": value}
    expectation = Expectation.model_validate({"metric": metric, "because": "b", **bound})
    return examples.experiment(expectation.model_copy(update=expected), level=level, **fields)


def judged(experiment: Experiment, evidence: Evidence, alpha: float = ALPHA) -> Finding:
    (finding,) = verdict.judge([(experiment, evidence)], alpha)
    return finding


def exact(
    change: str,
    before: Sequence[float],
    after: Sequence[float],
    *,
    metric: str = "kernel_insns_per_io",
    **fields: Any,
) -> Finding:
    """The finding on a change of something that is counted."""
    experiment = make_experiment(change=change, level=Level.COST, metric=metric, **fields)
    return judged(experiment, Evidence((tuple(before), tuple(after))))


def timed(change: str, ratios: Sequence[float], alpha: float = ALPHA) -> Finding:
    """The finding on rounds with these ratios of after to before."""
    return judged(make_experiment(change=change), rounds(ratios), alpha=alpha)


def rounds(ratios: Sequence[float]) -> Evidence:
    before = tuple(100.0 + number for number in range(len(ratios)))
    after = tuple(ratio * value for ratio, value in zip(ratios, before, strict=True))
    return Evidence((before, after))


@pytest.mark.parametrize(
    ("change", "before", "after", "expected"),
    [
        ("<= 0%", [100], [99], HOLDS),
        ("<= 0%", [100] * 3, [100] * 3, HOLDS),
        ("<= 0%", [100], [101], REFUTED),
        (">= +20%", [10], [12.5], HOLDS),
        (">= +20%", [10], [11], REFUTED),
        ("-1% .. +1%", [1000], [1004], HOLDS),
        ("-1% .. +1%", [1000], [1100], REFUTED),
        ("-1% .. +1%", [1000], [900], REFUTED),
        ("== 0%", [7] * 3, [7] * 3, HOLDS),
        ("<= -50%", [100, 110], [40, 45], HOLDS),
        ("<= -50%", [100, 110], [80, 90], REFUTED),
        ("<= -50%", [100, 110], [40, 52], INCONCLUSIVE),
        ("<= -75%", [4], [0], HOLDS),
        (">= +1%", [4], [0], REFUTED),
    ],
)
def test_an_exact_change_lies_within_its_bound_or_not(
    change: str, before: list[float], after: list[float], expected: Verdict
) -> None:
    finding = exact(change, before, after)
    assert finding.verdict is expected
    assert finding.p is None


def test_an_exact_finding_tells_what_was_measured() -> None:
    finding = exact("<= -50%", [100, 110], [40, 44])
    assert finding.measured == (105, 42)
    assert finding.measured_change == pytest.approx(-0.6)
    assert finding.interval
    margin = 1.005
    ends = (40 / 110 / margin - 1, 44 / 100 * margin - 1)
    assert (finding.interval.low, finding.interval.high) == pytest.approx(ends)


def test_seeds_that_are_told_apart_are_compared_in_pairs() -> None:
    before, after = [100.0, 150.0, 200.0], [111.0, 166.5, 222.5]
    finding = exact(">= +9%", before, after)
    assert finding.verdict is HOLDS
    assert finding.interval
    assert 0.09 < finding.interval.low < 0.11 < finding.interval.high < 0.13
    # The same numbers, but a seed beside another one: nothing is known any more.
    assert exact(">= +9%", before, after[::-1]).verdict is INCONCLUSIVE


def test_more_seeds_decide_what_three_leave_open_and_never_otherwise() -> None:
    random = np.random.default_rng(3)
    before = [100.0] * 24
    after = (102.0 * np.exp(0.005 * random.standard_normal(24))).tolist()
    verdicts = [exact(">= +1%", before[:count], after[:count]).verdict for count in range(3, 25)]
    first = verdicts.index(HOLDS)
    assert 0 < first < len(verdicts) - 1
    assert set(verdicts[:first]) == {INCONCLUSIVE}
    assert set(verdicts[first:]) == {HOLDS}


@pytest.mark.slow
@pytest.mark.parametrize("truth", [0.01, 0.0])
def test_seeds_err_no_more_often_than_promised(truth: float) -> None:
    """At the bound; of whoever adds seeds as long as it is open."""
    random = np.random.default_rng(5)
    runs, wrong = 800, 0
    for _ in range(runs):
        after = 100.0 * (1 + truth) * np.exp(0.003 * random.standard_normal(24))
        before = 100.0 * np.exp(0.003 * random.standard_normal(24))
        finding = exact(f">= {100 * truth:+g}%", before.tolist(), after.tolist())
        wrong += finding.verdict is HOLDS
    assert wrong <= runs * ALPHA / 2 + 4 * math.sqrt(runs * ALPHA / 2)


def test_a_value_is_judged_by_the_mean_of_its_seeds() -> None:
    experiment = make_experiment(value=">= 9", level=Level.COST)
    assert judged(experiment, Evidence(((9.1, 9.11, 9.1),))).verdict is HOLDS
    assert judged(experiment, Evidence(((9.1, 12.0, 8.9),))).verdict is INCONCLUSIVE
    assert judged(experiment, Evidence(((9.0,) * 3,))).verdict is HOLDS
    assert judged(experiment, Evidence(((9.1, 8.9),))).verdict is INCONCLUSIVE


def test_a_count_in_whole_numbers_is_what_was_seen() -> None:
    """However far the mean of such seeds may be off: there are only 8 of them."""
    experiment = make_experiment(value="1 .. 8", level=Level.MECHANISM, metric="hctxs_run")
    assert judged(experiment, Evidence(((8.0, 7.0, 8.0),))).verdict is HOLDS
    assert judged(experiment, Evidence(((8.0, 7.0, 9.0),))).verdict is INCONCLUSIVE
    assert judged(experiment, Evidence(((9.0, 12.0, 10.0),))).verdict is REFUTED
    assert judged(experiment, Evidence(((7.9, 7.0, 8.0),))).verdict is INCONCLUSIVE


@pytest.mark.parametrize(
    ("value", "values", "expected"),
    [
        ("== 9", [9], HOLDS),
        ("== 9", [9, 9, 9], HOLDS),
        ("== 9", [8], REFUTED),
        ("== 9", [9, 8], INCONCLUSIVE),
        ("== 0", [0, 0], HOLDS),
        ("33 .. 64", [33, 64], HOLDS),
        ("33 .. 64", [32, 65], INCONCLUSIVE),
        ("<= 0.1", [0.2, 0.3], REFUTED),
        (">= 1000", [999.9], REFUTED),
    ],
)
@pytest.mark.parametrize("level", Level)
def test_a_value_lies_within_its_bound_in_every_boot_or_in_none(
    value: str, values: list[float], expected: Verdict, level: Level
) -> None:
    finding = judged(make_experiment(value=value, level=level), Evidence((tuple(values),)))
    assert finding.verdict is expected
    assert finding.measured == (sum(values) / len(values),)
    assert finding.measured_change is None


@pytest.mark.parametrize(
    ("level", "before", "after", "which"),
    [
        (Level.COST, (0.0,), (5.0,), "first"),
        (Level.MECHANISM, (0.0, 1.0), (5.0, 5.0), "first"),
        (Level.WALL, (0.0,) * 8, (5.0,) * 8, "first"),
        (Level.WALL, (5.0,) * 8, (5.0,) * 7 + (0.0,), "second"),
    ],
)
def test_there_is_no_change_from_zero(
    level: Level, before: tuple[float, ...], after: tuple[float, ...], which: str
) -> None:
    finding = judged(make_experiment(change="<= -10%", level=level), Evidence((before, after)))
    assert finding.verdict is INCONCLUSIVE
    assert finding.reason.startswith(f"the {which} arm's value is 0")
    assert finding.measured == (sum(before) / len(before), sum(after) / len(after))


@pytest.mark.parametrize(
    ("change", "ratios", "expected"),
    [
        (">= +20%", [1.35, 1.4, 1.5, 1.45, 1.38, 1.43, 1.4], HOLDS),
        (">= +20%", [1.0, 1.01, 0.99, 1.03, 1.05, 1.02, 1.0], REFUTED),
        (">= +20%", [1.0, 1.3, 1.1, 1.4, 1.2, 1.25], INCONCLUSIVE),
        ("<= -10%", [0.7, 0.72, 0.75, 0.69, 0.78, 0.71], HOLDS),
        ("<= -10%", [1.05, 1.1, 1.2, 1.09, 1.07, 1.08, 1.1], REFUTED),
        ("-5% .. +5%", [1.01, 0.99, 1.02, 0.98, 1.0, 1.01] * 2, HOLDS),
        ("-5% .. +5%", [1.2, 1.3, 1.25, 1.28, 1.22, 1.31, 1.2], REFUTED),
        ("-5% .. +5%", [0.7, 0.71, 0.75, 0.8, 0.77, 0.73, 0.7], REFUTED),
        ("-5% .. +5%", [1.01, 1.1, 0.9, 1.0, 1.06, 0.99], INCONCLUSIVE),
    ],
)
def test_rounds_decide_when_chance_would_hardly_show_them(
    change: str, ratios: list[float], expected: Verdict
) -> None:
    finding = timed(change, ratios)
    assert finding.verdict is expected
    assert finding.measured_change == pytest.approx(math.exp(np.mean(np.log(ratios))) - 1)
    assert finding.p is not None
    assert (finding.p <= ALPHA) == (expected is not INCONCLUSIVE)
    assert finding.interval


def test_a_stricter_level_needs_more_rounds() -> None:
    ratios = [1.35, 1.4, 1.5, 1.45, 1.38, 1.43, 1.4]
    assert timed(">= +20%", ratios, alpha=0.01).verdict is INCONCLUSIVE
    assert timed(">= +20%", ratios * 2, alpha=0.01).verdict is HOLDS


def test_more_rounds_decide_more_and_never_otherwise() -> None:
    """What 24 rounds of noise make of a gain that is there: open, then decided for good."""
    random = np.random.default_rng(7)
    ratios = (1.36 * np.exp(0.067 * random.standard_normal(24))).tolist()
    verdicts = [timed(">= +20%", ratios[:count]).verdict for count in range(1, 25)]
    first = verdicts.index(HOLDS)
    assert 5 <= first < 23
    assert set(verdicts[:first]) == {INCONCLUSIVE}
    assert set(verdicts[first:]) == {HOLDS}
    # Whatever comes later: a verdict does not flip by looking again.
    assert timed(">= +20%", [*ratios, *[0.5] * 24]).verdict is HOLDS


@pytest.mark.parametrize("count", [1, 5])
def test_rounds_too_few_for_any_verdict_say_how_many_more_it_takes(count: int) -> None:
    finding = timed(">= +20%", [1.5] * count)
    assert finding.verdict is INCONCLUSIVE
    assert f"{count} rounds do not decide it: about {6 - count} more" in finding.reason


def test_rounds_that_lead_nowhere_say_so() -> None:
    finding = timed(">= +20%", [1.0, 1.44] * 6)
    assert "12 rounds do not decide it: more like these would not, either" in finding.reason


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.sampled_from([1, 5, 20]),
    st.booleans(),
    st.lists(st.tuples(st.floats(99, 101), st.floats(1.01, 2)), min_size=6, max_size=8),
    st.booleans(),
)
def test_what_holds_is_refuted_with_the_arms_turned_round(
    percent: int, more: bool, values: list[tuple[float, float]], chance: bool
) -> None:
    bound = 1 + percent / 100 if more else 1 - percent / 100
    before = tuple(value for value, _ in values)
    after = tuple(v * bound * (ratio if more else 1 / ratio) for v, ratio in values)
    experiment = make_experiment(
        change=f">= +{percent}%" if more else f"<= -{percent}%",
        level=Level.WALL if chance else Level.COST,
    )
    finding = judged(experiment, Evidence((before, after)))
    assume(finding.verdict is HOLDS)
    assert judged(experiment, Evidence((after, before))).verdict is REFUTED


def many(ratios: Sequence[Sequence[float]], change: str = ">= +20%") -> list[Verdict]:
    """The verdicts on expectations of one claim that are judged together."""
    answers = [
        (make_experiment(change=change, questions=len(ratios)), rounds(round_ratios))
        for round_ratios in ratios
    ]
    return [finding.verdict for finding in verdict.judge(answers, ALPHA)]


def test_refuting_one_of_many_needs_more_than_the_level_and_holding_does_not() -> None:
    good, bad, idle = [1.5] * 7, [0.8] * 7, [1.0, 1.44] * 4
    assert many([good, *[idle] * 9]) == [HOLDS] + [INCONCLUSIVE] * 9
    # Evidence of two to the seventh is enough for three in forty, and not for four.
    assert many([bad, *[idle] * 2]) == [REFUTED] + [INCONCLUSIVE] * 2
    assert many([bad, *[idle] * 3]) == [INCONCLUSIVE] * 4
    assert many([[0.8] * 12, *[idle] * 9]) == [REFUTED] + [INCONCLUSIVE] * 9


def test_what_is_judged_beside_a_claim_changes_nothing() -> None:
    answers = [(make_experiment(change=">= +20%"), rounds([0.8] * 6))]
    other_answers = [
        (make_experiment(change=">= +20%", claim=f"c{n}"), rounds([1.4] * 6)) for n in range(9)
    ]
    alone, *_ = verdict.judge(answers, ALPHA)
    beside, *_ = verdict.judge([*answers, *other_answers], ALPHA)
    assert (beside.verdict, beside.p) == (alone.verdict, alone.p)
    assert alone.verdict is REFUTED


@pytest.mark.slow
@pytest.mark.parametrize(("change", "wrong"), [(">= +20%", HOLDS), ("<= +20%", REFUTED)])
@pytest.mark.parametrize("size", [1, 3, 10])
def test_a_claim_at_its_bounds_is_called_at_most_at_the_level(
    change: str, wrong: Verdict, size: int
) -> None:
    random = np.random.default_rng(1)
    claims, called = 60, 0
    for _ in range(claims):
        ratios = 1.2 * np.exp(0.02 * random.standard_normal((size, 8)))
        verdicts = many(ratios.tolist(), change)
        called += all(v is HOLDS for v in verdicts) if wrong is HOLDS else REFUTED in verdicts
    assert called <= claims * ALPHA + 3 * math.sqrt(claims * ALPHA * (1 - ALPHA))


@pytest.mark.parametrize("may", [False, True])
def test_a_counter_that_finds_nothing_with_the_patches_is_not_a_hundred_percent_less(
    may: bool,
) -> None:
    experiment = make_experiment(
        change="<= -30%",
        level=Level.MECHANISM,
        metric="lock_acquisitions",
        expected={"may_be_zero": may},
    )
    finding = judged(experiment, Evidence(((5.0,), (0.0,))))
    assert finding.verdict is (HOLDS if may else INCONCLUSIVE)
    assert may or "nothing was counted in arm after" in finding.reason


@pytest.mark.parametrize("verdict_of", [(1.4, HOLDS), (0.9, REFUTED)])
@pytest.mark.parametrize(
    ("failures", "before", "expected"),
    [
        ({"hang": 1}, {}, INCONCLUSIVE),
        ({"hang": 3}, {}, REFUTED),
        ({"WARNING in bfq_dispatch_request()": 3}, {}, REFUTED),
        ({"hang": 3}, {"hang": 3}, None),
    ],
)
def test_failures_on_record_keep_a_claim_from_holding(
    verdict_of: tuple[float, Verdict],
    failures: dict[str, int],
    before: dict[str, int],
    expected: Verdict | None,
) -> None:
    ratio, measured = verdict_of
    patched, base = (
        Ends(9, counts, dict.fromkeys(counts, "boot")) for counts in (failures, before)
    )
    evidence = replace(rounds([ratio] * 8), ends=(patched, base))
    finding = judged(make_experiment(change=">= +20%"), evidence)
    wanted = measured if expected is None or measured is REFUTED else expected
    assert finding.verdict is wanted
    assert next(iter(failures)) in finding.reason


@pytest.mark.parametrize("outcome", KERNEL_FAILURES)
@pytest.mark.parametrize("level", Level)
def test_a_patched_kernel_that_breaks_is_refuted(outcome: str, level: Level) -> None:
    failure = Failure("after", True, outcome, "BUG: x")
    finding = judged(
        make_experiment(change="<= 0%", level=level), Evidence(((1.0,), ()), 0, failure)
    )
    assert finding.verdict is REFUTED
    assert "arm after" in finding.reason
    assert "BUG: x" in finding.reason


@pytest.mark.parametrize(
    ("arm", "outcome", "patched"),
    [
        ("before", "panic", False),
        ("raw", "hang", False),
        ("before", "failed", False),
        ("after", "died", True),
        ("after", "lost", True),
        ("after", "mismatch", True),
        ("after", "garbled", True),
        ("after", "panic", False),
    ],
)
def test_any_other_failure_is_the_labs(arm: str, outcome: str, patched: bool) -> None:
    evidence = Evidence(failure=Failure(arm, patched, outcome, "something"))
    finding = judged(make_experiment(change="<= 0%"), evidence)
    assert finding.verdict is ERROR
    assert finding.reason == f"arm {arm} failed: something"


@pytest.mark.parametrize("after", [900.0, 1100.0])
def test_what_cannot_be_compared_is_not_judged(after: float) -> None:
    evidence = Evidence(((1000.0,), (after,)), doubt="user space did other work")
    experiment = make_experiment(change="<= -5%", metric="kernel_insns_per_io", level=Level.COST)
    assert judged(experiment, replace(evidence, doubt="")).verdict.decided
    finding = judged(experiment, evidence)
    assert (finding.verdict, finding.reason) == (INCONCLUSIVE, "user space did other work")


@pytest.mark.parametrize(
    ("change", "arm", "evidence"),
    [
        ("<= 0%", "before", Evidence()),
        (">= +20%", "after", rounds([1.4] * 8)),
        ("-1% .. +1%", "after", Evidence(((1.0,), (1.0,)), unchanged=7)),
    ],
    ids=["arms reversed", "complete rounds", "equal code"],
)
def test_a_patched_kernel_that_breaks_outweighs_all_else(
    change: str, arm: str, evidence: Evidence
) -> None:
    broken = replace(evidence, failure=Failure(arm, True, "panic", "x"))
    assert judged(make_experiment(change=change), broken).verdict is REFUTED


def test_the_same_kernel_under_two_names_changes_nothing() -> None:
    finding = judged(make_experiment(change="<= 0%"), Evidence(same=True))
    assert (finding.verdict, finding.measured_change) == (REFUTED, 0)
    assert "same kernel" in finding.reason
    assert judged(make_experiment(value="== 1"), Evidence(((1.0,),), same=True)).verdict is HOLDS
    assert judged(make_experiment(change="-1% .. +1%"), Evidence(same=True)).verdict is HOLDS


def test_what_executes_equal_code_does_not_change_however_seeds_differ() -> None:
    experiment = make_experiment(change="-1% .. +1%", level=Level.COST)
    apart = Evidence(((100.0, 90.0, 110.0), (103.0, 99.0, 112.0)))
    assert judged(experiment, apart).verdict is INCONCLUSIVE
    finding = judged(experiment, replace(apart, unchanged=5880))
    assert (finding.verdict, finding.measured_change) == (HOLDS, 0)
    assert finding.measured == pytest.approx((100, 104.67), abs=0.01)
    assert "none of the 5,880 functions" in finding.reason


def test_seeds_that_differ_by_more_than_was_published_are_told_in_those_words() -> None:
    published = Published(before=100.0, after=90.0, unit="IOPS")
    experiment = make_experiment(
        change="<= -5%", level=Level.SIMULATED, expected={"published": published}
    )
    values = ((100.0, 90.0, 130.0, 95.0), (95.0, 120.0, 99.0, 70.0))
    finding = judged(experiment, Evidence(values))
    assert finding.verdict is INCONCLUSIVE
    assert "the interval of 4 seeds, [" in finding.reason
    assert "is wider than the published effect, -10 %" in finding.reason
    close = tuple(tuple(100 + (value - 100) / 50 for value in arm) for arm in values)
    assert "wider" not in judged(experiment, Evidence(close)).reason


@pytest.mark.parametrize(
    ("metric", "after", "expected"),
    [
        ("iops", 89, HOLDS),
        ("iops", 99, INCONCLUSIVE),
        ("iops", 101, INCONCLUSIVE),
        ("iops", 111, REFUTED),
        ("kernel_insns_per_io", 99, HOLDS),
        ("kernel_insns_per_io", 99.7, INCONCLUSIVE),
    ],
)
def test_one_draw_needs_a_distance_to_its_bound(
    metric: str, after: float, expected: Verdict
) -> None:
    finding = exact("<= 0%", [100], [after], metric=metric)
    assert finding.verdict is expected
    noise = "10 %" if metric == "iops" else "0.5 %"
    if expected is INCONCLUSIVE:
        assert f"nearer to the bound than {noise}, by which seeds differ" in finding.reason
    # With three seeds of each arm these speak for themselves.
    three = exact("<= 0%", [100] * 3, [after] * 3, metric=metric)
    assert three.verdict is (HOLDS if after < 100 else REFUTED)


@pytest.mark.parametrize(
    ("change", "after", "expected"),
    [
        ("<= -90%", 0.3, HOLDS),  # ten times less than a tenth: seeds that differ by 10 % are far
        ("<= -90%", 9.5, INCONCLUSIVE),
        (">= +90%", 205, INCONCLUSIVE),  # 10 % of 205, and not of 100
        (">= +90%", 210, HOLDS),
    ],
)
def test_seeds_differ_by_a_part_of_what_is_measured(
    change: str, after: float, expected: Verdict
) -> None:
    assert exact(change, [100], [after], metric="iops").verdict is expected


@pytest.mark.parametrize("values", [(), ((), ())])
def test_without_an_undisturbed_round_nothing_is_decided(
    values: tuple[tuple[float, ...], ...],
) -> None:
    finding = judged(make_experiment(change=">= +20%"), Evidence(values, 4))
    assert finding.verdict is INCONCLUSIVE
    assert "4 rejected" in finding.reason
    assert finding.measured == ()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"skipped": "the profile leaves out clients=512"}, SKIPPED),
        ({"lacking": "needs the engine kvm", "measurable": False}, INCONCLUSIVE),
    ],
)
def test_what_does_not_run_says_why(fields: dict[str, Any], expected: Verdict) -> None:
    finding = judged(make_experiment(change=">= +20%", **fields), Evidence())
    assert (finding.verdict, finding.reason) == (expected, next(iter(fields.values())))


@pytest.mark.parametrize("ratio", [1.4, 1.0])
def test_a_host_with_too_few_cpus_decides_nothing_but_shows_what_it_measured(ratio: float) -> None:
    finding = judged(make_experiment(change=">= +20%", lacking=LACKING), rounds([ratio] * 8))
    assert (finding.verdict, finding.reason) == (INCONCLUSIVE, LACKING)
    assert finding.measured_change == pytest.approx(ratio - 1)


def test_too_few_cpus_do_not_hide_that_the_lab_failed() -> None:
    evidence = Evidence(failure=Failure("before", False, "panic", "x"))
    assert judged(make_experiment(change=">= +20%", lacking=LACKING), evidence).verdict is ERROR


def make_finding(result: Verdict, claim: str = "claim") -> Finding:
    experiment = make_experiment(value="== 1", claim=claim)
    return Finding(experiment=experiment, evidence=Evidence(), verdict=result, reason="r")


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], SKIPPED),
        ([SKIPPED, SKIPPED], SKIPPED),
        ([HOLDS, SKIPPED], HOLDS),
        ([HOLDS, HOLDS], HOLDS),
        ([HOLDS, INCONCLUSIVE], INCONCLUSIVE),
        ([HOLDS, INCONCLUSIVE, REFUTED], REFUTED),
        ([REFUTED, SKIPPED], REFUTED),
        ([REFUTED, ERROR, HOLDS], ERROR),
    ],
)
def test_the_worst_expectation_is_the_claims_verdict(
    verdicts: list[Verdict], expected: Verdict
) -> None:
    for order in (verdicts, verdicts[::-1]):
        assert verdict.of_claim([make_finding(result) for result in order]) is expected


def test_a_series_is_judged_by_all_its_claims() -> None:
    claim = examples.claimed(Expectation(metric="iops", value=Bound(1, 1), because="b"))
    series = examples.judged_series({"a": claim, "b": claim})
    findings = (make_finding(HOLDS, "b"), make_finding(REFUTED, "a"), make_finding(HOLDS, "a"))
    judged_series = Judged(series, findings)
    assert judged_series.verdict() is REFUTED
    assert {
        title: [f.verdict for f in claim_findings]
        for title, claim_findings in judged_series.claims().items()
    } == {
        "b": [HOLDS],
        "a": [REFUTED, HOLDS],
    }
    assert Judged(series, findings[:1]).verdict() is HOLDS
    assert Judged(series, (), "does not build").verdict() is ERROR


@pytest.mark.parametrize(
    ("after", "half", "twice", "expected", "reason"),
    [
        (150, 140, 170, HOLDS, "as expected"),
        (101, 101, 102, REFUTED, "not as expected"),
        # Other costs of moving a line, another verdict.
        (150, 110, 170, INCONCLUSIVE, "sensitive to the machine model: REFUTED with half"),
        (101, 101, 150, INCONCLUSIVE, "sensitive to the machine model: HOLDS with twice"),
        (101, 130, 170, INCONCLUSIVE, "sensitive to the machine model: HOLDS with half and twice"),
        # Nearer to the bound than seeds are to each other.
        (124.5, 140, 170, INCONCLUSIVE, "by which seeds differ"),
        (150, 124.5, 170, HOLDS, "as expected"),
    ],
)
def test_a_simulated_verdict_is_that_of_other_transfer_costs_too(
    after: float, half: float, twice: float, expected: Verdict, reason: str
) -> None:
    experiment = make_experiment(change=">= +24%", level=Level.SIMULATED)
    variants = {"half": ((100.0,), (half,)), "twice": ((100.0,), (twice,))}
    finding = judged(experiment, Evidence(((100.0,), (after,)), variants=variants))
    assert finding.verdict is expected
    assert finding.reason.endswith(reason)
    assert finding.measured_change == pytest.approx(after / 100 - 1)
    assert finding.sensitivity == pytest.approx({"half": half / 100 - 1, "twice": twice / 100 - 1})


def test_a_simulated_variant_without_values_is_not_left_out_silently() -> None:
    experiment = make_experiment(change=">= +24%", level=Level.SIMULATED)
    evidence = Evidence(((100.0,), (150.0,)), variants={"half": ((100.0,), ())})
    finding = judged(experiment, evidence)
    assert finding.verdict is INCONCLUSIVE
    assert "gave no iops" in finding.reason


def test_a_simulated_value_is_judged_with_other_transfer_costs_too() -> None:
    experiment = make_experiment(value="<= 5", level=Level.SIMULATED, metric="transfers_per_io")
    variants = {"half": ((3.0,),), "twice": ((7.0,),)}
    finding = judged(experiment, Evidence(((4.0,),), variants=variants))
    assert finding.verdict is INCONCLUSIVE
    assert finding.sensitivity == {"half": 3.0, "twice": 7.0}


@pytest.mark.parametrize(
    ("after", "expected"), [([5.0], HOLDS), ([6.9], INCONCLUSIVE), ([12.0], REFUTED)]
)
def test_one_seed_of_a_counter_may_be_off_as_one_of_a_cost(
    after: Sequence[float], expected: Verdict
) -> None:
    """A counter beside it moved one from -80.9 to -69.0 %, across its bound."""
    experiment = make_experiment(
        change="<= -30%", level=Level.MECHANISM, metric="lock_acquisitions"
    )
    finding = judged(experiment, Evidence(((10.0,), tuple(after))))
    assert finding.verdict is expected
    assert ("by which seeds differ" in finding.reason) == (expected is INCONCLUSIVE)


def missed(value: float, *, recorded: str = "-12% .. -8%", **fields: Any) -> Finding:
    """A finding of an expectation of at least +20 % that is recorded to have been missed."""
    known = KnownMiss(
        measured=Bound.parse(recorded), date=datetime.date(2026, 11, 25), reason="too few CPUs"
    )
    experiment = make_experiment(change=">= +20%", level=Level.COST, expected={"known_miss": known})
    measured_values = (100.0, 100.0 * (1 + value))
    usual = {"verdict": REFUTED, "measured": measured_values, "measured_change": value}
    return Finding(experiment=experiment, evidence=Evidence(), reason="r", **{**usual, **fields})


@pytest.mark.parametrize(
    ("change", "result", "state", "counts"),
    [
        (-0.10, REFUTED, Miss.KNOWN, HOLDS),
        (-0.10, HOLDS, None, HOLDS),
        (-0.10, INCONCLUSIVE, Miss.KNOWN, HOLDS),
        (0.30, HOLDS, Miss.HOLDS, REFUTED),
        (-0.13, REFUTED, Miss.MOVED, REFUTED),
        (-0.02, INCONCLUSIVE, Miss.MOVED, REFUTED),
        # It says nothing of what was not measured.
        (-0.10, ERROR, None, ERROR),
        (-0.10, SKIPPED, None, SKIPPED),
    ],
)
def test_a_known_miss_is_as_expected_until_it_holds_or_moves(
    change: float, result: Verdict, state: Miss | None, counts: Verdict
) -> None:
    finding = missed(change, verdict=result)
    assert (finding.miss, finding.counts_as, finding.verdict) == (state, counts, result)


@pytest.mark.parametrize(
    ("recorded", "change", "is_open"),
    [
        ("-12% .. -8%", -0.10, False),
        ("-12% .. +25%", -0.10, True),
        ("-12% .. +25%", 0.30, False),
    ],
)
def test_a_miss_that_is_recorded_as_open_needs_no_more_seeds(
    recorded: str, change: float, is_open: bool
) -> None:
    finding = missed(change, verdict=INCONCLUSIVE, recorded=recorded)
    assert finding.open_as_recorded is is_open


def test_a_patched_kernel_that_breaks_is_no_known_miss() -> None:
    finding = missed(-0.1, broken=True)
    assert (finding.miss, finding.counts_as) == (None, REFUTED)


def series_with_a_check() -> Series:
    """A series that claims a, beside which the lab checks b."""
    expectation = Expectation(metric="iops", value=Bound(1, 1), because="b")
    claim = examples.claimed(expectation)
    check = Check(title="t", topology="t", scheduler="s", workload="w", expect=(expectation,))
    return Series(title="t", origin="o", claims={"a": claim}, checks={"b": check})


def checked(result: Verdict, *, broken: bool = False) -> Finding:
    finding = make_finding(result, "b")
    experiment = replace(finding.experiment, is_check=True)
    return replace(finding, experiment=experiment, broken=broken)


@pytest.mark.parametrize("result", [REFUTED, INCONCLUSIVE, HOLDS, SKIPPED])
def test_a_check_decides_only_where_that_is_asked_for(result: Verdict) -> None:
    judged_series = Judged(series_with_a_check(), (make_finding(HOLDS, "a"), checked(result)))
    assert judged_series.verdict() is judged_series.counts_as() is HOLDS
    assert judged_series.counts_as(strict=True) is (HOLDS if result is SKIPPED else result)


@pytest.mark.parametrize(("result", "broken"), [(REFUTED, True), (ERROR, False)])
def test_a_check_that_breaks_the_kernel_or_cannot_be_measured_decides(
    result: Verdict, broken: bool
) -> None:
    findings = (make_finding(HOLDS, "a"), checked(result, broken=broken))
    judged_series = Judged(series_with_a_check(), findings)
    assert judged_series.verdict() is judged_series.counts_as() is result


def test_known_misses_leave_the_verdict_and_not_the_exit_code() -> None:
    judged_series = Judged(series_with_a_check(), (make_finding(HOLDS, "a"), missed(-0.1)))
    assert (judged_series.verdict(), judged_series.counts_as()) == (REFUTED, HOLDS)


@pytest.mark.parametrize(
    ("before", "unit", "expected"),
    [
        (100.0, "insns/I/O", REFUTED),
        (199.0, "insns/I/O", REFUTED),
        (201.0, "insns/I/O", INCONCLUSIVE),
        (49.0, "insns/I/O", INCONCLUSIVE),
        (1e6, "IOPS", REFUTED),  # another unit: nothing to compare
    ],
)
def test_what_does_not_show_the_published_problem_refutes_nothing(
    before: float, unit: str, expected: Verdict
) -> None:
    published = Published(before=before, after=before / 2, unit=unit)
    finding = exact("<= -20%", [100] * 3, [99] * 3, expected={"published": published})
    assert finding.verdict is expected
    assert ("the published problem does not show here: 100.0" in finding.reason) is (
        expected is INCONCLUSIVE
    )


def test_what_holds_needs_no_level() -> None:
    published = Published(before=1e4, after=5e3, unit="insns/I/O")
    finding = exact("<= -20%", [100] * 3, [50] * 3, expected={"published": published})
    assert finding.verdict is HOLDS
