# SPDX-License-Identifier: GPL-2.0-or-later
"""How many boots are done of how many, and how long the rest will take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from lab.base.process import is_verbose
from lab.base.progress import Progress, duration

# So many of the last boots tell how much longer they take than was forecast: enough to smooth out,
# few enough to follow a host that becomes busy.
_WINDOW = 20


class Tally:
    """Counts boots and shows what became of them. Safe to use from several threads.

    side_by_side tells how many boots run at once, as long as there are so many.
    """

    def __init__(self, progress: Progress, side_by_side: Callable[[], int]) -> None:
        self._progress = progress
        self._workers = side_by_side
        self._forecast: list[float] = []
        self._done = 0
        # Of the last boots: how long they took, and were to take.
        self._spent: list[tuple[float, float]] = []
        # What the boots are for, in the order in which it was first asked for.
        self._titles: list[str] = []
        self._lock = Lock()

    @contextmanager
    def expecting(self, title: str, forecast: Sequence[float]) -> Iterator[None]:
        """Count boots that are to be run in the block; forecast has the seconds of each."""
        with self._lock:
            self._forecast += forecast
            self._titles.append(title)
        try:
            with self._progress.status(self.line):
                yield
        finally:
            with self._lock:
                self._titles.remove(title)

    def ended(self, title: str, shown: str, seconds: float, *, done: bool) -> None:
        """Count a boot that ended; print it where it failed (not done), or all is to be printed."""
        with self._lock:
            expected = self._forecast[min(self._done, len(self._forecast) - 1)]
            self._done += done
            self._spent = [*self._spent, (seconds, expected)][-_WINDOW:]
        if not done or is_verbose():
            self._progress.say(f"{title:<44} {shown:>14}  {seconds:3.0f} s")

    def take_back(self, boots: int) -> None:
        """Count boots as missing again: the host disturbed their round."""
        with self._lock:
            self._done -= boots

    def line(self) -> str:
        """What the boots are for, how many are done of how many, and how long the rest takes."""
        with self._lock:
            first, *further = dict.fromkeys(self._titles) or ("",)
            named = f"{first} and {len(further)} more" if further else first
            left = self._left()
            return f"{named}: {self._done} of {len(self._forecast)} boots{left}"

    def _left(self) -> str:
        left = self._forecast[self._done :]
        if not left:
            return ""
        spent = sum(took for took, _ in self._spent)
        expected = sum(was for _, was in self._spent)
        slower = spent / expected if expected else 1.0
        workers = max(1, min(len(left), self._workers()))
        return f", {duration(slower * sum(left) / workers)} left"
