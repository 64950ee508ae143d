# SPDX-License-Identifier: GPL-2.0-or-later
"""The host's memory, divided among guests: what does not fit waits, what never fits is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

from lab.base.errors import GuestError

# In MiB, chosen and not measured: what the host's system and the lab keep for themselves, and what
# QEMU takes beside a guest's memory for translated code, devices and firmware.
_HOST = 1024
_QEMU = 256


class MemoryBudget:
    """Memory for guests on a host of so many GiB. All sizes are in MiB, of the guests' memory."""

    def __init__(self, host_gib: float) -> None:
        self._free = self._all = 1024 * host_gib - _HOST
        self._changed = Condition()

    def holds(self, *guests: int) -> bool:
        """Whether guests of these sizes can run at the same time."""
        return sum(size + _QEMU for size in guests) <= self._all

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Wait until there is memory for a guest, and keep it while the block runs.

        Raises GuestError (outcome ``mismatch``) when the host can never hold the guest.
        """
        if not self.holds(size):
            raise GuestError(
                "mismatch",
                f"the guest needs {size / 1024:.1f} GiB of memory, "
                f"and this host has {self._all / 1024:.1f} GiB for guests",
                hint="use a host with more memory, or fewer clients",
            )
        need = size + _QEMU
        with self._changed:
            self._changed.wait_for(lambda: need <= self._free)
            self._free -= need
        try:
            yield
        finally:
            with self._changed:
                self._free += need
                self._changed.notify_all()
