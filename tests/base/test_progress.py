# SPDX-License-Identifier: GPL-2.0-or-later
"""What the lab prints while it works, to a log and to a terminal."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.base import progress
from lab.base.progress import Progress, duration


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def wait_for(event: Callable[[], bool]) -> None:
    """Wait for what a thread prints; the assertions behind tell when it did not."""
    deadline = time.monotonic() + 5
    while not event() and time.monotonic() < deadline:
        time.sleep(0.01)


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
    progress_lines = Progress(out)
    with progress_lines.step("building"):
        pass
    progress_lines.say("done")
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
        wait_for(lambda: out.getvalue().count("\n") >= 2)
    first, *_, last = out.getvalue().splitlines()
    assert re.fullmatch(r"  building \.\.\. 0\.\d s, 7 files", first)
    assert re.fullmatch(r"  building: 0\.\d s", last)
    assert "\r" not in out.getvalue()
    assert "\033" not in out.getvalue()


def test_a_log_has_a_status_once_a_minute_and_not_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = io.StringIO()
    with Progress(out).status(lambda: "3 of 7 boots"):
        time.sleep(0.02)
    assert out.getvalue() == ""
    monkeypatch.setattr(progress, "_LOG_INTERVAL_S", 0.01)
    with Progress(out).status(lambda: "3 of 7 boots"):
        wait_for(lambda: bool(out.getvalue()))
    assert set(out.getvalue().splitlines()) == {"3 of 7 boots"}


def test_a_terminal_gets_one_line_of_all_that_runs_which_fits_and_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "_LIVE_INTERVAL_S", 0.01)
    out = Terminal()
    progress_lines = Progress(out)
    with (
        progress_lines.step("building " + "x" * 200),
        progress_lines.status(lambda: "3 of 7 boots"),
    ):
        wait_for(lambda: "3 of 7 boots | building xx" in out.getvalue())
    drawn, _, ended = out.getvalue().rpartition("\r\033[K")
    assert "3 of 7 boots | building xx" in drawn
    assert "\n" not in drawn
    assert max(map(len, drawn.split("\r\033[K"))) < 80
    assert re.fullmatch(r"  building x+: 0\.\d s\n", ended)


def test_threads_do_not_break_each_others_lines() -> None:
    out = io.StringIO()
    progress_lines = Progress(out)
    with ThreadPoolExecutor(8) as pool:
        for number in range(200):
            pool.submit(progress_lines.say, f"line {number:03d}")
    assert sorted(out.getvalue().splitlines()) == [f"line {number:03d}" for number in range(200)]


def test_phases_add_up_in_the_order_of_their_first_entry() -> None:
    progress_lines = Progress(io.StringIO())
    for name in ("kernel", "measuring", "kernel"):
        with progress_lines.phase(name):
            time.sleep(0.01)
    assert [*progress_lines.phases] == ["kernel", "measuring"]
    assert progress_lines.phases["kernel"] >= 0.02
    assert progress_lines.phases["measuring"] < progress_lines.phases["kernel"]


def test_what_two_phases_share_is_in_the_total_once() -> None:
    progress_lines = Progress(io.StringIO())
    with progress_lines.phase("kernel"):
        time.sleep(0.02)
        with progress_lines.phase("measuring"):
            time.sleep(0.05)
    assert progress_lines.phases["measuring"] == pytest.approx(progress_lines.overlap_s)
    assert sum(progress_lines.phases.values()) - progress_lines.overlap_s == pytest.approx(
        progress_lines.phases["kernel"]
    )


def test_a_phase_that_fails_counts_all_the_same() -> None:
    progress_lines = Progress(io.StringIO())
    with pytest.raises(ValueError), progress_lines.phase("kernel"):
        raise ValueError
    assert "kernel" in progress_lines.phases


@pytest.mark.parametrize(
    ("overlap_s", "phases", "summary"),
    [
        (0.0, {}, ""),
        (0.0, {"kernel": 4.0, "boots": 185.0}, "kernel 4.0 s, boots 3 min 05 s, total 3 min 09 s"),
        (9.0, {"a": 50.0, "b": 19.0}, "a 50 s, b 19 s, of these at once 9.0 s, total 1 min 00 s"),
    ],
)
def test_the_summary_has_each_phase_and_the_total(
    overlap_s: float, phases: dict[str, float], summary: str
) -> None:
    assert Progress(io.StringIO(), phases, overlap_s).summary() == summary
