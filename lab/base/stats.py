# SPDX-License-Identifier: GPL-2.0-or-later
"""Statistics of paired boots, and of rates. Pure, and knows nothing of the lab.

Pairs are looked at after every round, for as long as it takes, so what is said of them must be
right whenever somebody stops. It rests on one assumption about the differences x_1, x_2, ... of
the pairs from a centre: that each is as likely to be x as -x, whatever came before. Then, for
every t > 0,

    e_n = prod over i <= n of 2 / (1 + exp(-2 t x_i))

is a fair bet on a higher centre: each factor f has f(x) + f(-x) = 2, so its mean is 1 at that
centre and less when the true one is lower, and the chance that e_n ever reaches 1 / a is at most a
(J. Ville 1939).
That needs neither a normal distribution nor one and the same spread in all rounds. Such bets with
several t are averaged, and are called evidence here: V. Vovk and R. Wang, "Nonparametric e-tests of
symmetry", New England Journal of Statistics in Data Science 2 (2024); A. Ramdas et al., "Admissible
anytime-valid sequential inference must rely on nonnegative martingales", arXiv 2009.03167.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

# What is bet on: t in 1 / log-ratio. Chosen: they find noise of 3 to 25 % best, which is what boots
# of one kernel differ by; another choice would make other verdicts of the same boots.
_STAKES = (4.0, 8.0, 16.0, 32.0)
# Steps in which the ends of an interval are found: they halve it to 1e-12 of itself.
_HALVINGS = 50
# So many times as many rounds are looked ahead. Chosen: nobody waits for more.
_FORESEEN = 20
# Seeds are analysed when there are so many, and more are measured while the verdict is open (an
# interim analysis). Chosen: three are the fewest that tell their spread, and each analysis costs as
# much as all before it.
SEED_COUNTS = (3, 6, 12, 24)
# The widest interval, in log-ratios. Beyond it no round says anything any more.
_WIDEST = 700.0


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

    def log_ratios(self) -> Interval:
        """The same for the logarithm of a ratio, of an interval of relative changes."""
        return Interval(_log(self.low), _log(self.high))

    def changes(self) -> Interval:
        """The same for relative changes, of an interval of log-ratios."""
        return Interval(_change(self.low), _change(self.high))


@dataclass(frozen=True)
class Paired:
    """Paired boots of two arms: one log-ratio log(after / before) a pair, in order of time."""

    log_ratios: tuple[float, ...]

    @property
    def pairs(self) -> int:
        """How many pairs of boots."""
        return len(self.log_ratios)

    @property
    def change(self) -> float:
        """The relative change from before to after, 0.2 for 20 % more: the geometric mean."""
        return math.expm1(statistics.fmean(self.log_ratios))

    @property
    def spread(self) -> float:
        """Standard deviation of the log-ratios, which for small ones is that of the change."""
        return statistics.stdev(self.log_ratios) if self.pairs > 1 else math.inf

    def interval(self, alpha: float) -> Interval:
        """The changes that these pairs leave possible: the true one is among them at any number of
        pairs with the chance 1 - alpha. Infinite for few pairs.
        """
        enough = math.log(2 / alpha)
        low = _last(lambda centre: max(self._above(centre)) >= enough)
        high = -_last(lambda centre: max(self._below(-centre)) >= enough)
        return Interval(low, high).changes()

    def p_outside(self, bound: Interval) -> float:
        """How easily chance alone shows this, now or before, when the true change lies outside
        bound: small means that the change lies inside. For both sides of a bound together.
        """
        return min(1.0, 2 * math.exp(-max(self._inside(bound))))

    def p_inside(self, bound: Interval) -> float:
        """The same when the true change lies inside bound: small means that it lies outside."""
        return min(1.0, 2 * math.exp(-max(self._outside(bound))))

    def decides(self, bound: Interval, alpha: float, questions: int = 1) -> bool | None:
        """Whether the true change lies in bound, as the first pair tells that leaves a doubt of
        alpha at most; None as long as none does. What was decided once stays so.

        Of several questions of which one that lies outside is enough each must be surer of that.
        """
        return self._decision(bound, alpha, questions)[0]

    def more(self, bound: Interval, alpha: float, questions: int = 1) -> float:
        """How many more pairs would decide it, if the same came again and again; infinite for more
        than _FORESEEN times as many.
        """
        repeated = Paired(self.log_ratios * _FORESEEN)
        return repeated._decision(bound, alpha, questions)[1] - self.pairs

    def _decision(self, bound: Interval, alpha: float, questions: int) -> tuple[bool | None, float]:
        """What is decided, and after how many pairs."""
        enough = math.log(2 / alpha)
        sure = zip(self._inside(bound), self._outside(bound), strict=True)
        for pairs, (for_it, against) in enumerate(sure, start=1):
            if for_it >= enough:
                return True, pairs
            if against >= enough + math.log(questions):
                return False, pairs
        return None, math.inf

    def _inside(self, bound: Interval) -> Iterator[float]:
        """The logarithm of the evidence for inside after every pair: of both ends, each at its best
        so far, the weaker one.
        """
        ends = (self._above(_log(bound.low)), self._below(_log(bound.high)))
        best = (itertools.accumulate(end, max) for end in ends)
        return (min(both) for both in zip(*best, strict=True))

    def _outside(self, bound: Interval) -> Iterator[float]:
        """The logarithm of the evidence for outside after every pair, at its best so far: where
        there are two ends to leave by, the mean of two bets.
        """
        ends = []
        if bound.low > -1:
            ends.append(self._below(_log(bound.low)))
        if math.isfinite(bound.high):
            ends.append(self._above(_log(bound.high)))
        if not ends:
            return itertools.repeat(-math.inf, self.pairs)
        means = (_log_mean(both) for both in zip(*ends, strict=True))
        return itertools.accumulate(means, max)

    def _above(self, centre: float) -> Iterator[float]:
        """The logarithm of the evidence that the true log-ratio is above centre, pair by pair."""
        return _evidence([ratio - centre for ratio in self.log_ratios])

    def _below(self, centre: float) -> Iterator[float]:
        return _evidence([centre - ratio for ratio in self.log_ratios])


def _evidence(differences: Sequence[float]) -> Iterator[float]:
    """The logarithm of the mean of all bets on positive differences, after each of them."""
    bets = [[_log_factor(2 * stake * x) for x in differences] for stake in _STAKES]
    products = map(itertools.accumulate, bets)
    return (_log_mean(each) for each in zip(*products, strict=True))


def _log_factor(x: float) -> float:
    """log(2 / (1 + exp(-x))), also of what is no finite number."""
    if x == -math.inf:
        return -math.inf
    return math.log(2) - (math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x)) - x)


def _log_mean(logarithms: Sequence[float]) -> float:
    """The logarithm of the mean of numbers that are given by theirs."""
    largest = max(logarithms)
    if math.isinf(largest):
        return largest
    return largest + math.log(
        math.fsum(math.exp(x - largest) for x in logarithms) / len(logarithms)
    )


def _last(holds: Callable[[float], bool]) -> float:
    """The largest log-ratio of which something holds that holds of all smaller ones."""
    low, high = -_WIDEST, _WIDEST
    if not holds(low):
        return -math.inf
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _log(change: float) -> float:
    """The log-ratio of a change; minus infinity for one by -100 % or less."""
    return math.log1p(change) if change > -1 else -math.inf


def _change(log_ratio: float) -> float:
    return math.expm1(log_ratio) if log_ratio < _WIDEST else math.inf


@dataclass(frozen=True)
class Seeds:
    """What the seeds of a cell measure, in their order.

    They are analysed when there are as many as SEED_COUNTS says. Each analysis has its share of
    alpha, so that together they err no more often (Bonferroni).
    """

    values: tuple[float, ...]

    def interval(self, bound: Interval, alpha: float) -> Interval:
        """The confidence interval of the mean of all seeds, at the level 1 - alpha: by the first
        analysis that has it on one side of bound, or by the last.

        Student's interval, which takes seeds for normal: three are enough, and their spread is
        small beside most bounds. Raises ValueError for fewer.
        """
        counts = [count for count in SEED_COUNTS if count <= len(self.values)]
        if not counts:
            raise ValueError(f"{len(self.values)} seeds are too few")
        for count in counts:
            interval = _student(self.values[:count], alpha / len(SEED_COUNTS))
            if interval.within(bound) or interval.apart(bound):
                break
        return interval


def _student(values: Sequence[float], alpha: float) -> Interval:
    from scipy.special import stdtrit  # takes longer to import than most commands take to run

    mean, error = statistics.fmean(values), statistics.stdev(values)
    off = float(stdtrit(len(values) - 1, 1 - alpha / 2)) * error / math.sqrt(len(values))
    return Interval(mean - off, mean + off)


def half_width(groups: Sequence[Sequence[float]], seeds: int, alpha: float) -> float:
    """Half of the confidence interval of the ratio of two means of so many seeds, as a fraction.

    Each group has what seeds of one kernel measure; their spread is pooled. 0 when no group has
    two seeds.
    """
    from scipy.special import stdtrit

    logs = [
        [math.log(value) for value in group]
        for group in groups
        if len(group) > 1 and min(group) > 0
    ]
    free = sum(len(group) - 1 for group in logs)
    if not free:
        return 0.0
    squares = math.fsum(statistics.variance(group) * (len(group) - 1) for group in logs)
    off = float(stdtrit(free, 1 - alpha / 2)) * math.sqrt(squares / free * 2 / seeds)
    return math.expm1(off)


def surely_apart(before: Sequence[float], after: Sequence[float], alpha: float) -> bool:
    """Whether the means of seeds differ, which are paired in their order: Student's paired test at
    the level alpha. Fewer seeds than the first of SEED_COUNTS tell nothing.
    """
    if len(before) < SEED_COUNTS[0]:
        return False
    differences = [new - old for old, new in zip(before, after, strict=True)]
    return _student(differences, alpha).apart(Interval(0.0, 0.0))


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
