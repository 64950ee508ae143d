# SPDX-License-Identifier: GPL-2.0-or-later
"""What a series.toml may say, and what is said of one that is wrong."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.errors import UsageError
from lab.base.stats import Interval
from lab.inputs import series
from lab.inputs.series import Series

TEXT = """\
title = "a title"
origin = "somewhere"

[arms.single]
patches = "base"
hw_queues = 1

[claims.faster]
published = "40 % faster"
topology = "nullb"
scheduler = "bfq"
workload = "randread_burst"

[[claims.faster.expect]]
metric = "iops"
change = ">= +20%"
because = "half of it"

[[claims.faster.expect]]
metric = "stable_merges"
arm = "single"
value = "== 9"
because = "ten readers"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a series called own, of which all files are right."""
    monkeypatch.setattr(series, "FOLDER", tmp_path)
    own = tmp_path / "own"
    for part in ("base", "series"):
        (own / part).mkdir(parents=True)
    (own / "series.toml").write_text(TEXT)
    return own


@pytest.mark.parametrize(
    ("text", "percent", "low", "high"),
    [
        (">= +20%", True, 0.2, math.inf),
        ("<= -75%", True, -math.inf, -0.75),
        ("== 0%", True, 0.0, 0.0),
        ("-1% .. +1%", True, -0.01, 0.01),
        ("-0.5%..0.5%", True, -0.005, 0.005),
        (">=21%", True, 0.21, math.inf),
        (">= 20 %", True, 0.2, math.inf),
        ("== 9", False, 9, 9),
        (" 33 .. 64 ", False, 33, 64),
        ("<= 0.1", False, -math.inf, 0.1),
        ("7 .. 7", False, 7, 7),
    ],
)
def test_a_bound_says_what_it_allows(text: str, percent: bool, low: float, high: float) -> None:
    assert series.bound(text, percent=percent) == Interval(low, high)


@pytest.mark.parametrize(
    ("text", "percent", "why"),
    [
        ("", True, "not a bound"),
        ("about 20%", True, "not a bound"),
        ("> 20%", True, "not a bound"),
        (">= 20% 30%", True, "not a bound"),
        (">= 1e3", False, "not a bound"),
        (">= nan", False, "not a bound"),
        ("1 .. 2 .. 3", False, "not a bound"),
        (">= .5", False, "not a bound"),
        (">= 20", True, "a change is in percent"),
        ("== 9%", False, "a value is not"),
        ("1% .. 2", True, "a change is in percent"),
        ("1 .. 2%", False, "a value is not"),
        ("1% .. -1%", True, "the first number is the larger one"),
        ("2 .. 1", False, "the first number is the larger one"),
    ],
)
def test_what_is_no_bound_is_refused_with_the_reason(text: str, percent: bool, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        series.bound(text, percent=percent)


@given(st.integers(-1000, 1000), st.integers(0, 1000), st.booleans())
def test_a_written_range_is_read_as_it_was_written(low: int, width: int, percent: bool) -> None:
    sign = "%" if percent else ""
    found = series.bound(f"{low}{sign} .. {low + width}{sign}", percent=percent)
    scale = 100 if percent else 1
    assert (found.low, found.high) == (low / scale, (low + width) / scale)


def test_a_right_file_is_read(folder: Path) -> None:
    found = series.get("own")
    first, second = found.claims["faster"].expect
    assert first.bound == Interval(0.2, math.inf)
    assert second.bound == Interval(9, 9)
    assert found.claims["faster"].compare == ("before", "after")
    assert found.tree == "debian:6.12"


def test_before_and_after_are_arms_of_every_series(folder: Path) -> None:
    arms = series.get("own").all_arms
    assert {name: arm.patches for name, arm in arms.items()} == {
        "before": "base",
        "after": "series",
        "single": "base",
    }
    assert arms["single"].hw_queues == 1


def test_a_series_may_say_what_its_before_is(folder: Path) -> None:
    own = '[arms.before]\npatches = "base"\nhw_queues = 4\n'
    (folder / "series.toml").write_text(TEXT + own)
    assert series.get("own").all_arms["before"].hw_queues == 4
    assert list(series.get("own").all_arms).count("before") == 1


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "hint"),
    [
        ('title = "a', 'titel = "a', 1, "titel", "did you mean 'title'"),
        ("hw_queues", "hw_queue", 6, "arms.single.hw_queue", "did you mean 'hw_queues'"),
        ("hw_queues = 1", "hw_queues = 1000", 6, "arms.single.hw_queues", "less than or equal"),
        ('"base"', '"none"', 5, "arms.single.patches", "'base' or 'series'"),
        ("topology", "topolgy", 10, "claims.faster.topolgy", "did you mean 'topology'"),
        ("change =", "chnage =", 16, "claims.faster.expect.0.chnage", "did you mean 'change'"),
        ('">= +20%"', '"20%"', 14, "claims.faster.expect.0", "not a bound: '20%'"),
        ('">= +20%"', '">= 20"', 14, "claims.faster.expect.0", "a change is in percent"),
        ('"== 9"', '"== 9%"', 19, "claims.faster.expect.1", "a value is not"),
        ('value = "== 9"', "", 19, "claims.faster.expect.1", "either change or value"),
        (
            'value = "== 9"',
            'value = "== 9"\nchange = "== 9%"',
            19,
            "claims.faster.expect.1",
            "either change or value",
        ),
        ('value = "== 9"', 'change = "== 9%"', 19, "claims.faster.expect.1", "arm goes with value"),
        ('arm = "single"', "cpus = 65", 21, "claims.faster.expect.1.cpus", "less than or equal"),
        ('arm = "single"', 'cpus = "2"', 21, "claims.faster.expect.1.cpus", "integer"),
        ('arm = "single"', 'engine = ["tgc"]', 21, "claims.faster.expect.1.engine.0", "'tcg'"),
        ('arm = "single"', 'compare = ["before"]', 21, "expect.1.compare", "required"),
    ],
)
def test_a_wrong_file_is_an_error_with_file_line_and_key(
    folder: Path, old: str, new: str, line: int, key: str, hint: str
) -> None:
    assert old in TEXT
    path = folder / "series.toml"
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        series.get("own")
    assert hint in str(caught.value)
    assert caught.value.where.startswith(f"{path}:{line}: ")
    assert key in caught.value.where


def test_a_series_claims_something(folder: Path) -> None:
    (folder / "series.toml").write_text(TEXT.partition("[claims.faster]")[0] + "[claims]\n")
    with pytest.raises(UsageError, match=r"at least 1 item.*'claims'"):
        series.get("own")


@pytest.mark.parametrize(("last", "why"), [("", "required"), ("expect = []\n", "at least 1 item")])
def test_a_claim_expects_something(folder: Path, last: str, why: str) -> None:
    (folder / "series.toml").write_text(TEXT.partition("[[")[0] + last)
    with pytest.raises(UsageError, match=rf"(?i){why}.*'claims.faster.expect'"):
        series.get("own")


@pytest.mark.parametrize("text", ["title = ", "[claims", "\x00"])
def test_what_is_no_toml_is_an_error_with_the_file(folder: Path, text: str) -> None:
    (folder / "series.toml").write_text(text)
    with pytest.raises(UsageError, match="not valid TOML") as caught:
        series.get("own")
    assert str(folder / "series.toml") in caught.value.where


def test_an_unknown_series_gets_the_nearest_one(folder: Path) -> None:
    (folder.parent / "no_series").mkdir()
    assert series.known() == ["own"]
    with pytest.raises(UsageError, match="did you mean 'own'"):
        series.get("onw")


def arms(found: Series) -> dict[str, tuple[str, int]]:
    return {name: (arm.patches, arm.hw_queues) for name, arm in found.all_arms.items()}


def test_turned_round_only_the_patches_change_places(folder: Path) -> None:
    found = series.turned_round(series.get("own"))
    # "single" is a measure on other hardware.
    assert arms(found) == {"before": ("series", 0), "after": ("base", 0), "single": ("base", 1)}
    assert found.claims == series.get("own").claims


def test_turned_round_twice_is_the_series_again(folder: Path) -> None:
    own = series.get("own")
    assert arms(series.turned_round(series.turned_round(own))) == arms(own)


def test_emptied_no_arm_has_the_patches(folder: Path) -> None:
    found = series.emptied(series.get("own"))
    assert arms(found) == {"before": ("base", 0), "after": ("base", 0), "single": ("base", 1)}
    assert found.claims == series.get("own").claims


def test_patches_apply_by_number_base_before_series(folder: Path) -> None:
    for name in (
        "series/0002-b.patch",
        "series/0010-c.patch",
        "series/0001-z.patch",
        "base/0002-y.patch",
        "base/0001-x.patch",
        "series/README.md",
    ):
        (folder / name).write_text("")
    base = [folder / "base" / name for name in ("0001-x.patch", "0002-y.patch")]
    own = [folder / "series" / name for name in ("0001-z.patch", "0002-b.patch", "0010-c.patch")]
    assert list(series.patches("own", "base")) == base
    assert list(series.patches("own", "series")) == base + own


def test_a_series_needs_no_base(folder: Path) -> None:
    (folder / "base").rmdir()
    (folder / "series/0001-a.patch").write_text("")
    assert series.patches("own", "base") == ()
    assert [path.name for path in series.patches("own", "series")] == ["0001-a.patch"]
