# SPDX-License-Identifier: GPL-2.0-or-later
"""Keep a guest on one CPU of the host while it boots.

While the kernel sizes the BARs of PCI devices, two vCPUs of multi-threaded TCG that run at the same
moment meet a failure of QEMU's: it ends, or loses an interrupt. On one CPU they hardly do
(docs/notes/2026-11-measuring.md).
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_STARTED = itertools.count()


@contextlib.contextmanager
def on_one_cpu() -> Iterator[None]:
    """Start processes on one CPU: those that this thread starts in the block stay on it, and on
    the next of its CPUs the next time.
    """
    usual = os.sched_getaffinity(0)
    cpus = sorted(usual)
    os.sched_setaffinity(0, {cpus[next(_STARTED) % len(cpus)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usual)


def on_all_cpus(processes: Iterable[int]) -> None:
    """Let processes with all their threads run wherever this thread may."""
    cpus = os.sched_getaffinity(0)
    for process in processes:
        with contextlib.suppress(OSError):  # it has ended
            for thread in Path(f"/proc/{process}/task").iterdir():
                os.sched_setaffinity(int(thread.name), cpus)
