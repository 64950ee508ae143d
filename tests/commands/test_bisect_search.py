# SPDX-License-Identifier: GPL-2.0-or-later
"""Bisection: the right commit whatever builds, in as few steps as there can be."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.errors import LabError, UsageError
from lab.base.process import run
from lab.commands import bisect_search


def line(length: int) -> list[str]:
    return [f"c{number}" for number in range(length)]


@given(st.integers(2, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1))))
def test_the_first_bad_commit_is_found_in_logarithmic_time(case: tuple[int, int]) -> None:
    length, culprit = case
    measured = []

    def measure(commit: str) -> float:
        measured.append(commit)
        return 105.0 if int(commit[1:]) >= culprit else 100.0

    result = bisect_search.search(line(length), measure)
    assert result.suspects == (f"c{culprit}",)
    assert result.last_good == f"c{culprit - 1}"
    assert len(measured) == len(set(measured)) == len(result.steps)
    assert len(measured) <= 2 + math.ceil(math.log2(length - 1)) + 1


@given(
    st.integers(3, 40).flatmap(
        lambda n: st.tuples(st.just(n), st.integers(1, n - 1), st.sets(st.integers(1, n - 2)))
    )
)
def test_commits_that_cannot_be_measured_are_skipped(case: tuple[int, int, set[int]]) -> None:
    length, culprit, broken = case

    def measure(commit: str) -> float | None:
        place = int(commit[1:])
        return None if place in broken else (105.0 if place >= culprit else 100.0)

    result = bisect_search.search(line(length), measure)
    assert f"c{culprit}" in result.suspects
    # What is left open are the commits that could not be measured, and the first bad one.
    assert {int(name[1:]) for name in result.suspects[:-1]} <= broken


def test_small_differences_of_harmless_commits_mislead_nobody() -> None:
    values = [100.0, 100.02, 99.97, 100.01, 100.9, 100.88, 100.93]
    result = bisect_search.search(line(7), lambda commit: values[int(commit[1:])])
    assert result.suspects == ("c4",)


def test_bad_may_be_less() -> None:
    result = bisect_search.search(line(9), lambda commit: 9.0 if int(commit[1:]) < 3 else 0.0)
    assert result.suspects == ("c3",)


def test_ends_that_do_not_differ_are_refused() -> None:
    with pytest.raises(LabError, match="nothing to find"):
        bisect_search.search(line(9), lambda commit: 100.0)


@pytest.mark.parametrize("end", ["c0", "c8"])
def test_an_end_that_cannot_be_measured_is_said(end: str) -> None:
    with pytest.raises(LabError, match="end cannot be measured"):
        bisect_search.search(line(9), lambda commit: None if commit == end else 1.0)


def test_commits_of_a_range_come_in_order(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    run(["git", "init", "-q", str(tmp_path)])
    for number in range(4):
        run([*git, "commit", "-q", "--allow-empty", "-m", f"step {number}"])
    commits = bisect_search.commits(tmp_path, "HEAD~3", "HEAD")
    assert [bisect_search.subject(tmp_path, commit).split(" ", 1)[1] for commit in commits] == [
        f'("step {number}")' for number in range(4)
    ]
    for good, bad in (("HEAD", "HEAD~1"), ("HEAD", "HEAD"), ("nothing", "HEAD")):
        with pytest.raises(UsageError):
            bisect_search.commits(tmp_path, good, bad)
