# SPDX-License-Identifier: GPL-2.0-or-later
"""Statistics of paired boots, and of rates. Pure, and knows nothing of the lab.

For pairs everything rests on one fact about differences d_1..d_n that are symmetric around their
centre c: of the 2^n - 1 means of their non-empty subsets, each is below c with the same chance
(J. A. Hartigan, "Using subsample values as typical values", JASA 64, 1969). Counting the subset
means on one side of a value gives the p-value of the sign-flip permutation test at that value;
cutting off a share of them at each end gives the confidence interval that agrees with the test.
Both are exact at any n, without assuming a normal distribution.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # numpy and scipy take longer to import than most commands take to run
    import numpy as np
    from numpy.typing import NDArray

# Up to this many pairs every subset is looked at, beyond it a fixed random choice of as many as 16
# pairs have. Chosen: 65,535 means take milliseconds, and p-values down to 1 in 65,536 are enough.
_ALL_SUBSETS = 16
_CHOSEN_SUBSETS = 1 << _ALL_SUBSETS
# The chance that a change of the detectable size is shown. Chosen: it is the usual one.
_POWER = 0.8
# exp() of more than 709.8 is no floating-point number.
_LARGEST = 700.0


@dataclass(frozen=True)
class Interval:
    """From low to high, both included."""

    low: float
    high: float

    def within(self, other: Interval) -> bool:
        """Whether all of it lies in other."""
        return other.low <= self.low and self.high <= other.high

    def apart(self, other: Interval) -> bool:
        """Whether none of it lies in other."""
        return self.high < other.low or self.low > other.high


@dataclass(frozen=True)
class Paired:
    """Paired boots of two arms: one log-ratio log(after / before) a pair."""

    log_ratios: tuple[float, ...]

    @property
    def pairs(self) -> int:
        """How many pairs of boots."""
        return len(self.log_ratios)

    @property
    def change(self) -> float:
        """The relative change from before to after, 0.2 for 20 % more: the geometric mean."""
        return math.expm1(math.fsum(self.log_ratios) / self.pairs)

    @property
    def spread(self) -> float:
        """Standard deviation of the log-ratios, which for small ones is that of the change."""
        if self.pairs < 2:
            return math.inf
        mean = math.fsum(self.log_ratios) / self.pairs
        squares = math.fsum((ratio - mean) ** 2 for ratio in self.log_ratios)
        return math.sqrt(squares / (self.pairs - 1))

    def interval(self, alpha: float) -> Interval:
        """The confidence interval of the change at the level 1 - alpha; infinite for few pairs."""
        means, cut = self._subset_means, self._cut(alpha)
        if cut == 0:
            return Interval(-1.0, math.inf)
        return Interval(math.expm1(means[cut - 1]), math.expm1(means[-cut]))

    def p_outside(self, bound: Interval) -> float:
        """How easily chance alone shows this when the true change lies outside bound.

        One-sided at each end of bound: small means that the change lies inside.
        """
        return max(self._p_below(bound.low), self._p_above(bound.high))

    def p_inside(self, bound: Interval) -> float:
        """How easily chance alone shows this when the true change lies inside bound.

        Small means that the change lies outside. With two ends to leave by, chance has two ways.
        """
        ends = []
        if bound.low > -1:
            ends.append(self._p_above(bound.low))
        if math.isfinite(bound.high):
            ends.append(self._p_below(bound.high))
        return min(1.0, len(ends) * min(ends)) if ends else 1.0

    def detectable(self, alpha: float) -> float:
        """The smallest relative change that this many pairs with this spread would show.

        (t(1 - alpha/2) + t(_POWER)) * sd / sqrt(n), Student's t with n - 1 degrees of freedom;
        infinite for too few pairs to give an interval.
        """
        if self._cut(alpha) == 0:
            return math.inf
        from scipy.special import stdtrit

        freedom = self.pairs - 1
        quantiles = stdtrit(freedom, 1 - alpha / 2) + stdtrit(freedom, _POWER)
        log_ratio = float(quantiles) * self.spread / math.sqrt(self.pairs)
        return math.expm1(log_ratio) if log_ratio < _LARGEST else math.inf

    def _cut(self, alpha: float) -> int:
        """How many subset means lie beyond each end of the interval, the end itself included."""
        return int(alpha / 2 * (len(self._subset_means) + 1))

    def _p_below(self, change: float) -> float:
        """The p-value of the observation if the true change were at or below change."""
        if change <= -1:
            return 0.0
        shift = math.log1p(change) if math.isfinite(change) else math.inf
        means = self._subset_means
        return (1 + bisect_right(means, shift)) / (len(means) + 1)

    def _p_above(self, change: float) -> float:
        """The p-value of the observation if the true change were at or above change."""
        if change <= -1:
            return 1.0
        if math.isinf(change):
            return 0.0
        means = self._subset_means
        below = bisect_left(means, math.log1p(change))
        return (1 + len(means) - below) / (len(means) + 1)

    @cached_property
    def _subset_means(self) -> NDArray[np.float64]:
        """The means of the non-empty subsets of the log-ratios, ascending."""
        import numpy as np

        count = self.pairs
        if count <= _ALL_SUBSETS:
            numbers = np.arange(1, 1 << count)
            chosen = ((numbers[:, None] >> np.arange(count)) & 1).astype(np.float64)
        else:
            random = np.random.default_rng(count)
            chosen = random.integers(0, 2, (_CHOSEN_SUBSETS - 1, count)).astype(np.float64)
            chosen = chosen[chosen.any(axis=1)]
        means: NDArray[np.float64] = chosen @ np.array(self.log_ratios) / chosen.sum(axis=1)
        return np.sort(means)


def paired(before: Sequence[float], after: Sequence[float]) -> Paired:
    """Pair the boots of two arms, round by round.

    Raises ValueError for sequences of different length, none, or values that are not positive.
    """
    if len(before) != len(after) or not before:
        raise ValueError(f"{len(before)} boots before, {len(after)} after")
    if min(*before, *after) <= 0:
        raise ValueError("a ratio needs positive values")
    return Paired(tuple(math.log(b / a) for a, b in zip(before, after, strict=True)))


def fisher(hits: int, trials: int, other_hits: int, other_trials: int) -> float:
    """The chance that so many or more of all hits are in the first trials, if both hit as often.

    R. A. Fisher's exact test, one-sided: the upper tail of the hypergeometric distribution.
    """
    all_hits = hits + other_hits
    ways = (
        math.comb(trials, n) * math.comb(other_trials, all_hits - n)
        for n in range(hits, min(all_hits, trials) + 1)
    )
    return sum(ways) / math.comb(trials + other_trials, all_hits)


def at_least(hits: int, trials: int, rate: float) -> float:
    """The chance of so many hits or more at a rate: the upper tail of the binomial distribution."""
    return math.fsum(
        math.comb(trials, n) * rate**n * (1 - rate) ** (trials - n) for n in range(hits, trials + 1)
    )
