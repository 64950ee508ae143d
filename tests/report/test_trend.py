# SPDX-License-Identifier: GPL-2.0-or-later
"""Nights together: the planted steps are found and shown, and nothing else is."""

from __future__ import annotations

import re

import nights
import pytest
from pages import Page

from lab.report import html, tables, trend
from lab.report.trend import BranchTrend, Jump, Night

EVIL = '</text><script>alert(1)</script>"&\x1b[31m'


@pytest.fixture(scope="module")
def branch_trend() -> BranchTrend:
    (branch,) = trend.of({"block-next": nights.history(1)}, 0.001)
    return branch


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_of_twenty_thousand_values_the_planted_steps_are_found_and_no_other(seed: int) -> None:
    history = nights.history(seed)
    names = list(history[0].values)
    (branch,) = trend.of({"block-next": history}, 0.001)
    steps = {cell.name: cell.jumps for cell in branch.cells if cell.jumps}
    assert sorted(steps) == sorted(names[cell] for cell, _, _ in nights.STEPS)
    for cell, night, change in nights.STEPS:
        (jump,) = steps[names[cell]]
        assert abs(jump.night - night) <= 1
        assert jump.change == pytest.approx(change, abs=0.001)


@pytest.mark.slow
def test_noise_alone_has_no_step() -> None:
    for seed in range(10, 13):
        (branch,) = trend.of({"x": nights.history(seed, ())}, 0.0)
        assert branch.jumps == []


def test_the_newest_step_comes_first_and_the_largest_cell(branch_trend: BranchTrend) -> None:
    places = [jump.night for _, jump in branch_trend.jumps]
    assert places == sorted(places, reverse=True)
    assert branch_trend.cells[0].jumps[0].change == pytest.approx(-0.008, abs=0.001)


def test_the_terminal_names_branch_change_point_and_commits(branch_trend: BranchTrend) -> None:
    branches, steps = map(tables.text, trend.tables([branch_trend]))
    assert "block-next" in branches
    cell, jump = branch_trend.jumps[0]
    first, last = (branch_trend.nights[place].commit[:12] for place in (jump.last, jump.night))
    assert f"{first}..{last}" in steps
    command = f"which commit: lab bisect {first} {last} --cell '{cell.name}' --repo /nowhere"
    assert command in " ".join(steps.split())


def test_nights_without_a_value_are_left_out_and_places_stay() -> None:
    history = nights.history(1)
    name = [*history[0].values][nights.STEPS[0][0]]
    holes = [night for place, night in enumerate(history) if place % 3]
    empty = Night("git:/x@0", 0.0, True, "", {})
    mixed = [night for pair in zip(holes, [empty] * len(holes), strict=True) for night in pair]
    (branch,) = trend.of({"x": mixed}, 0.001)
    (cell,) = (cell for cell in branch.cells if cell.name == name)
    (jump,) = cell.jumps
    assert name in mixed[jump.night].values
    assert name in mixed[jump.last].values
    assert jump.last < jump.night


def test_the_page_has_a_plot_for_each_cell_and_a_line_at_each_step(
    branch_trend: BranchTrend,
) -> None:
    page = Page(html.trend_page([branch_trend], 0.001))
    assert not page.faults
    assert page.tags.count("svg") == nights.CELLS
    assert page.source.count('class="step up"') == 2
    assert page.source.count('class="step down"') == 1
    assert "script" not in page.tags
    assert len(page.source) < 1_000_000


def test_the_axis_shows_a_tenth_of_a_per_cent(branch_trend: BranchTrend) -> None:
    cell = branch_trend.cells[-1]
    quiet = trend.CellTrend("quiet", tuple(100.0 for _ in branch_trend.nights), ())
    assert ">+0.1 %<" in html._trend(branch_trend, quiet)
    ticks = re.findall(r">([+-]?[\d.]+) %<", html._trend(branch_trend, cell))
    assert 2 <= len(ticks) <= 6


def test_what_others_named_does_nothing_in_the_page(branch_trend: BranchTrend) -> None:
    night = Night(f"git:/x@{EVIL}", 0.0, False, EVIL, {EVIL: 1.0})
    cell = trend.CellTrend(EVIL, (1.0, 2.0), (Jump(1, 0, 1.0, (EVIL,)),))
    page = html.trend_page([BranchTrend(EVIL, (night, night), (cell,))], 0.001)
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\\x1b" in page
