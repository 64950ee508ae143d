# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest's QEMU has: the files that it reads, and its view of the host."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.base import cache, sandbox
from lab.base.process import paste
from lab.base.sandbox import Limits, View
from lab.base.system import KVM, QEMU
from lab.guest import madt
from lab.guest.orders import Orders
from lab.guest.qemu_command import Machine
from lab.inputs.terms import Engine

# What QEMU may write to a file beside a disk: chosen, far more than any boot took.
_MOST_FILE_BYTES = 4 * 2**30


def view(machine: Machine) -> View:
    """What a guest's QEMU has: what it boots, and its own folder to write to.

    Vng starts its helper from PATH, leaves a file in TMPDIR when it is killed, and asks HOME for
    options of the user's.
    """
    folder = str(machine.qemu_folder)
    read = [machine.folder, machine.kernel.folder, machine.guest.folder]
    read += sandbox.installation(QEMU)
    read += [machine.plugin.parent] if machine.plugin else []
    path = os.environ.get("PATH", os.defpath)
    if not machine.engine.deterministic:
        read += map(Path, (sys.prefix, sys.base_prefix))
        path = f"{Path(sys.executable).parent}{os.pathsep}{path}"
    return View(
        read=tuple(read),
        write=(machine.qemu_folder,),
        env={"PATH": path, "TMPDIR": folder, "HOME": folder, "USER": "lab"},
        devices=(KVM,) if machine.engine is Engine.KVM else (),
        limits=Limits(file_bytes=_MOST_FILE_BYTES + (machine.size_mib << 20)),
    )


def log_name(machine: Machine) -> str:
    """The file in a machine's folder that holds what QEMU, or vng, prints."""
    # virtme-ng sends the kernel's console to its standard error; deterministic guests write it
    # themselves.
    return "qemu.log" if machine.engine.deterministic else "console.log"


def write(machine: Machine, orders: Orders, argv: Sequence[str]) -> None:
    """Write what a machine boots with into its folder, and the command that boots it."""
    folder, topology = machine.folder, machine.topology
    cache.make_folder(machine.qemu_folder)
    (folder / "cell.tar").write_bytes(orders.archive())
    if topology.possible_cpus > topology.cpus:
        (folder / "madt.aml").write_bytes(madt.table(topology.possible_cpus))
    if machine.functions:
        machine.functions_file.write_text(machine.functions)
    if machine.backed and topology.drive:
        with machine.disk.open("wb") as disk:
            disk.truncate(machine.size_mib << 20)
    (folder / "command").write_text(paste(argv) + "\n")
    machine.live(machine.results).write_bytes(b"")
    (folder / log_name(machine)).write_bytes(b"")
