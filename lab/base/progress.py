# SPDX-License-Identifier: GPL-2.0-or-later
"""What the lab is doing, for a terminal and for a log alike.

On a terminal the running step shows a live line with the time it has taken; elsewhere each step
prints one line when it starts to take long and one when it ends.
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
    """Prints steps as they run and keeps how long each phase took.

    phases maps a phase's name to its seconds, in the order in which they were first entered.
    """

    out: TextIO = field(default_factory=_output)
    phases: dict[str, float] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """Print one line of its own."""
        self._clear()
        print(visible(text), file=self.out, flush=True)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the block's wall-clock seconds to the phase called name."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.monotonic() - start

    @contextmanager
    def step(self, text: str, detail: Callable[[], str] = lambda: "") -> Iterator[None]:
        """Show text while the block runs, with what detail() says at the moment."""
        start = time.monotonic()
        try:
            with self._ticking(text, detail):
                yield
        except BaseException:
            self.say(f"  {text}: failed after {duration(time.monotonic() - start)}")
            raise
        self.say(f"  {text}: {duration(time.monotonic() - start)}")

    @contextmanager
    def live(self, text: str, detail: Callable[[], str] = lambda: "") -> Iterator[None]:
        """Like step, but only on a terminal, and without a line at the end."""
        if not self.out.isatty():
            yield
            return
        try:
            with self._ticking(text, detail):
                yield
        finally:
            self._clear()

    def summary(self) -> str:
        """The time of each phase, and the total, on one line."""
        rows = {**self.phases, "total": sum(self.phases.values())} if self.phases else {}
        return ", ".join(f"{name} {duration(took)}" for name, took in rows.items())

    @contextmanager
    def _ticking(self, text: str, detail: Callable[[], str]) -> Iterator[None]:
        """Repeat text with the time it has taken, from a thread, for the block."""
        done = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(text, detail, done), daemon=True)
        ticker.start()
        try:
            yield
        finally:
            done.set()
            ticker.join()

    def _tick(self, text: str, detail: Callable[[], str], done: threading.Event) -> None:
        start = time.monotonic()
        live = self.out.isatty()
        while not done.wait(_LIVE_INTERVAL_S if live else _LOG_INTERVAL_S):
            extra = f", {told}" if (told := detail()) else ""
            line = visible(f"  {text} ... {duration(time.monotonic() - start)}{extra}")
            if live:
                self._clear()
                print(line[:78], end="", file=self.out, flush=True)
            else:
                print(line, file=self.out, flush=True)

    def _clear(self) -> None:
        if self.out.isatty():
            print("\r\033[K", end="", file=self.out)
