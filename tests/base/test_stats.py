# SPDX-License-Identifier: GPL-2.0-or-later
"""Paired boots: what they decide, the interval that agrees with it, and how often they err."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.random import Generator
from numpy.typing import NDArray

from lab.base import stats
from lab.base.stats import Interval, Paired, paired

Noise = Callable[[Generator, int], NDArray[np.float64]]
NOISES: dict[str, Noise] = {
    "normal": lambda random, count: random.standard_normal(count),
    "heavy-tailed": lambda random, count: random.standard_t(2, count),
}
ALPHA = 0.05
TRIALS = 400
# How far a seeded count may lie from its mean, in standard deviations of the binomial.
FAR = 4.0

log_ratios = st.lists(st.floats(-1, 1), min_size=1, max_size=12)
changes = st.floats(-0.6, 1.5)
alphas = st.sampled_from([0.05, 0.1, 0.3])


def at_least(change: float) -> Interval:
    return Interval(change, math.inf)


def at_most(change: float) -> Interval:
    return Interval(-math.inf, change)


@settings(max_examples=80)
@given(log_ratios, changes, alphas)
def test_interval_test_and_decision_agree(ratios: list[float], change: float, alpha: float) -> None:
    boots = Paired(tuple(ratios))
    interval = boots.interval(alpha)
    for bound in (at_least(change), at_most(change)):
        inside, outside = boots.p_outside(bound), boots.p_inside(bound)
        assume(min(abs(inside - alpha), abs(outside - alpha)) > 1e-9)
        assert interval.within(bound) == (inside <= alpha)
        assert interval.apart(bound) == (outside <= alpha)
        assert (boots.decides(bound, alpha) is None) == (min(inside, outside) > alpha)


@settings(max_examples=60)
@given(log_ratios, changes, changes)
def test_a_bound_with_two_ends_is_as_hard_as_the_harder_end(
    ratios: list[float], first_end: float, second_end: float
) -> None:
    low, high = sorted((first_end, second_end))
    boots, bound = Paired(tuple(ratios)), Interval(low, high)
    ends = at_least(low), at_most(high)
    assert boots.p_outside(bound) == pytest.approx(max(map(boots.p_outside, ends)))
    # Where it can leave by either end, chance has two ways, but never more than twice the chance.
    easier = min(map(boots.p_inside, ends))
    assert min(1.0, easier) * 0.999 <= boots.p_inside(bound) <= min(1.0, 2 * easier) * 1.001


@settings(max_examples=60)
@given(log_ratios, log_ratios, changes, alphas)
def test_more_rounds_never_change_what_was_decided(
    first: list[float], later: list[float], change: float, alpha: float
) -> None:
    bound = at_least(change)
    decided = Paired(tuple(first)).decides(bound, alpha)
    again = Paired((*first, *later)).decides(bound, alpha)
    assert decided is None or again == decided


@settings(max_examples=40)
@given(log_ratios, log_ratios, alphas)
def test_more_rounds_never_widen_the_interval(
    first: list[float], later: list[float], alpha: float
) -> None:
    narrow = Paired((*first, *later)).interval(alpha)
    wide = Paired(tuple(first)).interval(alpha)
    assert narrow.low >= wide.low - 1e-9
    assert narrow.high <= wide.high + 1e-9


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(1, 9), st.floats(1, 9)), min_size=6, max_size=9))
@example([(1 + number % 3, 1 + number % 7) for number in range(18)])
def test_swapping_the_arms_mirrors_everything(values: list[tuple[float, float]]) -> None:
    before, after = zip(*values, strict=True)
    there, back = paired(before, after), paired(after, before)
    interval, mirrored = there.interval(ALPHA), back.interval(ALPHA)
    assert (1 + back.change) * (1 + there.change) == pytest.approx(1)
    if math.isfinite(interval.high) and mirrored.low > -1:
        assert (1 + mirrored.low) * (1 + interval.high) == pytest.approx(1)
    if math.isfinite(mirrored.high) and interval.low > -1:
        assert (1 + mirrored.high) * (1 + interval.low) == pytest.approx(1)
    assert back.spread == pytest.approx(there.spread)


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
def test_looking_after_every_round_errs_no_more_often_than_is_said(noise: str) -> None:
    """At the bound itself, looked at after each of 24 rounds, by whoever stops at the first yes."""
    random = np.random.default_rng(24)
    wrong = {True: 0, False: 0, None: 0}
    bound = at_least(0.2)
    for _ in range(TRIALS):
        ratios = math.log1p(0.2) + 0.06 * NOISES[noise](random, 24)
        wrong[Paired(tuple(map(float, ratios))).decides(bound, ALPHA)] += 1
    share = ALPHA / 2
    most = TRIALS * share + FAR * math.sqrt(TRIALS * share * (1 - share))
    assert wrong[True] <= most
    assert wrong[False] <= most


def test_evidence_is_what_the_formula_says() -> None:
    """Two rounds, by hand: the mean over the stakes of the products of 2 / (1 + exp(-2 t x))."""
    boots, change = Paired((0.3, 0.1)), 0.1
    bets = []
    for stake in (4, 8, 16, 32):
        factors = [2 / (1 + math.exp(-2 * stake * (x - math.log1p(change)))) for x in (0.3, 0.1)]
        bets.append((factors[0], factors[0] * factors[1]))
    best = max(sum(bet[n] for bet in bets) / len(bets) for n in (0, 1))
    assert boots.p_outside(at_least(change)) == pytest.approx(min(1, 2 / best))


@pytest.mark.parametrize(("alpha", "enough"), [(0.2, 4), (0.05, 6), (0.01, 8), (0.001, 11)])
def test_no_fewer_pairs_decide_anything_than_arithmetic_allows(alpha: float, enough: int) -> None:
    for pairs in range(1, 13):
        boots = Paired((5.0,) * pairs)
        interval = boots.interval(alpha)
        assert math.isfinite(interval.high) == (pairs >= enough)
        assert (boots.decides(at_least(0.2), alpha) is None) == (pairs < enough)


def test_two_questions_need_surer_answers_against_but_not_for() -> None:
    for_it, against = Paired((0.5,) * 6), Paired((-0.5,) * 6)
    bound = at_least(0.2)
    assert for_it.decides(bound, ALPHA, questions=9) is True
    assert against.decides(bound, ALPHA) is False
    assert against.decides(bound, ALPHA, questions=9) is None
    assert Paired((-0.5,) * 10).decides(bound, ALPHA, questions=9) is False


def test_rounds_that_lead_somewhere_say_about_how_many_more_it_takes() -> None:
    assert Paired((0.5,) * 3).more(at_least(0.2), ALPHA) == 3
    assert Paired((-0.5,) * 3).more(at_least(0.2), ALPHA) == 3
    there_and_back = Paired((math.log1p(0.2) + 0.5, math.log1p(0.2) - 0.5))
    assert there_and_back.more(at_least(0.2), ALPHA) == math.inf


def test_the_ends_of_all_changes_are_no_bounds() -> None:
    boots = Paired((0.1,) * 6)
    for everything in (Interval(-1.0, math.inf), Interval(-math.inf, math.inf)):
        assert boots.p_inside(everything) == 1
        assert boots.decides(everything, ALPHA) is True


@pytest.mark.parametrize("low", [-math.inf, -1.0])
def test_nothing_can_change_by_minus_a_hundred_percent(low: float) -> None:
    boots = Paired((-5.0, -6.0, -7.0) * 3)
    assert boots.p_outside(Interval(low, -1.0)) == 1
    assert boots.decides(Interval(low, -1.0), ALPHA) is False


def test_a_change_is_the_geometric_mean_of_the_rounds() -> None:
    boots = paired((100, 200), (200, 200))
    assert boots.change == pytest.approx(math.sqrt(2) - 1)
    assert boots.pairs == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [((), ()), ((1.0,), ()), ((1.0, 2.0), (1.0,)), ((0.0,), (1.0,)), ((1.0,), (-1.0,))],
)
def test_what_is_no_ratio_is_refused(before: tuple[float, ...], after: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"boots|positive"):
        paired(before, after)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hits", "trials", "other_hits", "other_trials"),
    [(0, 5, 0, 5), (1, 9, 0, 9), (3, 3, 0, 3), (4, 8, 1, 20), (2, 8, 2, 8), (5, 5, 5, 5)],
)
def test_failures_in_two_arms_are_compared_as_by_scipy(
    hits: int, trials: int, other_hits: int, other_trials: int
) -> None:
    table = np.array([[hits, trials - hits], [other_hits, other_trials - other_hits]])
    import scipy.stats as scipy_stats  # a second of imports, not for every collection

    expected = scipy_stats.fisher_exact(table, alternative="greater").pvalue
    assert stats.fisher(hits, trials, other_hits, other_trials) == pytest.approx(expected)
    tail = scipy_stats.binom.sf(hits - 1, trials, 0.01)
    assert stats.at_least(hits, trials, 0.01) == pytest.approx(float(tail))


def test_half_of_an_interval_is_students_of_what_groups_differ_by_inside() -> None:
    groups = [[100.0, 101.0, 99.0], [200.0, 202.0, 198.0], [7.0]]
    spread = statistics.stdev(math.log(value) for value in groups[0])
    # Student's t with four degrees of freedom, 97.5 %: 2.776 (any table).
    expected = math.expm1(2.776 * spread * math.sqrt(2 / 3))
    assert stats.half_width(groups, 3, 0.05) == pytest.approx(expected, rel=1e-3)
    assert stats.half_width([[1.0], [2.0]], 3, 0.05) == 0.0
    assert stats.half_width([], 3, 0.05) == 0.0


@pytest.mark.parametrize(
    ("after", "apart"),
    [((11.0, 12.0, 13.0), True), ((12.0, 11.0, 13.0), False), ((11.0, 12.1, 12.9), True)],
)
def test_draws_are_surely_apart_by_students_paired_test(
    after: tuple[float, ...], apart: bool
) -> None:
    assert stats.surely_apart((1.0, 2.0, 3.0), after, 1e-4) == apart
    assert not stats.surely_apart((1.0, 2.0), after[:2], 0.05)
