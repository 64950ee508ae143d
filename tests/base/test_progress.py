# SPDX-License-Identifier: GPL-2.0-or-later
"""What the lab prints while it works, to a log and to a terminal."""

from __future__ import annotations

import io
import re
import time

import pytest

from lab.base import progress
from lab.base.progress import Progress, duration


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (0.44, "0.4 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (12.4, "12 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 00 min"),
        (3725, "1 h 02 min"),
        (90000, "25 h 00 min"),
    ],
)
def test_durations_are_short_and_never_show_sixty(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_log_gets_one_plain_line_a_step() -> None:
    out = io.StringIO()
    own = Progress(out)
    with own.step("building"):
        pass
    own.say("done")
    assert re.fullmatch(r"  building: 0\.\d s\ndone\n", out.getvalue())


def test_a_step_that_fails_says_so_and_lets_the_error_through() -> None:
    out = io.StringIO()
    with pytest.raises(ValueError, match="broken"), Progress(out).step("building"):
        raise ValueError("broken")
    assert re.fullmatch(r"  building: failed after 0\.\d s\n", out.getvalue())


def test_a_long_step_reports_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LOG_INTERVAL_S", 0.01)
    out = io.StringIO()
    with Progress(out).step("building", lambda: "7 files"):
        deadline = time.monotonic() + 5
        while out.getvalue().count("\n") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    first, *_, last = out.getvalue().splitlines()
    assert re.fullmatch(r"  building \.\.\. 0\.\d s, 7 files", first)
    assert re.fullmatch(r"  building: 0\.\d s", last)
    assert "\r" not in out.getvalue()
    assert "\033" not in out.getvalue()


def test_a_log_hears_nothing_of_what_is_only_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LOG_INTERVAL_S", 0.001)
    out = io.StringIO()
    with Progress(out).live("booting"):
        time.sleep(0.02)
    assert out.getvalue() == ""


def test_a_terminal_gets_one_line_that_fits_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LIVE_INTERVAL_S", 0.01)
    out = Terminal()
    with Progress(out).live("booting " + "x" * 200):
        deadline = time.monotonic() + 5
        while "booting" not in out.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "booting" in out.getvalue()
    assert "\n" not in out.getvalue()
    assert max(map(len, out.getvalue().split("\r\033[K"))) < 80
    assert out.getvalue().endswith("\r\033[K")


def test_phases_add_up_in_the_order_of_their_first_entry() -> None:
    own = Progress(io.StringIO())
    for name in ("kernel", "measuring", "kernel"):
        with own.phase(name):
            time.sleep(0.01)
    assert [*own.phases] == ["kernel", "measuring"]
    assert own.phases["kernel"] >= 0.02
    assert own.phases["measuring"] < own.phases["kernel"]


def test_a_phase_that_fails_counts_all_the_same() -> None:
    own = Progress(io.StringIO())
    with pytest.raises(ValueError), own.phase("kernel"):
        raise ValueError
    assert "kernel" in own.phases


def test_the_summary_has_each_phase_and_the_total() -> None:
    own = Progress(io.StringIO(), {"source": 4.0, "measuring": 185.0})
    assert own.summary() == "source 4.0 s, measuring 3 min 05 s, total 3 min 09 s"


def test_a_summary_of_nothing_is_no_error() -> None:
    assert "min" not in Progress(io.StringIO()).summary()
