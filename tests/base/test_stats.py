# SPDX-License-Identifier: GPL-2.0-or-later
"""Paired boots: the interval, the test that agrees with it, and how often both are wrong."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest
import scipy.stats
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

log_ratios = st.lists(st.floats(-1, 1), min_size=6, max_size=8)
changes = st.floats(-0.6, 1.5)
alphas = st.sampled_from([0.05, 0.1, 0.3])


def at_least(change: float) -> Interval:
    return Interval(change, math.inf)


def at_most(change: float) -> Interval:
    return Interval(-math.inf, change)


def sign_flips(differences: Sequence[float]) -> int:
    """How many of all sign flips of the differences have at least their sum."""
    own = math.fsum(differences)
    return sum(
        math.fsum(sign * d for sign, d in zip(signs, differences, strict=True)) >= own - 1e-12
        for signs in itertools.product((1, -1), repeat=len(differences))
    )


def clear_of_ties(ratios: Sequence[float], change: float) -> bool:
    """Whether rounding cannot decide on which side of change a mean of some boots lies."""
    return all(
        abs(math.fsum(chosen) / size - math.log1p(change)) > 1e-9
        for size in range(1, len(ratios) + 1)
        for chosen in itertools.combinations(ratios, size)
    )


@settings(max_examples=40)
@given(log_ratios, changes)
def test_the_p_value_is_that_of_the_sign_flip_test(ratios: list[float], change: float) -> None:
    above = [ratio - math.log1p(change) for ratio in ratios]
    assume(clear_of_ties(ratios, change))
    boots, flips = Paired(tuple(ratios)), 2 ** len(ratios)
    assert boots.p_outside(at_least(change)) == sign_flips(above) / flips
    assert boots.p_outside(at_most(change)) == sign_flips([-d for d in above]) / flips


@settings(max_examples=80)
@given(log_ratios, changes, alphas)
def test_the_interval_lies_within_a_bound_exactly_when_the_test_says_so(
    ratios: list[float], change: float, alpha: float
) -> None:
    assume(clear_of_ties(ratios, change))
    boots = Paired(tuple(ratios))
    interval = boots.interval(alpha)
    for bound in (at_least(change), at_most(change)):
        assert interval.within(bound) == (boots.p_outside(bound) <= alpha / 2)
        assert interval.apart(bound) == (boots.p_inside(bound) <= alpha / 2)


@settings(max_examples=60)
@given(log_ratios, changes, changes, alphas)
def test_a_bound_with_two_ends_is_as_hard_as_the_harder_end(
    ratios: list[float], one: float, other: float, alpha: float
) -> None:
    low, high = sorted((one, other))
    boots, bound = Paired(tuple(ratios)), Interval(low, high)
    worse = max(boots.p_outside(at_least(low)), boots.p_outside(at_most(high)))
    assert boots.p_outside(bound) == worse
    easier = min(boots.p_inside(at_least(low)), boots.p_inside(at_most(high)))
    assert boots.p_inside(bound) == min(1.0, 2 * easier)
    assert not (boots.p_outside(bound) <= alpha / 2 and boots.p_inside(bound) <= alpha / 2)


@settings(max_examples=60)
@given(log_ratios, st.randoms())
def test_the_order_of_the_rounds_does_not_matter(ratios: list[float], random: Random) -> None:
    shuffled = list(ratios)
    random.shuffle(shuffled)
    one, other = (Paired(tuple(r)).interval(ALPHA) for r in (ratios, shuffled))
    assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=1e-12)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(1, 9), st.floats(1, 9)), min_size=6, max_size=9))
@example([(1 + number % 3, 1 + number % 7) for number in range(18)])
def test_swapping_the_arms_mirrors_everything(values: list[tuple[float, float]]) -> None:
    before, after = zip(*values, strict=True)
    there, back = paired(before, after), paired(after, before)
    own, mirrored = there.interval(ALPHA), back.interval(ALPHA)
    assert (1 + back.change) * (1 + there.change) == pytest.approx(1)
    assert (1 + mirrored.low) * (1 + own.high) == pytest.approx(1)
    assert (1 + mirrored.high) * (1 + own.low) == pytest.approx(1)
    assert back.spread == pytest.approx(there.spread)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("pairs", [6, 8, 12])
def test_intervals_miss_and_tests_err_as_often_as_they_say(pairs: int, noise: str) -> None:
    random = np.random.default_rng(pairs)
    truth = 0.2
    missed, for_it, against = 0, 0, 0
    for _ in range(TRIALS):
        ratios = math.log1p(truth) + 0.02 * NOISES[noise](random, pairs)
        boots = Paired(tuple(map(float, ratios)))
        interval = boots.interval(ALPHA)
        missed += not interval.low <= truth <= interval.high
        for_it += boots.p_outside(at_least(truth)) <= ALPHA
        against += boots.p_inside(at_least(truth)) <= ALPHA
    # Only shares that are multiples of 1 / 2^pairs are possible: the next one below is exact.
    steps = 2**pairs
    exact = {"missed": 2 * int(ALPHA / 2 * steps) / steps, "one-sided": int(ALPHA * steps) / steps}
    for count, share in (
        (missed, exact["missed"]),
        (for_it, exact["one-sided"]),
        (against, exact["one-sided"]),
    ):
        deviation = math.sqrt(TRIALS * share * (1 - share))
        assert abs(count - TRIALS * share) <= FAR * deviation
        assert share <= ALPHA


def alternating(pairs: int, spread: float, centre: float = 0.0) -> Paired:
    """An even number of pairs with exactly this standard deviation around the centre."""
    step = spread * math.sqrt((pairs - 1) / pairs)
    return Paired(tuple(centre + step * (-1) ** number for number in range(pairs)))


def test_twelve_pairs_with_two_percent_of_noise_show_a_change_of_two_percent() -> None:
    boots = alternating(12, 0.02)
    assert boots.spread == pytest.approx(0.02)
    # (t(0.995) + t(0.8)) * 0.02 / sqrt(12) with 11 degrees of freedom: (3.106 + 0.876) * 0.00577
    assert boots.detectable(0.01) == pytest.approx(math.expm1(0.02299), rel=1e-3)


def test_what_is_detectable_shrinks_with_more_pairs_and_less_noise() -> None:
    found = [alternating(pairs, 0.02).detectable(ALPHA) for pairs in (6, 8, 12, 24)]
    assert found == sorted(found, reverse=True)
    assert alternating(8, 0.01).detectable(ALPHA) < alternating(8, 0.02).detectable(ALPHA)


@pytest.mark.parametrize(("alpha", "enough"), [(0.2, 4), (0.05, 6), (0.01, 8), (0.001, 11)])
def test_too_few_pairs_have_an_infinite_interval_and_detect_nothing(
    alpha: float, enough: int
) -> None:
    for pairs in range(1, 13):
        boots = Paired((0.5,) * pairs)
        finite = math.isfinite(boots.interval(alpha).high)
        assert finite == (pairs >= enough)
        assert math.isfinite(boots.detectable(alpha)) == finite
        assert finite or not boots.interval(alpha).within(at_least(-0.99))


def test_boots_that_agree_leave_no_doubt() -> None:
    interval = Paired((math.log(1.4),) * 8).interval(ALPHA)
    assert (interval.low, interval.high) == pytest.approx((0.4, 0.4))


def test_a_spread_beyond_all_numbers_detects_nothing() -> None:
    boots = Paired((-700.0, 700.0, -700.0, 700.0, -700.0, 700.0))
    assert boots.detectable(ALPHA) == math.inf


def test_the_ends_of_all_changes_are_no_bounds() -> None:
    boots = Paired((0.1, 0.2, 0.3))
    everything = Interval(-1.0, math.inf)
    assert (boots.p_outside(everything), boots.p_inside(everything)) == (0, 1)
    assert boots.p_outside(Interval(-math.inf, math.inf)) == 0
    assert boots.p_inside(Interval(-math.inf, math.inf)) == 1


@pytest.mark.parametrize("low", [-math.inf, -1.0])
def test_nothing_can_change_by_minus_a_hundred_percent(low: float) -> None:
    boots = Paired((-5.0, -6.0, -7.0))
    assert boots.p_outside(Interval(low, -1.0)) == 1
    assert boots.p_inside(Interval(-math.inf, -1.0)) == 0


def test_a_change_beyond_all_numbers_is_never_reached() -> None:
    boots = Paired((5.0, 6.0, 7.0))
    assert boots.p_outside(Interval(math.inf, math.inf)) == 1
    assert boots.p_inside(Interval(math.inf, math.inf)) == 0


def test_p_values_are_never_above_one_and_never_zero_for_a_real_bound() -> None:
    boots = Paired((0.1, 0.1, 0.1))
    for change in (-0.5, 0.0, 0.1, 5.0):
        for bound in (at_least(change), at_most(change), Interval(change, change)):
            assert 1 / 8 <= boots.p_outside(bound) <= 1
            assert 1 / 8 <= boots.p_inside(bound) <= 1


def test_more_pairs_than_subsets_can_be_listed_give_nearly_the_exact_interval() -> None:
    random = np.random.default_rng(17)
    ratios = 0.1 + 0.02 * random.standard_normal(17)
    boots = Paired(tuple(map(float, ratios)))
    means = np.zeros(1)
    sizes = np.zeros(1)
    for ratio in ratios:
        means, sizes = np.append(means, means + ratio), np.append(sizes, sizes + 1)
    exact = np.expm1(np.sort(means[1:] / sizes[1:]))
    interval = boots.interval(ALPHA)
    assert boots.interval(ALPHA) == Paired(boots.log_ratios).interval(ALPHA)
    # The share of the 2^16 chosen subsets below a value is off by its binomial deviation.
    share = ALPHA / 2
    off = FAR * math.sqrt(share * (1 - share) / 2**16)
    for end, tail in ((interval.low, share), (interval.high, 1 - share)):
        at = np.searchsorted(exact, end) / len(exact)
        assert abs(at - tail) <= off


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


@pytest.mark.parametrize(
    ("hits", "trials", "other_hits", "other_trials"),
    [(0, 5, 0, 5), (1, 9, 0, 9), (3, 3, 0, 3), (4, 8, 1, 20), (2, 8, 2, 8), (5, 5, 5, 5)],
)
def test_failures_in_two_arms_are_compared_as_by_scipy(
    hits: int, trials: int, other_hits: int, other_trials: int
) -> None:
    table = np.array([[hits, trials - hits], [other_hits, other_trials - other_hits]])
    expected = scipy.stats.fisher_exact(table, alternative="greater").pvalue
    assert stats.fisher(hits, trials, other_hits, other_trials) == pytest.approx(expected)
    tail = scipy.stats.binom.sf(hits - 1, trials, 0.01)
    assert stats.at_least(hits, trials, 0.01) == pytest.approx(float(tail))
