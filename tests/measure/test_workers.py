# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that take what is most urgent, and are there only while there is work."""

from __future__ import annotations

import threading

import pytest

from lab.measure.workers import Workers


def test_the_most_urgent_begins_first_and_equal_ones_in_their_order() -> None:
    done: list[str] = []
    go_on = threading.Event()
    workers = Workers[None](1)
    first = workers.submit(9, lambda: done.append(str(go_on.wait(20))))
    while not first.running():
        pass
    rest = [
        workers.submit(urgency, lambda name=name: done.append(name))  # type: ignore[misc]
        for urgency, name in ((2, "c"), (1, "a"), (2, "d"), (1, "b"))
    ]
    go_on.set()
    for future in rest:
        future.result(20)
    assert done == ["True", "a", "b", "c", "d"]


def test_so_many_run_at_once_and_no_more() -> None:
    both, lock = threading.Barrier(2, timeout=20), threading.Lock()
    inside, together = 0, []

    def work() -> None:
        nonlocal inside
        with lock:
            inside += 1
            together.append(inside)
        both.wait()
        with lock:
            inside -= 1
        both.wait()

    workers = Workers[None](2)
    for future in [workers.submit(0, work) for _ in range(8)]:
        future.result(20)
    assert max(together) == 2


def test_what_a_work_raises_is_its_futures_and_the_next_one_begins() -> None:
    def broken() -> int:
        raise KeyboardInterrupt

    workers = Workers[int](1)
    first, second = workers.submit(0, broken), workers.submit(0, lambda: 7)
    assert isinstance(first.exception(20), KeyboardInterrupt)
    assert second.result(20) == 7


def test_nothing_begins_that_was_cancelled() -> None:
    go_on = threading.Event()
    workers = Workers[bool](1)
    running = workers.submit(0, lambda: go_on.wait(20))
    waiting = workers.submit(0, lambda: pytest.fail("was cancelled"))
    workers.cancel()
    assert waiting.cancelled()
    go_on.set()
    assert running.result(20)
    assert workers.submit(0, lambda: True).result(20)
