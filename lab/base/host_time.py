# SPDX-License-Identifier: GPL-2.0-or-later
"""One at a time: what is timed by this host's clock, or any number of things that are not.

Labs of one user agree on it, whatever their caches and results are. Who wants the host for himself
waits for what runs; what comes after him waits for him.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from lab.base.progress import Progress

# Where labs meet.
FOLDER = Path(tempfile.gettempdir())
# Chosen: short against a boot, long against asking.
_POLL_S = 0.1


@contextmanager
def disturbing(look: Callable[[], None]) -> Iterator[None]:
    """Use the host's CPUs for the block, while nobody times anything.

    look is called while it waits; what it raises ends that.
    """
    with ExitStack() as locks:
        with _taken("turn", fcntl.LOCK_SH, look):
            locks.enter_context(_taken("host", fcntl.LOCK_SH, look))
        yield


@contextmanager
def alone(look: Callable[[], None]) -> Iterator[None]:
    """Have the host for the block; who needs it, too, waits from now on. look is as above."""
    with _taken("turn", fcntl.LOCK_EX, look), _taken("host", fcntl.LOCK_EX, look):
        yield


@contextmanager
def showing_wait(
    lock: Callable[[Callable[[], None]], AbstractContextManager[None]], progress: Progress
) -> Iterator[None]:
    """One of these for the block, saying so where it has to be waited for."""
    with ExitStack() as held:
        with ExitStack() as waiting:
            steps: list[None] = []

            def look() -> None:
                if not steps:
                    step = progress.step("waiting for what another lab does on this host")
                    steps.append(waiting.enter_context(step))

            held.enter_context(lock(look))
        yield


@contextmanager
def _taken(name: str, how: int, look: Callable[[], None]) -> Iterator[None]:
    """A lock file for the block, shared or not."""
    path = FOLDER / f"blocklab-{os.geteuid()}.{name}"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(handle, how | fcntl.LOCK_NB)
                break
            look()
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(handle)
