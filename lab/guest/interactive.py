# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that somebody types at: the kernel, disk and programs of a cell, and a shell."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from lab.base import cache, sandbox
from lab.base.process import converse, run
from lab.base.system import QEMU
from lab.guest import boot, qemu_command, qemu_inputs
from lab.guest.orders import Orders
from lab.guest.qemu_command import Machine
from lab.inputs.terms import Engine

_INIT = Path(__file__).with_name("shell")


def talk(machine: Machine, orders: Orders) -> int:
    """Boot a machine, have it carry out the orders up to the workload, and give the terminal to it.

    It runs by the host's clock. Returns QEMU's exit status when the guest or the user ends it.
    """
    folder = cache.make_folder(machine.folder)
    steps = orders.steps[: orders.steps.index(f"phase {boot.MEASURED}")]
    shell_orders = replace(
        orders, steps=tuple(step for step in steps if not step.startswith("phase "))
    )
    argv = command(machine, folder / "initramfs.cpio")
    with cache.disk_space_matters(folder):
        qemu_inputs.write(machine, shell_orders, argv)
        _pack(machine, folder / "initramfs.cpio")
    return converse(sandbox.confined(argv, qemu_inputs.view(machine)))


def command(machine: Machine, initramfs: Path) -> list[str]:
    """The QEMU that boots a machine with its console, and QEMU's monitor, on the terminal."""
    accelerator = "kvm" if machine.engine is Engine.KVM else "tcg,thread=multi"
    append = ["console=ttyS0", "quiet", "rdinit=/shell", *qemu_command.kernel_parameters(machine)]
    return [
        *(QEMU, "-M", "q35", "-accel", accelerator),
        *(("-cpu", "host") if machine.engine is Engine.KVM else qemu_command.clock(machine)),
        *("-smp", str(machine.topology.cpus), "-m", f"{machine.memory_mib}M"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-serial", "mon:stdio"),
        *qemu_command.devices(machine),
        *("-kernel", str(machine.kernel.vmlinux), "-initrd", str(initramfs)),
        *("-append", " ".join(append)),
    ]


def _pack(machine: Machine, archive: Path) -> None:
    """The guest's root with another /init at its end: the kernel unpacks one after the other."""
    shutil.copy(_INIT, archive.with_name("shell"))
    archive.with_name("shell").chmod(0o755)
    shutil.copy(machine.guest.initramfs, archive)
    more = archive.with_name("shell.cpio")
    run(
        ["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0", "-O", str(more)],
        cwd=archive.parent,
        stdin="shell\n",
    )
    with archive.open("ab") as whole:
        whole.write(more.read_bytes())
