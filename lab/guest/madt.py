# SPDX-License-Identifier: GPL-2.0-or-later
"""An ACPI table that lists more processors than QEMU has.

128 submit queues need 128 possible CPUs, and booting that many vCPUs is slow. QEMU can announce
CPUs that may be plugged later (``-smp 2,maxcpus=128``), listed in its MADT but not enabled. A
kernel that detects no hypervisor, and under TCG it detects none, counts these no more: since commit
f0551af02130 ("x86/topology: Ignore non-present APIC IDs in a present package") (in v6.9)
topo_register_apic() rejects them, and with commit adbf61cc47cb ("x86/acpi/boot: Correct
acpi_is_processor_usable() check again") (after v6.18, and in v6.12.117) acpi_is_processor_usable()
does.

So QEMU gets a second MADT that lists all of them as enabled, which ``acpi_apic_instance=2`` makes
the kernel read, and ``maxcpus=`` keeps it from starting those that do not exist. Layout: ACPI
specification 6.5, section 5.2.12.
"""

from __future__ import annotations

import struct

_LAPIC_ADDRESS = 0xFEE00000
_IOAPIC_ADDRESS = 0xFEC00000
_PCAT_COMPATIBLE = 1
_LEVEL_HIGH = 0xD
# ISA IRQ -> (global interrupt, flags), as QEMU's own MADT says for q35 and pc.
_OVERRIDES = {0: (2, 0), **{irq: (irq, _LEVEL_HIGH) for irq in (5, 9, 10, 11)}}
_MAX_LOCAL_APIC = 255


def table(cpus: int) -> bytes:
    """A complete MADT with cpus enabled local APICs, ids 0 to cpus-1.

    Raises ValueError for a number that 8-bit APIC ids cannot express.
    """
    if not 1 <= cpus <= _MAX_LOCAL_APIC:
        raise ValueError(f"{cpus} processors do not fit a MADT of local APICs")
    body = struct.pack("<II", _LAPIC_ADDRESS, _PCAT_COMPATIBLE)
    for cpu in range(cpus):
        body += struct.pack("<BBBBI", 0, 8, cpu, cpu, 1)
    body += struct.pack("<BBBBII", 1, 12, 0, 0, _IOAPIC_ADDRESS, 0)
    for irq, (interrupt, flags) in _OVERRIDES.items():
        body += struct.pack("<BBBBIH", 2, 10, 0, irq, interrupt, flags)
    body += struct.pack("<BBBHB", 4, 6, 0xFF, 0, 1)
    header = struct.pack(
        "<4sIBB6s8sI4sI", b"APIC", 36 + len(body), 3, 0, b"LAB   ", b"LABMADT ", 1, b"LAB ", 1
    )
    whole = bytearray(header + body)
    whole[9] = -sum(whole) & 0xFF
    return bytes(whole)
