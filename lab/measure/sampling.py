# SPDX-License-Identifier: GPL-2.0-or-later
"""One cell on one kernel: the orders for the agent, the boot, the sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base import cache
from lab.base.errors import GuestError, UsageError
from lab.build.guest_root import GuestRoot
from lab.build.insn_plugin import MARKER
from lab.build.kernel import Kernel
from lab.guest import boot, host_noise, qemu_command
from lab.guest.boot import Boot, Orders
from lab.guest.qemu_command import Machine
from lab.guest.time_slices import Slot
from lab.inputs import counters, topology, workload
from lab.inputs.topology import Topology
from lab.inputs.workload import Workload
from lab.measure import cost, dbench, fio
from lab.measure.cell import Cell
from lab.measure.insn_counts import phases as read_phases
from lab.measure.insn_counts import run_phase, symbols

_BOOT_S = 90.0
_SETUP_S = 60.0
_WORKLOAD_S = 120.0
# Emulated time is not host time: an icount guest runs some 30 times slower than real.
_SEALED_FACTOR = 40.0
_PER_CLIENT_S = 5.0
# A guest that holds its disk in memory clears it first.
_PER_MIB_S = 0.05


@dataclass(frozen=True)
class Sample:
    """The numbers of one boot: values by metric, their units, and what the guest really was."""

    values: Mapping[str, float]
    units: Mapping[str, str]
    facts: Mapping[str, str]
    phases_s: Mapping[str, float]


def hardware(cell: Cell) -> Topology:
    """The topology of a cell, with what the cell changes of it."""
    own = topology.get(cell.topology)
    changes = {
        "cpus": cell.cpus or own.cpus,
        "hw_queues": cell.hw_queues or own.hw_queues,
        "kernel_parameters": (*own.kernel_parameters, *cell.kernel_parameters),
    }
    return own.model_copy(update=changes)


def orders(cell: Cell) -> Orders:
    """What the agent has to do for a cell."""
    machine, work = hardware(cell), workload.get(cell.workload)
    parameters = dict(cell.parameters)
    size_mib = work.disk_mib(parameters)
    clients = int(_number(cell, "clients"))
    seconds = _number(cell, "seconds") + _number(cell, "ramp_seconds")
    steps = ["phase setup", *machine.setup_steps(size_mib), f"scheduler {cell.scheduler}", "facts"]
    files: dict[str, str] = {}
    if work.filesystem:
        steps += [f"mkfs {work.filesystem}", f"mount {work.filesystem}"]
    if work.tool == "fio":
        files = _fio_jobs(cell, work)
        runs = [f"fio {name}" for name in _fio_runs(cell)]
    else:
        load = dbench.load_file()
        files = {"loadfile": load.text, "tree": load.tree}
        if not seconds.is_integer():
            raise UsageError(f"dbench takes whole seconds, not {seconds:g}", hint="change seconds")
        steps += [f"tree {clients}"]
        runs = [f"dbench {clients} {seconds:.0f}"]
    if cell.counters:
        files["probes"] = counters.probes(cell.counters).text
        runs = ["probes on", *runs, "probes off"]
    steps += ["phase workload", *runs]
    factor = _SEALED_FACTOR if cell.engine.sealed else 2.0
    deadlines = {
        "boot": _BOOT_S + _PER_MIB_S * machine.disk_memory_mib(size_mib),
        "agent": _SETUP_S,
        "setup": _SETUP_S + _PER_CLIENT_S * clients,
        "workload": _WORKLOAD_S + factor * seconds + _PER_CLIENT_S * clients,
    }
    return Orders(tuple(steps), deadlines, files)


def _number(cell: Cell, name: str) -> float:
    """A parameter that must be a number; 0 when the workload has none of that name."""
    value = dict(cell.parameters).get(name, 0)
    try:
        return float(value)
    except ValueError as exc:
        raise UsageError(f"the parameter {name} is a number, not {value!r}") from exc


def _fio_runs(cell: Cell) -> tuple[str, ...]:
    """The fio runs of a cell by name: one, or for the exact engine a warm-up and the two points.

    The warm-up takes what happens only once: first allocations, first page faults. What is
    counted is a fixed amount of work under every engine.
    """
    if cell.counters:
        return ("many",)
    return ("few", "few", "many") if cell.engine.sealed else ("fio",)


def _fio_jobs(cell: Cell, work: Workload) -> dict[str, str]:
    """The job files that the runs need."""
    parameters = dict(cell.parameters)
    if not cell.engine.sealed and not cell.counters:
        return {"fio.fio": workload.fio_job(cell.workload, parameters)}
    jobs = _jobs(cell)
    return {
        f"{name}.fio": workload.fio_job(cell.workload, {**parameters, "ios": max(1, ios // jobs)})
        for name, ios in zip(("few", "many"), work.exact_ios, strict=True)
    }


def _jobs(cell: Cell) -> int:
    """How many fio jobs a cell has; each makes a mark before and one after its I/O."""
    return int(_number(cell, "numjobs")) or 1


def machine(
    cell: Cell, kernel: Kernel, guest: GuestRoot, folder: Path, plugin: Path | None
) -> Machine:
    """The guest that a cell needs; plugin counts instructions when the engine is sealed."""
    work = workload.get(cell.workload)
    counted = plugin if _costed(cell) else None
    return Machine(
        kernel,
        guest,
        hardware(cell),
        cell.engine,
        folder,
        size_mib=work.disk_mib(dict(cell.parameters)),
        backed=work.filesystem is not None,
        plugin=counted,
        marker=symbols(kernel.system_map).address(MARKER) if counted else 0,
        seed=1 + cell.seed,
    )


def _costed(cell: Cell) -> bool:
    """Whether the cell's instructions are counted."""
    return cell.engine.sealed and not cell.counters


