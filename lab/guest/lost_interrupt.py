# SPDX-License-Identifier: GPL-2.0-or-later
"""Detect guests that QEMU broke: their kernel ended an interrupt, and QEMU did not notice.

Seen under multi-threaded TCG on a busy host, with QEMU 10.0.2 and stock kernels: the timer's vector
stays in service in a vCPU's local APIC for ever. So that vCPU gets no more timer interrupts, its
clock stands still, and whatever waits for it hangs (docs/notes/2026-11-measuring.md).

This cannot be the kernel's fault. Linux ends an interrupt before it handles it (apic_eoi() in
sysvec_apic_timer_interrupt(), arch/x86/kernel/apic/apic.c) and never halts inside of one, so a vCPU
that is halted with a vector in service did end it.
"""

from __future__ import annotations

import re
from pathlib import Path

from lab.guest.qmp import Monitor

_VCPU = re.compile(r"^CPU#(\d+)", re.MULTILINE)
_IN_SERVICE = re.compile(r"^ISR\s+(\d+)", re.MULTILINE)


def lost_interrupt(path: Path) -> str:
    """Which vCPU sleeps with which interrupt vector in service; empty when none does.

    path is the socket of QEMU's monitor. The guest is stopped while it is examined.
    """
    monitor = Monitor(path)
    try:
        monitor.stop()
        # What was printed of each vCPU: its number, and its registers.
        _, *parts = _VCPU.split(monitor.info("registers -a"))
        for vcpu, state in zip(parts[::2], parts[1::2], strict=True):
            if "HLT=1" not in state:
                continue
            if vector := _IN_SERVICE.search(monitor.info(f"lapic {vcpu}")):
                return f"vCPU {vcpu} sleeps with interrupt vector {vector[1]} in service"
        return ""
    finally:
        monitor.resume()
        monitor.close()
