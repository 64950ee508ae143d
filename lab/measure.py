# SPDX-License-Identifier: GPL-2.0-or-later
"""One cell on one kernel: the orders for the agent, the boot, the sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab import boot, cache, dbench, fio, qemu, topology, workload
from lab.boot import Orders
from lab.guestroot import GuestRoot
from lab.kernel import Kernel
from lab.plan import Cell
from lab.qemu import Machine

_BOOT_S = 90.0
_SETUP_S = 60.0
_WORKLOAD_S = 120.0
# Emulated time is not host time: an icount guest runs some 30 times slower than real.
_SEALED_FACTOR = 40.0
_PER_CLIENT_S = 5.0


@dataclass(frozen=True)
class Sample:
    """The numbers of one boot: values by metric, their units, and what the guest really was."""

    values: Mapping[str, float]
    units: Mapping[str, str]
    facts: Mapping[str, str]
    phases_s: Mapping[str, float]


def orders(cell: Cell) -> Orders:
    """What the agent has to do for a cell."""
    machine, work = topology.get(cell.topology), workload.get(cell.workload)
    parameters = dict(cell.parameters)
    size_mib = work.disk_mib(parameters)
    clients = int(parameters.get("clients", 0))
    seconds = float(parameters.get("seconds", 0)) + float(parameters.get("ramp_seconds", 0))
    steps = ["phase setup", *machine.setup_steps(size_mib), f"scheduler {cell.scheduler}", "facts"]
    files: dict[str, str] = {}
    if work.filesystem:
        steps += [f"mkfs {work.filesystem}", f"mount {work.filesystem}"]
    if work.tool == "fio":
        files["job.fio"] = workload.fio_job(cell.workload, parameters)
        steps += ["phase workload", "fio job.fio"]
    else:
        load = dbench.load_file()
        files |= {"loadfile": load.text, "tree": load.tree}
        steps += [f"tree {clients}", "phase workload", f"dbench {clients} {seconds:.0f}"]
    factor = _SEALED_FACTOR if cell.engine.sealed else 2.0
    deadlines = {
        "boot": _BOOT_S + (factor if cell.engine.sealed else 0.0),
        "agent": _SETUP_S,
        "setup": _SETUP_S + _PER_CLIENT_S * clients,
        "workload": _WORKLOAD_S + factor * seconds + _PER_CLIENT_S * clients,
    }
    return Orders(tuple(steps), deadlines, files)


def machine(cell: Cell, kernel: Kernel, guest: GuestRoot, folder: Path) -> Machine:
    """The guest that a cell needs."""
    work = workload.get(cell.workload)
    return Machine(
        kernel,
        guest,
        topology.get(cell.topology),
        cell.engine,
        folder,
        size_mib=work.disk_mib(dict(cell.parameters)),
        backed=work.filesystem is not None,
    )


def key(cell: Cell, kernel: Kernel, guest: GuestRoot, qemu_version: str, host: str) -> str:
    """What makes two boots of a cell repetitions of one measurement.

    It is a hash of everything that is executed: kernel, guest root, QEMU, its command line and
    the agent's orders; for engines that measure host time, of the host too.
    """
    nowhere = machine(cell, kernel, guest, Path("/folder"))
    return cache.key(
        "cell",
        1,
        kernel.id,
        guest.id,
        qemu_version,
        qemu.kernel_parameters(nowhere),
        qemu.devices(nowhere),
        [cell.engine, nowhere.topology.cpus, nowhere.memory_mib, nowhere.backed],
        orders(cell).archive().hex(),
        None if cell.engine.sealed else host,
    )


def measure(
    cell: Cell,
    kernel: Kernel,
    guest: GuestRoot,
    folder: Path,
    watch_phase: Callable[[str], None] = lambda phase: None,
) -> Sample:
    """Boot a cell once in folder, where its raw outputs stay, and return its numbers.

    Raises GuestError when the guest fails, is not what its topology says, or prints what cannot be
    understood.
    """
    done = boot.run(machine(cell, kernel, guest, folder), orders(cell), watch_phase)
    for name, content in done.outputs.items():
        (folder / name).write_text(content)
    topology.require_match(cell.topology, topology.get(cell.topology), cell.scheduler, done.facts)
    parameters = dict(cell.parameters)
    if workload.get(cell.workload).tool == "fio":
        values, units = fio.metrics(done.outputs.get("fio.json", "")), fio.UNITS
    else:
        values = dbench.metrics(
            done.outputs.get("dbench.log", ""),
            int(parameters["clients"]),
            float(parameters["seconds"]),
        )
        units = dbench.UNITS
    return Sample(values, units, done.facts, done.phases_s)
