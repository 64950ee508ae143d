# SPDX-License-Identifier: GPL-2.0-or-later
"""What the agent has to do for a cell: steps, files, how much work in which runs, and deadlines."""

from __future__ import annotations

from collections.abc import Mapping

from lab.base.errors import UsageError
from lab.guest.orders import Orders
from lab.guest.qemu_command import Machine
from lab.inputs import fio_job, guest_command, queue_settings, workload
from lab.inputs.workload import Value, Workload
from lab.measure import dbench, fio_cell
from lab.measure.cell import Cell

# Deadlines in seconds, several times what was seen on a host with two busy cores: they end what
# hangs, and nothing is measured by them.
_BOOT_S = 90.0
_SETUP_S = 60.0
_WORKLOAD_S = 120.0
# Host seconds for a second of the workload: under multi-threaded TCG one, and a margin for a loaded
# host; in a deterministic guest some 30 (docs/notes/2026-11-measuring.md), and the margin again.
_FACTOR = 2.0
_DETERMINISTIC_FACTOR = 40.0
# Of a deterministic guest's own time, after which a fixed amount of I/O is taken to wait for ever.
# A guest that waits is no work for the host.
_WATCH_S = 60.0
# A simulated guest of 16 busy vCPUs took half a minute for what takes an exact guest five seconds.
_SIM_PATIENCE = 6.0
# Fio's run in a simulated guest: longer than measuring it three times takes, on a slow disk, too.
_SIM_SECONDS = 6
# A dbench client's tree takes 1 to 2 s to set up in a deterministic guest.
_PER_CLIENT_S = 5.0
# A guest that holds its disk in memory clears it first.
_PER_MIB_S = 0.05


# Steps before the workload, those of the workload, and the files of both.
Parts = tuple[list[str], list[str], dict[str, str]]


def costed(cell: Cell) -> bool:
    """Whether the plugin tells what an I/O costs."""
    return cell.engine.deterministic and cell.cost


def has_block_layer(cell: Cell) -> bool:
    """Whether what an I/O costs in the block layer is measured, if the job is fio's."""
    return costed(cell) and not cell.engine.simulated


def fio_runs(cell: Cell) -> tuple[str, ...]:
    """The fio runs of a cell by name: one; for the exact engine a warm-up and two points.

    The warm-up takes what happens only once: first allocations, first page faults. A simulated run
    has its own.
    """
    if cell.engine.simulated or not cell.cost:
        return ("many",)
    return ("few", "few", "many") if cell.engine.deterministic else ("fio",)


def command_runs(work: Workload) -> tuple[str, ...]:
    """The runs of a command by name: one, or a warm-up and two amounts."""
    return ("few", "few", "many") if guest_command.has_amount(work.command) else ("once",)


def fio_jobs(cell: Cell) -> int:
    """How many jobs a cell has; each makes a mark before and one after its I/O. dbench is one."""
    return int(cell.number(workload.JOBS)) or 1


def orders_of(cell: Cell, machine: Machine, work: Workload) -> Orders:
    """What the agent has to do for a cell."""
    guest_topology, size_mib = machine.topology, machine.size_mib
    clients = int(cell.number("clients"))
    seconds = cell.number("seconds") + cell.number("ramp_seconds")
    settings = [
        *queue_settings.steps(cell.queue, after_scheduler=False),
        *guest_topology.scheduler_steps(cell.scheduler),
        *queue_settings.steps(cell.queue, after_scheduler=True),
    ]
    steps = ["phase setup", *guest_topology.setup_steps(size_mib)]
    disk, *others = fio_cell.disks(cell, work, guest_topology)
    for other in others:
        steps += [f"disk name {other}", *guest_topology.attribute_steps(size_mib), *settings]
    steps += [f"disk name {disk}"] if others else []
    steps += [*settings, "facts"]
    steps += ["prepared"] if work.setup else []
    if work.filesystem:
        steps += [f"mkfs {work.filesystem} {work.mkfs}".rstrip(), f"mount {work.filesystem}"]
    by_tool = {"fio": _of_fio, "dbench": _of_dbench, "command": _of_command}
    before, runs, files = by_tool[work.tool](cell, work)
    if work.setup:
        files = {**files, "setup": work.setup + "\n", "folder": work.folder or "/"}
    steps += before
    if work.switches:
        runs = ["switching on", *runs, "switching off"]
    if cell.engine.deterministic and work.tool == "fio" and "ios" not in work.parameters:
        runs = [f"watch {_WATCH_S + seconds:.0f}", *runs]
    steps += ["phase workload", *runs]
    factor = _DETERMINISTIC_FACTOR if cell.engine.deterministic else _FACTOR
    usual = {
        "boot": _BOOT_S + _PER_MIB_S * guest_topology.disk_memory_mib(size_mib),
        "agent": _SETUP_S,
        "setup": _SETUP_S + _PER_CLIENT_S * clients,
        "workload": _WORKLOAD_S + factor * seconds + _PER_CLIENT_S * clients,
    }
    patience = _SIM_PATIENCE if cell.engine.simulated else 1.0
    deadlines = {phase: patience * seconds for phase, seconds in usual.items()}
    return Orders(tuple(steps), deadlines, files)


