# SPDX-License-Identifier: GPL-2.0-or-later
"""What is done of how many, and how long the rest takes: told truly, by threads too."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from lab.base.progress import Progress
from lab.measure.tally import Tally


@contextmanager
def tally(
    forecast: Sequence[float], side_by_side: int = 1, out: io.StringIO | None = None
) -> Iterator[Tally]:
    """A tally that expects boots of cells, and prints to out."""
    boot_tally = Tally(Progress(out=out or io.StringIO()), lambda: side_by_side)
    with boot_tally.expecting("cells", forecast):
        yield boot_tally


def test_the_line_tells_what_is_done_and_how_long_the_rest_takes() -> None:
    with tally([60.0, 30.0, 20.0, 10.0], side_by_side=2) as boot_tally:
        assert boot_tally.line() == "cells: 0 of 4 boots, 1 min 00 s left"
        boot_tally.ended("a", "1 IOPS", 60.0, done=True)
        assert boot_tally.line() == "cells: 1 of 4 boots, 30 s left"


def test_what_several_ask_for_is_counted_together() -> None:
    with tally([10.0]) as boot_tally, boot_tally.expecting("others", [20.0, 30.0]):
        assert boot_tally.line() == "cells and 1 more: 0 of 3 boots, 1 min 00 s left"
        boot_tally.ended("a", "", 10.0, done=True)
        assert boot_tally.line().startswith("cells and 1 more: 1 of 3 boots")


def test_many_hosts_do_not_make_one_boot_shorter() -> None:
    with tally([60.0], side_by_side=1000) as boot_tally:
        assert boot_tally.line().endswith("1 min 00 s left")


def test_failed_and_rejected_boots_are_not_done() -> None:
    out, counts = io.StringIO(), []
    with tally([2.0] * 3, out=out) as boot_tally:
        for done in (True, False, True):
            boot_tally.ended("boot", "FAILED", 2.0, done=done)
            counts.append(boot_tally.line())
        boot_tally.take_back(2)
        boot_tally.ended("boot", "1 IOPS", 2.0, done=True)
        counts.append(boot_tally.line())
    shown = [line.removeprefix("cells: ").partition(" boots")[0] for line in counts]
    assert shown == ["1 of 3", "1 of 3", "2 of 3", "1 of 3"]
    assert counts[-1].endswith("4.0 s left")
    assert out.getvalue().count("boot") == 1  # the one that failed


def test_every_boot_is_printed_where_all_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_VERBOSE", "1")
    out = io.StringIO()
    with tally([2.0], out=out) as boot_tally:
        boot_tally.ended("after: nullb", "1 IOPS", 2.0, done=True)
    assert re.fullmatch(r"after: nullb +1 IOPS +2 s\n", out.getvalue())


def test_the_forecast_follows_the_last_boots() -> None:
    with tally([2.0] * 100) as boot_tally:
        for seconds in (*[100.0] * 20, *[1.0] * 20):
            boot_tally.ended("a", "", seconds, done=True)
        assert boot_tally.line().endswith("1 min 00 s left")


def test_boots_beside_each_other_are_all_counted() -> None:
    with tally([1.0] * 200, side_by_side=8) as boot_tally:
        with ThreadPoolExecutor(8) as pool:
            for _ in range(200):
                pool.submit(boot_tally.ended, "a", "", 1.0, done=True)
        assert boot_tally.line() == "cells: 200 of 200 boots"
