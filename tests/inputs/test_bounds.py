# SPDX-License-Identifier: GPL-2.0-or-later
"""Bounds: what is written is what is read, and what is no bound is refused with the reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.stats import Interval
from lab.inputs.bounds import Bound, half_of


@pytest.mark.parametrize(
    ("text", "bound", "shown"),
    [
        (">= +20%", Bound(0.2, None, "%"), ">= +20%"),
        ("<= -75%", Bound(None, -0.75, "%"), "<= -75%"),
        ("== 0%", Bound(0.0, 0.0, "%"), "== 0%"),
        ("-0.5%..0.5%", Bound(-0.005, 0.005, "%"), "-0.5% .. +0.5%"),
        (">=21%", Bound(0.21, None, "%"), ">= +21%"),
        (">= 20 %", Bound(0.2, None, "%"), ">= +20%"),
        ("== 9", Bound(9, 9), "== 9"),
        (" 33 .. 64 ", Bound(33, 64), "33 .. 64"),
        ("<= 0.1", Bound(None, 0.1), "<= 0.1"),
        (">= 263000000", Bound(263e6, None), ">= 263000000"),
    ],
)
def test_a_bound_says_what_it_allows(text: str, bound: Bound, shown: str) -> None:
    assert Bound.parse(text) == bound
    assert str(bound) == shown


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((text, "not a bound") for text in ("", "about 20%", "> 20%", ">= 20% 30%", ">= 1e3")),
        *((text, "not a bound") for text in (">= nan", "1 .. 2 .. 3", ">= .5")),
        *((text, "a change is in percent, a value is not") for text in ("1% .. 2", "1 .. 2%")),
        *((text, "the first number is the larger one") for text in ("1% .. -1%", "2 .. 1")),
    ],
)
def test_what_is_no_bound_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Bound.parse(text)


@pytest.mark.parametrize("text", ["40", ">= 40%", "about 40%", "1 .. 2"])
def test_what_is_no_published_change_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a change|a change is in percent"):
        Bound.parse_change(text)
    assert Bound.parse_change("+40%") == Bound(0.4, 0.4, "%")
    assert Bound.parse_change("-8% .. +20%").interval == Interval(-0.08, 0.2)


@given(
    st.decimals(-(10**9), 10**9, places=4), st.decimals(0, 10**6, places=4), st.sampled_from("% ")
)
def test_a_bound_is_read_back_as_it_is_written(low: object, width: object, sign: str) -> None:
    ends = (float(str(low)), float(str(low)) + float(str(width)))
    text = f"{ends[0]:.4f}{sign} .. {ends[1]:.4f}{sign}"
    bound = Bound.parse(text)
    assert Bound.parse(str(bound)) == bound
    scale = 100 if sign == "%" else 1
    assert bound.interval == Interval(*(float(f"{end:.4f}") / scale for end in ends))


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (1.32, ">= +52.4%"),
        (0.4, ">= +18.4%"),
        (-0.5, "<= -29.3%"),
        (-1.0, "<= -100%"),
        (0.04, ">= +2%"),
        (-0.0072, "<= -0.37%"),
        (-0.0005, "<= -0.026%"),
        (0.0, "-5% .. +5%"),
    ],
)
def test_half_of_a_change_is_half_as_a_logarithm(change: float, shown: str) -> None:
    assert str(half_of(change)) == shown


@given(st.floats(-0.99, 10).filter(lambda change: abs(change) > 1e-4))
def test_half_of_a_change_holds_for_the_change_itself_and_not_for_none(change: float) -> None:
    bound = half_of(change).interval
    assert bound.low <= change <= bound.high
    assert not bound.low <= 0 <= bound.high
