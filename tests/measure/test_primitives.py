# SPDX-License-Identifier: GPL-2.0-or-later
"""What the benchmark of cache lines printed, and which repetitions count."""

from __future__ import annotations

import pytest

from lab.base.errors import LabError
from lab.measure.primitives import (
    Primitive,
    Repetition,
    at_each_distance,
    parsed,
    thread_counts,
    undisturbed,
)

ADD = Primitive("add", 0, 2)


def test_a_line_is_a_repetition() -> None:
    text = "add\t0\t2\t20.5\t60.0\t61.0\nadd\t0\t2\t21.5\t60.0\t62.0\ncycle\t0\t1\t0.4\t0\t0\n"
    assert parsed(text) == {
        ADD: [Repetition(20.5, 60.0, 61.0), Repetition(21.5, 60.0, 62.0)],
        Primitive("cycle", 0, 1): [Repetition(0.4)],
    }


@pytest.mark.parametrize("text", ["add\t0\t2", "add\tx\t2\t1\t0\t0", "killed"])
def test_anything_else_is_refused_by_its_words(text: str) -> None:
    with pytest.raises(LabError, match=text.split("\t")[0]):
        parsed(text)


def test_a_repetition_whose_cpus_were_moved_does_not_count() -> None:
    near, moved, far = Repetition(20, 30, 31), Repetition(40, 30, 160), Repetition(90, 160, 161)
    measured = {ADD: [near, near, near, moved, far]}
    assert undisturbed(measured) == {ADD: [near, near, near]}


def test_what_one_thread_does_has_no_distance() -> None:
    alone = {Primitive("cycle", 0, 1): [Repetition(0.4), Repetition(0.5)]}
    assert undisturbed(alone) == alone


@pytest.mark.parametrize(
    ("cpus", "counts"), [(2, (1, 2)), (6, (1, 2, 4, 6)), (16, (1, 2, 4, 8, 16))]
)
def test_thread_counts_double_up_to_all_cpus(cpus: int, counts: tuple[int, ...]) -> None:
    assert thread_counts(cpus) == counts


def test_as_many_repetitions_near_as_far_are_two_distances() -> None:
    near, far = [Repetition(1.0, 28.0, 28.0)] * 2, [Repetition(5.0, 158.0, 158.0)] * 2
    moved = Repetition(3.0, 28.0, 158.0)
    assert at_each_distance({ADD: [*near, *far, moved]}) == [{ADD: near}, {ADD: far}]
