# SPDX-License-Identifier: GPL-2.0-or-later
"""Which failed boots are tried again: those that may be QEMU's or the host's fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lab.base.errors import GuestError

# Under multi-threaded TCG QEMU itself can fail: it ends on an assertion or loses an interrupt
# (docs/notes/2026-11-measuring.md). That says nothing of the kernel, so such a guest is booted
# again. It was seen in one of four boots (in none that kept to one CPU of the host): six times in a
# row is no accident. A QEMU that somebody killed (the host's memory ended) is not its kernel's
# doing either.
QEMU_FAILURES = ("died", "killed", "lost")
ATTEMPTS = 6

T = TypeVar("T")


class Retries:
    """Which failed boots of one guest are tried again, given how earlier ones failed.

    What is known to be QEMU's fault is tried again, ATTEMPTS times in all. A guest that hung under
    multi-threaded TCG may have met a failure of QEMU's that is not known: it gets a second chance,
    for a kernel that hangs does so again. A deterministic guest that hung would hang in the same
    place.
    """

    def __init__(self, *, deterministic: bool) -> None:
        self._deterministic = deterministic
        self._seen: list[str] = []

    def again(self, error: GuestError) -> bool:
        """Whether to boot the guest once more after this failure."""
        seen = [*self._seen]
        self._seen.append(error.outcome)
        if error.outcome in QEMU_FAILURES:
            return sum(outcome in QEMU_FAILURES for outcome in seen) < ATTEMPTS - 1
        return error.outcome == "hang" and not self._deterministic and "hang" not in seen


def steadily(call: Callable[[], T]) -> T:
    """Call what boots a guest; again as often as it was QEMU that failed."""
    retries = Retries(deterministic=True)
    while True:
        try:
            return call()
        except GuestError as exc:
            if not retries.again(exc):
                raise
