# SPDX-License-Identifier: GPL-2.0-or-later
"""How many boots are done of how many, and how long the rest will take."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from lab.base.progress import Progress, duration

# Boots whose mean duration is the forecast for the next: enough to smooth out, few enough to follow
# a change from cheap to expensive cells.
_WINDOW = 20


class Tally:
    """Counts the boots of one list of tasks and says so. Safe to use from several threads."""

    def __init__(
        self,
        progress: Progress,
        title: str,
        wanted: int,
        missing: int,
        side_by_side: Callable[[], int],
    ) -> None:
        """Say how many boots of those wanted are missing; side_by_side tells how many run at once,
        as long as there are so many.
        """
        self._progress = progress
        self._total = missing
        self._workers = side_by_side
        self._title = f"{title}: {wanted - missing} boots are there, {missing} to run"
        self._done = 0
        self._spent: list[float] = []
        self._lock = Lock()

    def begin(self, usual_s: Callable[[], float | None]) -> None:
        """Print the title; usual_s tells how many seconds a boot usually takes, where known."""
        known = usual_s() if self._total else None
        self._progress.say(f"{self._title}{self._left(known)}")

    def ended(self, title: str, shown: str, seconds: float, *, done: bool) -> None:
        """Print what became of a boot; one that failed is not done."""
        with self._lock:
            self._done += done
            self._spent = [*self._spent, seconds][-_WINDOW:]
            place = f"[{self._done:>{len(str(self._total))}}/{self._total}]"
            mean = sum(self._spent) / len(self._spent)
            rest = self._left(mean)
        self._progress.say(f"{place} {title:<44} {shown:>14}  {seconds:3.0f} s{rest}")

    def take_back(self, boots: int) -> None:
        """Count boots as missing again: the host disturbed their round."""
        with self._lock:
            self._done -= boots

    def _left(self, mean_s: float | None) -> str:
        left = max(0, self._total - self._done)
        workers = max(1, min(left, self._workers()))
        return f", {duration(left * mean_s / workers)} left" if left and mean_s else ""
