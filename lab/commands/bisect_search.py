# SPDX-License-Identifier: GPL-2.0-or-later
"""Which commit of a range changed what is measured: the search, whatever measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base.errors import LabError, UsageError
from lab.base.process import CommandError
from lab.build import repository

# The value of a commit; None when it does not build or boot, or cannot be decided.
Measure = Callable[[str], float | None]


@dataclass(frozen=True)
class BisectionStep:
    """A commit that was looked at, and what it gave; None: it could not be measured."""

    commit: str
    value: float | None


@dataclass(frozen=True)
class Bisection:
    """The first bad commit, or several of which one is, because those between were skipped.

    steps are all commits that were looked at, in that order, the two ends first.
    """

    suspects: tuple[str, ...]
    last_good: str
    good: float
    bad: float
    steps: tuple[BisectionStep, ...]


def commits(path: Path, good: str, bad: str) -> list[str]:
    """The commits of a repository from good (first) to bad (last) along first parents, as full ids.

    Raises UsageError when one does not exist or good is no ancestor of bad.
    """
    try:
        with repository.opened(path) as repo:
            ends = [repo.commit(end) for end in (good, bad)]
            between = f"{ends[0]}..{ends[1]}"
            listed = repo.git("rev-list", "--reverse", "--first-parent", between).split()
            descends = repo.git("merge-base", *ends) == ends[0]
    except CommandError as exc:
        raise UsageError(f"git does not know {good}..{bad}", where=str(path)) from exc
    if not listed or not descends:
        raise UsageError(
            f"{good} is no ancestor of {bad}",
            where=str(path),
            hint="give the good commit first, then the bad one",
        )
    return [ends[0], *listed]


def search(line: Sequence[str], measure: Measure) -> Bisection:
    """Find the first of line's commits that is like its last and not like its first.

    A commit is bad when its value is nearer to that of the last commit than to that of the first.
    Raises LabError when the ends cannot be measured or have one value.
    """
    steps: list[BisectionStep] = []

    def look(place: int) -> float | None:
        value = measure(line[place])
        steps.append(BisectionStep(line[place], value))
        return value

    good, bad = require_measured(look(0), look(len(line) - 1))
    if bad == good:
        raise LabError(f"nothing to find: {good:.2f} at both ends")
    low, high = 0, len(line) - 1
    skipped: set[int] = set()
    while (place := _next(low, high, skipped)) is not None:
        value = look(place)
        if value is None:
            skipped.add(place)
        elif is_bad(good, bad, value):
            high = place
        else:
            low = place
    suspects = tuple(line[low + 1 : high + 1])
    return Bisection(suspects, line[low], good, bad, tuple(steps))


def require_measured(good: float | None, bad: float | None) -> tuple[float, float]:
    """The values of both ends. Raises LabError for an end that has none."""
    if good is None or bad is None:
        end = "good" if good is None else "bad"
        raise LabError(f"the {end} end cannot be measured: it does not build or boot")
    return good, bad


def is_bad(good: float, bad: float, value: float) -> bool:
    """Whether a value is nearer to the bad end's than to the good end's."""
    return abs(value - bad) < abs(value - good)


def _next(low: int, high: int, skipped: set[int]) -> int | None:
    """The place between low and high, nearest to the middle, that was not skipped."""
    open_places = [place for place in range(low + 1, high) if place not in skipped]
    if not open_places:
        return None
    return min(open_places, key=lambda place: (abs(2 * place - low - high), place))


def subject(path: Path, commit: str) -> str:
    """A commit of a repository as the kernel quotes it: short id and subject."""
    with repository.opened(path) as repo:
        return repo.git("log", "-1", '--format=%h ("%s")', commit)
