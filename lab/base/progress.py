# SPDX-License-Identifier: GPL-2.0-or-later
"""What the lab is doing, for a terminal and for a log alike.

On a terminal one live line shows all that runs at the moment. In a log a step has one line when it
ends, and one for each minute that it takes. Steps and phases may run side by side, in threads.
"""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from lab.base.text import visible

# Set to anything but 0, this variable has nothing said on the way; `lab --quiet` sets it.
QUIET = "LAB_QUIET"
_LIVE_INTERVAL_S = 0.5
_LOG_INTERVAL_S = 60.0
_LIVE_WIDTH = 78
# Phases that touch each other overlap by less.
_SHOWN_OVERLAP_S = 0.5


def duration(seconds: float) -> str:
    """Seconds in the shortest readable form: 0.4 s, 12 s, 3 min 05 s, 1 h 02 min."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _output() -> TextIO:
    """Where progress goes: standard error, or nowhere."""
    return io.StringIO() if os.environ.get(QUIET, "0") not in ("", "0") else sys.stderr


@dataclass
class Progress:
    """Prints steps as they run and keeps how long each phase took. Safe to use from threads.

    phases maps a phase's name to its seconds, in the order in which they were first entered;
    overlap_s is how many of these seconds belong to more than one phase.
    """

    out: TextIO = field(default_factory=_output)
    phases: dict[str, float] = field(default_factory=dict)
    overlap_s: float = 0.0
    _active: int = 0
    _since: float = 0.0
    # What the live line shows, in its order.
    _parts: list[Callable[[], str]] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def say(self, text: str) -> None:
        """Print one line of its own."""
        with self._lock:
            self._clear()
            print(visible(text), file=self.out, flush=True)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the block's wall-clock seconds to the phase called name."""
        start = self._count_phase(+1)
        with self._lock:
            self.phases.setdefault(name, 0.0)
        try:
            yield
        finally:
            end = self._count_phase(-1)
            with self._lock:
                self.phases[name] += end - start

    @contextmanager
    def step(self, text: str, detail: Callable[[], str] = lambda: "") -> Iterator[None]:
        """Show text while the block runs, with what detail() says at the moment."""
        start = time.monotonic()

        def line() -> str:
            more = f", {status}" if (status := detail()) else ""
            return f"  {text} ... {duration(time.monotonic() - start)}{more}"

        try:
            with self.status(line, first=False):
                yield
        except BaseException:
            self.say(f"  {text}: failed after {duration(time.monotonic() - start)}")
            raise
        self.say(f"  {text}: {duration(time.monotonic() - start)}")

    @contextmanager
    def status(self, tell: Callable[[], str], *, first: bool = True) -> Iterator[None]:
        """Show what tell() says, from a thread, while the block runs: in the live line, as its
        first or its last part, or once a minute.
        """
        done = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(tell, done), daemon=True)
        with self._lock:
            self._parts.insert(0 if first else len(self._parts), tell)
        ticker.start()
        try:
            yield
        finally:
            done.set()
            ticker.join()
            with self._lock:
                self._parts.remove(tell)
                self._clear()

    def summary(self) -> str:
        """The time of each phase, what overlapped, and the total, on one line."""
        rows = dict(self.phases)
        if self.overlap_s >= _SHOWN_OVERLAP_S:
            rows["of these at once"] = self.overlap_s
        if rows:
            rows["total"] = sum(self.phases.values()) - self.overlap_s
        return ", ".join(f"{name} {duration(took)}" for name, took in rows.items())

    def _count_phase(self, more: int) -> float:
        """Count a phase that begins or ends now, and return the time."""
        with self._lock:
            now = time.monotonic()
            self.overlap_s += max(0, self._active - 1) * (now - self._since)
            self._active, self._since = self._active + more, now
            return now

    def _tick(self, tell: Callable[[], str], done: threading.Event) -> None:
        live = self.out.isatty()
        while not done.wait(_LIVE_INTERVAL_S if live else _LOG_INTERVAL_S):
            if not live:
                self.say(tell())
                continue
            with self._lock:
                line = " | ".join(part().strip() for part in self._parts)
                self._clear()
                print(visible(line)[:_LIVE_WIDTH], end="", file=self.out, flush=True)

    def _clear(self) -> None:
        if self.out.isatty():
            print("\r\033[K", end="", file=self.out)
