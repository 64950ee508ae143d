# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that QEMU broke: it lost the end of an interrupt, so a vCPU gets none of that kind again.

Seen under multi-threaded TCG on a busy host, with QEMU 10.0.2 and stock kernels: the local APIC of
a vCPU keeps the timer's vector in service for ever, so the vCPU's clock stands still, and whatever
waits for it hangs (docs/measuring.md). Linux ends every interrupt before it returns from it
and halts in none: a vCPU that sleeps with a vector in service is QEMU's work, whatever its kernel.
"""

from __future__ import annotations

import re
from pathlib import Path

from lab.guest.qmp import Monitor

_VCPU = re.compile(r"^CPU#(\d+)", re.MULTILINE)
_IN_SERVICE = re.compile(r"^ISR\s+(\d+)", re.MULTILINE)


def lost_interrupt(path: Path) -> str:
    """The vCPU, and the vector, of which QEMU lost the end; nothing when all is well.

    path is the socket of QEMU's monitor. The guest stands still while it is examined.
    """
    monitor = Monitor(path)
    try:
        monitor.stop()
        asleep = [vcpu for vcpu, state in _vcpus(monitor.ask("registers -a")) if "HLT=1" in state]
        for vcpu in asleep:
            if vector := _IN_SERVICE.search(monitor.ask(f"lapic {vcpu}")):
                return f"vCPU {vcpu} sleeps with interrupt vector {vector[1]} in service"
        return ""
    finally:
        monitor.resume()
        monitor.close()


def _vcpus(registers: str) -> list[tuple[str, str]]:
    """The number and the registers of every vCPU."""
    _, *parts = _VCPU.split(registers)
    return list(zip(parts[::2], parts[1::2], strict=True))
