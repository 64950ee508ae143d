# SPDX-License-Identifier: GPL-2.0-or-later
"""Change points of a series of numbers: where it lies higher or lower from some place on. Pure.

Every place that could divide the series is tried: are the values after it larger, or smaller, than
those before? That is the rank test of H. B. Mann and D. R. Whitney, "On a test of whether one of
two random variables is stochastically larger than the other", Annals of Mathematical Statistics 18
(1947), which asks nothing of the noise but that it has no order. Its chance is exact where all
values of one side exceed all of the other (2 / C(n, k)), and else from its normal approximation,
which in the tails that matter here says more than is so. The chance is asked to be so small that
even one of all places of all series that are looked at is called a change point without being one
with the given probability at most (Bonferroni). The surest place divides the series, and its parts
are looked at again (binary segmentation; A. J. Scott and M. Knott, Biometrics 30, 1974). A level
that comes and goes hides in the whole: so stretches of it are looked at, too, each half as long as
those of the layer before and overlapping by half (S. Kovacs et al., "Seeded binary segmentation",
Biometrika 110, 2023).

A kernel that does not change costs the same to the last digit: values that follow each other and
are equal are one observation, however many nights it was.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# In fewer observations no order is sure enough.
_SHORTEST = 20


@dataclass(frozen=True)
class ChangePoint:
    """Where a series changes its level: the first place behind it, and the medians on both sides.

    The medians are those of the part between the change points before and behind.
    """

    place: int
    before: float
    after: float

    @property
    def change(self) -> float:
        """The change as a fraction; infinite from nothing to something."""
        return self.after / self.before - 1 if self.before else math.inf


def find(
    values: Sequence[float], least: float, error: float = 0.01, series: int = 1
) -> list[ChangePoint]:
    """The change points of positive numbers, in order; changes smaller than least do not count.

    least is a fraction. error is the chance that a series without change points, or any of as many
    series as series says, gets one.
    """
    seen = [place for place, value in enumerate(values) if not place or value != values[place - 1]]
    distinct = [values[place] for place in seen]
    if not distinct:
        return []
    stretches = _stretches(len(distinct))
    places = sum(end - start - 1 for start, end in stretches)
    allowed = math.log(error / (series * max(1, places)))
    surest = {(start, end): _surest(distinct, start, end) for start, end in stretches}

    def divide(start: int, end: int) -> Iterator[int]:
        """The places where a part of the series is divided, and its parts are."""
        inside = [best for (a, b), best in surest.items() if start <= a and b <= end]
        chance, cut = min([_surest(distinct, start, end), *inside])
        if chance <= allowed and start < cut < end:
            yield cut
            yield from divide(start, cut)
            yield from divide(cut, end)

    cuts = sorted(divide(0, len(distinct)))
    ends = [0, *cuts, len(distinct)]
    levels = [statistics.median(distinct[a:b]) for a, b in itertools.pairwise(ends)]
    return [
        ChangePoint(seen[cut], before, after)
        for cut, (before, after) in zip(cuts, itertools.pairwise(levels), strict=True)
        if _size(before, after) >= least
    ]


def _surest(values: Sequence[float], start: int, end: int) -> tuple[float, int]:
    """The logarithm of the chance of the surest place to divide a stretch, and that place."""
    sums = itertools.accumulate(_ranks(values[start:end]))
    chances = (
        (_chance(ranks, cut, end - start), start + cut)
        for cut, ranks in zip(range(1, end - start), sums, strict=False)
    )
    return min(chances, default=(0.0, start))


def _stretches(count: int) -> list[tuple[int, int]]:
    """All of a series, and its layers of ever shorter stretches."""
    stretches, length = [(0, count)], count
    while (length := length // 2) >= _SHORTEST:
        starts = range(0, count - length, max(1, length // 2))
        stretches += [(start, start + length) for start in (*starts, count - length)]
    return stretches


def _size(before: float, after: float) -> float:
    """How much a level changes, as a fraction, up or down alike."""
    return math.expm1(abs(math.log(after / before))) if before > 0 and after > 0 else math.inf


def _ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value from 1; equal ones share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    first = 0
    for _, group in itertools.groupby(order, key=values.__getitem__):
        members = [*group]
        for member in members:
            ranks[member] = first + (len(members) + 1) / 2
        first += len(members)
    return ranks


def _chance(ranks: float, cut: int, count: int) -> float:
    """The logarithm of the chance that so many of count values have so small a sum of ranks, or
    so large a one, when their order says nothing.
    """
    least = cut * (cut + 1) / 2
    above = ranks - least  # how often one before the cut exceeds one behind it
    most = cut * (count - cut)
    if above in (0, most):
        return math.log(2) - _log_choose(count, cut)
    sigma = math.sqrt(most * (count + 1) / 12)
    z = max(0.0, (abs(above - most / 2) - 0.5) / sigma)
    return math.log(max(5e-324, math.erfc(z / math.sqrt(2))))


def _log_choose(count: int, of: int) -> float:
    return math.lgamma(count + 1) - math.lgamma(of + 1) - math.lgamma(count - of + 1)
