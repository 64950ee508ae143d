# SPDX-License-Identifier: GPL-2.0-or-later
"""What killed a kernel is read off its console."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.guest.console import death, is_hang, last_line

DATA = Path(__file__).parents[1] / "data"


def recorded(name: str) -> str:
    return (DATA / f"console-{name}.log").read_text()


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("panic", "Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)"),
        ("oops", "BUG: kernel NULL pointer dereference, address: 0000000000000038"),
        ("soft-lockup", "BUG: soft lockup - CPU#1 stuck for 26s! [fio:83]"),
        ("hung-task", "INFO: task dbench:97 blocked for more than 120 seconds."),
        ("bug-at", "kernel BUG at block/blk-mq.c:1338!"),
        ("protection-fault", "general protection fault, probably for non-canonical address"),
        ("rcu-stall", "INFO: rcu_sched self-detected stall on CPU"),
    ],
)
def test_the_line_that_explains_most_is_found(name: str, cause: str) -> None:
    found = death(recorded(name))
    assert found is not None
    assert cause in found
    assert "not syncing" in cause or "not syncing" not in found
    assert not found.startswith("[ ")
    assert is_hang(found) == (name in ("soft-lockup", "hung-task", "rcu-stall"))


def test_an_oops_explains_more_than_the_panic_wherever_it_stands() -> None:
    text = recorded("panic") + recorded("oops")
    assert death(text) == "BUG: kernel NULL pointer dereference, address: 0000000000000038"


def test_serial_line_ends_do_not_matter() -> None:
    assert death(recorded("oops").replace("\n", "\r\n")) == death(recorded("oops"))


@pytest.mark.parametrize("text", ["", "\n\n", recorded("clean")])
def test_a_kernel_that_lives_has_no_cause_of_death(text: str) -> None:
    assert death(text) is None


def test_a_longer_word_is_no_cause_of_death() -> None:
    assert death(recorded("clean") + "[    1.9] DEBUG: agent: all is well\n") is None


@pytest.mark.parametrize(
    ("text", "line"),
    [("", ""), (" \n\n", ""), ("a\nb\n", "b"), ("a\n  b \r\n\n \n", "b"), ("a\ncut", "cut")],
)
def test_the_last_line_is_the_last_that_says_something(text: str, line: str) -> None:
    assert last_line(text) == line


def test_the_last_line_keeps_its_time() -> None:
    assert last_line(recorded("clean")) == "[    1.801177] agent: quit"