def _of_fio(cell: Cell, work: Workload) -> Parts:
    return [], [f"fio {name}" for name in fio_runs(cell)], _job_files(cell, work)


def _of_dbench(cell: Cell, _work: Workload) -> Parts:
    load, clients = dbench.load_file(), int(cell.number("clients"))
    seconds = cell.number("seconds") + cell.number("ramp_seconds")
    if not seconds.is_integer():
        raise UsageError(f"dbench takes whole seconds, not {seconds:g}", hint="change seconds")
    files = {"loadfile": load.text, "tree": load.tree}
    return [f"tree {clients}"], [f"dbench {clients} {seconds:.0f}"], files


def _of_command(_cell: Cell, work: Workload) -> Parts:
    few, many = work.exact_ios
    names = command_runs(work)
    files = {"command": work.command + "\n", "folder": work.folder or "/"}
    files |= {f"{name}.amount": str(many if name == "many" else few) for name in names}
    return [], [f"command {name}" for name in names], files


def ordered_ios(cell: Cell, work: Workload) -> dict[str, int]:
    """The I/Os of all jobs together by fio run; none of a run whose I/Os are not fixed."""
    if "ios" not in work.parameters:
        return {}
    return {
        name: work.ios_of(ios, fio_jobs(cell))
        for name, ios in _ios_of_jobs(cell, work).items()
        if ios and name in fio_runs(cell)
    }


def _ios_of_jobs(cell: Cell, work: Workload) -> dict[str, int]:
    """What each job does in the fio runs that have files of their own; 0: as much as it can."""
    if not cell.engine.deterministic:
        return {}
    few, many = work.exact_ios
    if not cell.cost:
        many //= 4  # What is counted is the same for each request.
    ios_by_run = {
        name: max(1, ios // fio_jobs(cell)) for name, ios in (("few", few), ("many", many))
    }
    return {**ios_by_run, "many": 0} if cell.engine.simulated and cell.cost else ios_by_run


def _job_files(cell: Cell, work: Workload) -> dict[str, str]:
    """The fio job files that the runs need."""
    fixed_time: dict[str, Value] = {"seconds": _SIM_SECONDS, "ramp_seconds": 0}
    files = {
        f"{name}.fio": _job_file(cell, work, {**({} if ios else fixed_time), "ios": ios})
        for name, ios in _ios_of_jobs(cell, work).items()
    } or {"fio.fio": _job_file(cell, work, {})}
    if not cell.engine.simulated:
        return files
    # What is measured is shorter than the scheduler takes to spread the jobs.
    spread = f"[global]\ncpus_allowed=0-{cell.cpus - 1}\ncpus_allowed_policy=split\n"
    head = spread if fio_jobs(cell) <= cell.cpus else ""
    # A mark begins the next run: those of the jobs are skipped.
    return {
        name: head + "".join(line for line in text.splitlines(True) if not line.startswith("exec_"))
        for name, text in files.items()
    }


def _job_file(cell: Cell, work: Workload, amount: Mapping[str, Value]) -> str:
    """The fio job file of a cell for an amount of work."""
    parameters = {**dict(cell.parameters), **amount}
    fit = fio_cell.fitted(cell, work)
    if fit is None:
        return workload.fio_job(cell.workload, parameters)
    if ios := int(parameters.get("ios", 0)):
        return fit.text(fio_job.fixed(ios))
    seconds, ramp = (float(parameters[name]) for name in ("seconds", "ramp_seconds"))
    return fit.text(fio_job.timed(seconds, ramp))


def changes(cell: Cell) -> str:
    """What was changed in the fio job that a cell's workload is, in one line; empty for others."""
    work, runs = workload.get(cell.workload), fio_runs(cell)
    ios = {name: count for name, count in _ios_of_jobs(cell, work).items() if name in runs}
    return fio_cell.changes(cell, work, ios)
