# SPDX-License-Identifier: GPL-2.0-or-later
"""The guests of a round are measured in time slices, one at a time, so that all meet the same host.

The CPUs of a shared host lose half their speed whenever a neighbour uses the other thread of their
core: for a second or for ten, and nothing on this side of the hypervisor shows it. Guests measured
one after the other meet different hosts. Guests that run in slices of a tenth of a second share the
good moments and the bad ones. None can notice, as QEMU stops a guest's clock with the guest
(do_vm_stop() and cpu_disable_ticks() in its system/cpus.c). docs/notes/2026-11-measuring.md has the
figures.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from threading import Condition, Thread

from lab.base.process import Process
from lab.guest.qmp import Monitor

# Chosen between two measured times: a host keeps its speed for one to ten seconds, and stopping and
# resuming a guest takes 1 ms.
SLICE_S = 0.1


class TimeSlices:
    """Time slices for a number of guests, one slot each, while the block runs."""

    def __init__(self, guests: int) -> None:
        self.slots = tuple(Slot(self) for _ in range(guests))
        self._awaited = guests
        self._changed = Condition()
        self._present: list[Slot] = []
        self._closed = False
        self._thread = Thread(target=self._conduct, name="turns", daemon=True)

    def __enter__(self) -> TimeSlices:
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def enter(self, slot: Slot) -> None:
        """Give the stopped guest of a slot its slices as soon as all others are there too."""
        with self._changed:
            self._present.append(slot)
            self._changed.notify()

    def leave(self, slot: Slot) -> None:
        """Let the guest of a slot run on freely; the others no longer wait for it."""
        with self._changed:
            self._awaited -= 1
            if slot in self._present:
                self._present.remove(slot)
                slot.resume()
            self._changed.notify()

    def _conduct(self) -> None:
        forward = True
        while order := self._all_present():
            for slot in order if forward else reversed(order):
                self._slice(slot)
            forward = not forward

    def _all_present(self) -> Sequence[Slot]:
        """All guests that run in slices, once all are there; none when the block is left."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or (self._present and len(self._present) >= self._awaited)
            )
            return [] if self._closed else list(self._present)

    def _slice(self, slot: Slot) -> None:
        with self._changed:
            if slot not in self._present:
                return
            slot.resume()
        time.sleep(SLICE_S)
        with self._changed:
            if slot in self._present:
                slot.stop()


class Slot:
    """A guest's place among those of a round.

    As a context manager it is given up when the block is left, by an error too: the others do not
    wait for a guest that never comes.
    """

    def __init__(self, slices: TimeSlices) -> None:
        self._slices = slices
        self._guest: Process | None = None
        self._monitor: Monitor | None = None
        self._company: set[int] = set()
        self._left = False
        self._ran_s = 0.0
        self._since: float | None = None

    def __enter__(self) -> Slot:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._leave()
        if self._monitor:
            self._monitor.close()

    def follow(self, guest: Process, monitor: Path, *, measured: bool) -> None:
        """Run the guest in slices from when it begins to be measured until it no longer is.

        monitor is the socket of its QEMU.
        """
        self._guest = guest
        if measured and not self._monitor:
            self._monitor = Monitor(monitor)
            self._monitor.stop()
            self._slices.enter(self)
        elif self._monitor and not measured:
            self._leave()

    @property
    def ran_s(self) -> float | None:
        """For how many seconds the guest has run in slices; None while it does not."""
        if not self._monitor or self._left:
            return None
        since = self._since
        return self._ran_s + (time.monotonic() - since if since is not None else 0.0)

    def company(self) -> set[int] | None:
        """The processes of all guests of the round; None once one of them has ended."""
        guests = [slot._guest for slot in self._slices.slots if slot._guest]
        processes = {process for guest in guests for process in guest.members()}
        left = any(slot._monitor and slot._left for slot in self._slices.slots)
        if left or not self._company <= processes:
            return None
        self._company = processes
        return processes

    def resume(self) -> None:
        """Let the guest run."""
        if self._monitor:
            self._since = time.monotonic()
            self._monitor.resume()

    def stop(self) -> None:
        """Stop the guest and its clock."""
        if self._monitor and self._since is not None:
            self._monitor.stop()
            self._ran_s += time.monotonic() - self._since
            self._since = None

    def _leave(self) -> None:
        if not self._left:
            self._left = True
            self._slices.leave(self)
