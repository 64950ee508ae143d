# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that do first what is most urgent of all that waits."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class Workers(Generic[T]):
    """At most so many threads, which are there only while there is work. Safe to use from threads.

    The lower its urgency's number, the earlier a work begins; equal ones begin in their order.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._running = 0
        self._order = itertools.count()
        self._waiting: list[tuple[int, int, Future[T], Callable[[], T]]] = []
        self._lock = Lock()

    def submit(self, urgency: int, work: Callable[[], T]) -> Future[T]:
        """Have work done by a thread; the future gets what it returns or raises."""
        future: Future[T] = Future()
        with self._lock:
            heapq.heappush(self._waiting, (urgency, next(self._order), future, work))
            if self._running == self._most:
                return future
            self._running += 1
        Thread(target=self._work).start()
        return future

    def cancel(self) -> None:
        """Begin nothing more: what waits is cancelled."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for _, _, future, _ in waiting:
            future.cancel()
            future.set_running_or_notify_cancel()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running -= 1
                    return
                _, _, future, work = heapq.heappop(self._waiting)
            if not future.set_running_or_notify_cancel():
                continue
            try:
                done = work()
            except BaseException as exc:  # for whoever asks the future
                future.set_exception(exc)
            else:
                future.set_result(done)
