# SPDX-License-Identifier: GPL-2.0-or-later
"""What is timed has the host for itself; what is not runs side by side; who waits comes first."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from lab.base import host_time
from lab.base.progress import Progress

Lock = Callable[[Callable[[], None]], AbstractContextManager[None]]


class Waits(Exception):
    """Somebody would have to wait."""


def refuse() -> None:
    raise Waits


def free(lock: Lock) -> bool:
    try:
        with lock(refuse):
            return True
    except Waits:
        return False


def test_what_is_not_timed_runs_side_by_side() -> None:
    with host_time.disturbing(refuse):
        assert free(host_time.disturbing)
        assert not free(host_time.alone)
    assert free(host_time.alone)


def test_what_is_timed_is_alone() -> None:
    with host_time.alone(refuse):
        assert not free(host_time.disturbing)
        assert not free(host_time.alone)
    assert free(host_time.disturbing)


def test_who_wants_the_host_is_not_kept_from_it_by_those_who_come_later() -> None:
    got = threading.Event()

    def want() -> None:
        with host_time.alone(lambda: None):
            got.set()

    waiter = threading.Thread(target=want)
    with host_time.disturbing(refuse):
        waiter.start()
        end = time.monotonic() + 20
        while free(host_time.disturbing):  # until it stands in turn
            assert time.monotonic() < end
            time.sleep(0.01)
        assert not got.is_set()
    waiter.join(20)
    assert got.is_set()


def test_waiting_is_told_once() -> None:
    out = io.StringIO()
    with host_time.showing_wait(host_time.alone, Progress(out=out)):
        pass
    assert out.getvalue() == ""
    released = threading.Event()

    def hold() -> None:
        with host_time.disturbing(lambda: None):
            released.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    while free(host_time.alone):
        time.sleep(0.01)
    timer = threading.Timer(0.3, released.set)
    timer.start()
    with host_time.showing_wait(host_time.alone, Progress(out=out)):
        pass
    holder.join()
    assert out.getvalue().count("waiting for what another lab does") == 1
