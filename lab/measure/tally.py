# SPDX-License-Identifier: GPL-2.0-or-later
"""How many boots are done of how many, and how long the rest will take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

from lab.base.progress import Progress, duration

# So many of the last boots tell how much longer they take than was forecast: enough to smooth out,
# few enough to follow a host that becomes busy.
_WINDOW = 20


class Tally:
    """Counts the boots of one list of tasks and says so. Safe to use from several threads."""

    def __init__(
        self,
        progress: Progress,
        title: str,
        wanted: int,
        forecast: Sequence[float],
        side_by_side: Callable[[], int],
    ) -> None:
        """Say how many boots of those wanted are missing.

        forecast has the seconds that each of these may take, in their order; side_by_side tells how
        many run at once, as long as there are so many.
        """
        self._progress = progress
        self._forecast = forecast
        self._workers = side_by_side
        self._title = f"{title}: {wanted - len(forecast)} boots are there, {len(forecast)} to run"
        self._done = 0
        # Of the last boots: how long they took, and were to take.
        self._spent: list[tuple[float, float]] = []
        self._lock = Lock()

    def begin(self) -> None:
        """Print the title."""
        self._progress.say(f"{self._title}{self._left()}")

    def ended(self, title: str, shown: str, seconds: float, *, done: bool) -> None:
        """Print what became of a boot; one that failed is not done."""
        with self._lock:
            total = len(self._forecast)
            expected = self._forecast[min(self._done, total - 1)]
            self._done += done
            self._spent = [*self._spent, (seconds, expected)][-_WINDOW:]
            place = f"[{self._done:>{len(str(total))}}/{total}]"
            rest = self._left()
        self._progress.say(f"{place} {title:<44} {shown:>14}  {seconds:3.0f} s{rest}")

    def take_back(self, boots: int) -> None:
        """Count boots as missing again: the host disturbed their round."""
        with self._lock:
            self._done -= boots

    def _left(self) -> str:
        left = self._forecast[self._done :]
        if not left:
            return ""
        spent = sum(took for took, _ in self._spent)
        expected = sum(was for _, was in self._spent)
        slower = spent / expected if expected else 1.0
        workers = max(1, min(len(left), self._workers()))
        return f", {duration(slower * sum(left) / workers)} left"
