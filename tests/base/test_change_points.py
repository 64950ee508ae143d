# SPDX-License-Identifier: GPL-2.0-or-later
"""Change points are found where they are, and none where the noise has no order."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base import change_points


def noisy(levels: list[tuple[int, float]], seed: int, spread: float = 0.0004) -> list[float]:
    """So many values around each level."""
    chance = random.Random(seed)
    return [level * (1 + chance.gauss(0, spread)) for count, level in levels for _ in range(count)]


@pytest.mark.parametrize("place", [5, 20, 100, 180, 195])
@pytest.mark.parametrize("change", [0.0025, -0.004, 0.5])
def test_a_change_point_is_found_where_it_is(place: int, change: float) -> None:
    values = noisy([(place, 3452.0), (200 - place, 3452.0 * (1 + change))], place)
    (change_point,) = change_points.find(values, 0.001, series=100)
    assert change_point.place == place
    assert change_point.change == pytest.approx(change, abs=0.001)


def test_there_and_back_are_two_change_points() -> None:
    points = change_points.find(
        noisy([(60, 100.0), (30, 101.0), (110, 100.0)], 1), 0.001, series=100
    )
    assert [change_point.place for change_point in points] == [60, 90]
    assert [round(change_point.change, 3) for change_point in points] == [0.01, -0.01]


def test_a_slow_climb_is_change_points_and_a_night_alone_is_none() -> None:
    values = noisy([(200, 100.0)], 2)
    values[77] *= 1.05
    assert change_points.find(values, 0.001, series=100) == []


@pytest.mark.slow
def test_noise_has_no_change_points() -> None:
    """At most one of a hundred collections of a hundred series may have one; none of these has."""
    for seed in range(200):
        assert change_points.find(noisy([(200, 100.0)], seed, 0.004), 0.0, series=100) == []


def test_the_error_is_what_was_asked_for() -> None:
    """Without Bonferroni's caution: with an error of a half some are called, and not over half."""
    called = sum(
        bool(change_points.find(noisy([(60, 100.0)], seed), 0.0, error=0.5)) for seed in range(300)
    )
    assert 0 < called <= 150


def test_values_that_do_not_change_are_one_observation() -> None:
    """Two kernels, thirty nights each: whether the second costs more, or is built otherwise, one
    change alone does not say. What changed nothing in between does not make it surer.
    """
    assert change_points.find([100.0] * 30 + [101.0] * 30, 0.001) == []
    many = noisy([(8, 100.0), (8, 101.0)], 3)
    repeated = [value for value in many for _ in range(5)]
    (change_point,) = change_points.find(many, 0.001)
    (change_point_of_repeated,) = change_points.find(repeated, 0.001)
    assert change_point_of_repeated.place == 5 * change_point.place == 40


def test_what_is_small_is_none() -> None:
    assert change_points.find(noisy([(100, 100.0), (100, 100.05)], 4, 0.0001), 0.001) == []
    assert change_points.find(noisy([(100, 100.0), (100, 100.05)], 4, 0.0001), 0.0004)


@given(st.lists(st.floats(0.0, 1e12), max_size=60), st.floats(0.0, 1.0))
def test_whatever_comes_steps_divide_it_in_order(values: list[float], least: float) -> None:
    places = [change_point.place for change_point in change_points.find(values, least)]
    assert places == sorted(set(places))
    assert all(0 < place < len(values) for place in places)
