# SPDX-License-Identifier: GPL-2.0-or-later
"""What is done of how many, and how long the rest takes: told truly, by threads too."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from lab.base.progress import Progress
from lab.measure.tally import Tally


def tally(
    wanted: int, forecast: Sequence[float], side_by_side: int = 1
) -> tuple[Tally, io.StringIO]:
    out = io.StringIO()
    return Tally(Progress(out=out), "cells", wanted, forecast, lambda: side_by_side), out


def test_the_title_tells_what_is_there_and_how_long_the_rest_takes() -> None:
    own, out = tally(10, [60.0, 30.0, 20.0, 10.0], side_by_side=2)
    own.begin()
    assert out.getvalue() == "cells: 6 boots are there, 4 to run, 1 min 00 s left\n"


def test_nothing_takes_no_time() -> None:
    own, out = tally(10, [])
    own.begin()
    assert out.getvalue() == "cells: 10 boots are there, 0 to run\n"


def test_many_hosts_do_not_make_one_boot_shorter() -> None:
    own, out = tally(1, [60.0], side_by_side=1000)
    own.begin()
    assert out.getvalue().endswith("1 min 00 s left\n")


def test_failed_and_rejected_boots_are_not_done() -> None:
    own, out = tally(3, [2.0] * 3)
    own.ended("a", "1 IOPS", 2.0, done=True)
    own.ended("b", "FAILED", 2.0, done=False)
    own.ended("c", "1 IOPS", 2.0, done=True)
    own.take_back(2)
    own.ended("d", "1 IOPS", 2.0, done=True)
    assert re.findall(r"^\[(.*?)\]", out.getvalue(), re.MULTILINE) == ["1/3", "1/3", "2/3", "1/3"]
    assert out.getvalue().splitlines()[-1].endswith("4.0 s left")


def test_the_forecast_follows_the_last_boots() -> None:
    own, out = tally(100, [2.0] * 100)
    for seconds in (*[100.0] * 20, *[1.0] * 20):
        own.ended("a", "", seconds, done=True)
    assert out.getvalue().splitlines()[-1].endswith("1 min 00 s left")


def test_boots_beside_each_other_are_all_counted() -> None:
    own, out = tally(200, [1.0] * 200, side_by_side=8)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(200):
            pool.submit(own.ended, "a", "", 1.0, done=True)
    counts = [int(n) for n in re.findall(r"^\[ *(\d+)/200\]", out.getvalue(), re.MULTILINE)]
    assert sorted(counts) == list(range(1, 201))