def key(
    cell: Cell,
    kernel: Kernel,
    guest: GuestRoot,
    emulator: str,
    host: str,
    plugin: Path | None = None,
) -> str:
    """What makes two boots of a cell repetitions of one measurement.

    It is a hash of everything that is executed: kernel, guest root, QEMU with its firmware and
    command line, the plugin and the agent's orders; for engines that measure host time, of the
    host too.
    """
    nowhere = machine(cell, kernel, guest, Path("/folder"), None)
    return cache.key(
        "cell",
        5,
        kernel.code,
        guest.id,
        emulator,
        qemu_command.kernel_parameters(nowhere),
        qemu_command.devices(nowhere),
        qemu_command.clock(nowhere),
        [cell.engine, nowhere.topology.cpus, nowhere.memory_mib, nowhere.backed],
        orders(cell).archive().hex(),
        (plugin.parent.name if plugin else None) if _costed(cell) else None,
        None if cell.engine.sealed else host,
    )


def round_keys(alone: Sequence[str]) -> list[str]:
    """The keys of boots in rounds of several arms, from the keys that these have alone.

    Boots of one round are compared with each other only, so they are no repetitions of what was
    measured in other company. Two equal arms are told apart by their places.
    """
    company = sorted(alone)
    return [
        cache.key("round", 2, company, own, alone[:place].count(own))
        for place, own in enumerate(alone)
    ]


def measure(
    cell: Cell,
    kernel: Kernel,
    guest: GuestRoot,
    folder: Path,
    observe: Callable[[str], None] = lambda phase: None,
    plugin: Path | None = None,
    slot: Slot | None = None,
) -> Sample:
    """Boot a cell once in folder, where its raw outputs stay, and return its numbers.

    With a slot it is measured by turns with other guests.

    Raises GuestError when the guest fails, is not what its topology says, or prints what cannot be
    understood.
    """
    guest_machine = machine(cell, kernel, guest, folder, plugin)
    done = boot.run(guest_machine, orders(cell), observe, slot)
    for name, content in done.outputs.items():
        (folder / name).write_text(content)
    topology.require_match(cell.topology, hardware(cell), cell.scheduler, done.facts)
    if workload.get(cell.workload).tool == "fio":
        values, units = _fio_values(cell, guest_machine, done), {**fio.UNITS, **cost.UNITS}
    else:
        values, units = _dbench_values(cell, done), dbench.UNITS
    if cell.counters:
        set_up = counters.probes(cell.counters)
        values |= counters.values(set_up, done.outputs)
        units = {**units, **counters.units(set_up.counters)}
    if not cell.engine.sealed:  # a sealed guest cannot notice
        values, units = {**values, **done.noise}, {**units, **host_noise.UNITS}
    return Sample(values, units, done.facts, done.phases_s)


def _dbench_values(cell: Cell, done: Boot) -> dict[str, float]:
    parameters = dict(cell.parameters)
    log = done.outputs.get("dbench.log", "")
    return dbench.metrics(log, int(parameters["clients"]), float(parameters["seconds"]))


def _fio_values(cell: Cell, guest: Machine, done: Boot) -> dict[str, float]:
    """Fio's numbers of the last run and, from the exact engine, the cost of an I/O."""
    last = _fio_runs(cell)[-1]
    values = fio.metrics(done.outputs.get(f"{last}.json", ""))
    if not _costed(cell):
        return values
    fewer = fio.metrics(done.outputs.get("few.json", ""))
    ios = values["ios"] - fewer["ios"]
    if ios <= 0:
        raise GuestError("failed", "both runs of the exact engine did the same number of I/Os")
    values["guest_ns_per_io"] = (values["runtime_s"] - fewer["runtime_s"]) * 1e9 / ios
    if guest.plugin:
        phases = read_phases(guest.counts.read_text())
        few, many = (run_phase(phases, run, _jobs(cell)) for run in (1, 2))
        found = cost.slope(few, many, int(ios), symbols(guest.kernel.system_map))
        (guest.folder / "cost.tsv").write_text(cost.to_text(found))
        values["kernel_insns_per_io"] = found.kernel_total
        values["user_insns_per_io"] = found.user
        values["measured_share"] = 100 * (few.total + many.total) / sum(p.total for p in phases)
    return values
