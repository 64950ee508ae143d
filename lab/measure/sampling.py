# SPDX-License-Identifier: GPL-2.0-or-later
"""One boot of a job and its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lab.base.errors import GuestError
from lab.build import block_layer
from lab.guest import boot
from lab.guest.boot import Boot
from lab.guest.qemu_command import Machine
from lab.guest.time_slices import Slot
from lab.inputs import counters, queue_settings, topology
from lab.measure import call_counts, call_log, call_tree, command, cost, dbench, fio, sim_counts
from lab.measure.call_counts import Executed
from lab.measure.call_log import Call
from lab.measure.cell_orders import command_runs, costed, fio_jobs, fio_runs, ordered_ios
from lab.measure.insn_counts import (
    Phase,
    require_marks,
    run_ns,
    run_place,
    symbols,
    variables,
)
from lab.measure.insn_counts import phases as read_phases
from lab.measure.job import Job


@dataclass(frozen=True)
class Sample:
    """The numbers of one boot by metric, what the guest really was, the host's seconds, and what
    the kernel complained of.
    """

    values: Mapping[str, float]
    facts: Mapping[str, str]
    phases_s: Mapping[str, float]
    complaints: tuple[str, ...] = ()


def measure(
    job: Job,
    folder: Path,
    observe: Callable[[str], None] = lambda phase: None,
    slot: Slot | None = None,
    host_cpu: int | None = None,
) -> Sample:
    """Boot a job once in folder, where its raw outputs stay, and return its numbers.

    With a slot it shares the host with other guests, a time slice each; with a CPU of the host it
    runs on that one alone. Raises GuestError when the guest fails, is not what its topology says,
    or sends what its programs cannot have written.
    """
    machine, cell = job.at(folder, host_cpu), job.cell
    done = boot.run(machine, job.orders, observe, slot)
    for name, content in done.outputs.items():
        (folder / name).write_text(content)
    queue_settings.require_taken(cell.queue, done.facts)
    try:
        topology.require_match(cell.topology, machine.topology, cell.scheduler, done.facts)
    except GuestError as exc:
        raise _with_reason(exc, boot.driver_lines(machine)) from None
    read = {"fio": _fio, "dbench": _dbench, "command": _command}[job.work.tool]
    values = read(job, machine, done)
    if not cell.engine.deterministic:  # a deterministic guest cannot notice
        values |= done.noise
    if wrong := [name for name, value in values.items() if not math.isfinite(value)]:
        raise GuestError("corrupt", f"what the guest sent gives no number for {', '.join(wrong)}")
    return Sample(values, done.facts, done.phases_s, done.complaints)


def _with_reason(error: GuestError, messages: Sequence[str]) -> GuestError:
    """An error with the kernel's messages, if it has any."""
    if not messages:
        return error
    return GuestError(error.outcome, "\n    ".join([str(error), *messages]))


def counted_again(job: Job, folder: Path) -> dict[str, float]:
    """The counters of a job's last run out of the folder of an exact boot; none without its files.

    Raises GuestError for files that are none of the plugin's, and as call_counts.values does.
    """
    if not replace(job.machine, folder=folder).counts.exists():
        return {}
    machine = job.at(folder)
    runs = len(fio_runs(job.cell))
    phases = read_phases(machine.counts.read_text(errors="replace"))
    require_marks(phases, runs, fio_jobs(job.cell))
    return _counted(job, machine, phases, runs - 1)


def _dbench(job: Job, machine: Machine, done: Boot) -> dict[str, float]:
    log, clients = done.outputs.get("dbench.log", ""), int(job.cell.number("clients"))
    return dbench.metrics(log, clients, job.cell.number("seconds")) | _one_run(job, machine)


def _command(job: Job, machine: Machine, _done: Boot) -> dict[str, float]:
    """What a user's command cost, or one more of its amount."""
    runs, (few, many) = command_runs(job.work), job.work.exact_ios
    phases = read_phases(machine.counts.read_text(errors="replace"))
    require_marks(phases, len(runs), jobs=1)
    counted = replace(job, counters=counters.with_operands(()))

    def requests(run: int) -> float:
        return _counted(counted, machine, phases, run)[counters.REQUESTS]

    last = len(runs) - 1
    all_requests, ns, names = (
        requests(last),
        run_ns(phases, last),
        symbols(machine.kernel.system_map),
    )
    before, more = Phase(0, {}), 1
    if last:
        before, more = phases[run_place(last - 1)], many - few
        all_requests -= requests(last - 1)
        ns -= run_ns(phases, last - 1)
    spent = cost.slope(before, phases[run_place(last)], more, names)
    (machine.folder / "cost.tsv").write_text(cost.to_text(spent))
    return command.values(spent, all_requests / more, ns / more)


def _fio(job: Job, machine: Machine, done: Boot) -> dict[str, float]:
    """Fio's numbers of the last run and, from the deterministic engines, the cost of an I/O."""
    last = fio_runs(job.cell)[-1]
    last_run = fio.run(done.outputs.get(f"{last}.json", ""))
    ordered = ordered_ios(job.cell, job.work)
    if last in ordered:
        last_run.require(ordered[last])
    if not costed(job.cell):
        return last_run.values | _one_run(job, machine)
    if job.cell.engine.simulated:
        return _simulated(job, machine, last_run.longest_s)
    few = fio.run(done.outputs.get("few.json", ""))
    return last_run.values | _exact(job, machine, last_run, few)


def _one_run(job: Job, machine: Machine) -> dict[str, float]:
    """The counters of a cell that has one run, out of its raw files."""
    if not job.counters:
        return {}
    if job.cell.engine.simulated:
        executed = Executed(symbols(machine.kernel.system_map), machine.topology.driver)
        return call_counts.values(job.counters, replace(executed, log=_log(job, machine)))
    phases = read_phases(machine.counts.read_text(errors="replace"))
    require_marks(phases, 1, fio_jobs(job.cell))
    return _counted(job, machine, phases, 0)


def _counted(job: Job, machine: Machine, phases: Sequence[Phase], run: int) -> dict[str, float]:
    """The counters of a run."""
    place = run_place(run)
    executed = Executed(
        symbols(machine.kernel.system_map),
        machine.topology.driver,
        phases[place].executions,
        _log(job, machine, place),
    )
    return call_counts.values(job.counters, executed)


def _log(job: Job, machine: Machine, phase: int | None = None) -> list[Call]:
    """The calls that the plugin was to write down, in all or in one phase."""
    engine = job.cell.engine
    if not any(call_counts.wants_log(counter, engine) for counter in job.counters.values()):
        return []
    return call_log.parse(machine.calls.read_text(errors="replace"), phase)


def _exact(job: Job, machine: Machine, many: fio.Run, few: fio.Run) -> dict[str, float]:
    """The cost of an I/O: what the plugin counted, over the I/Os that were ordered."""
    ordered, jobs = ordered_ios(job.cell, job.work), fio_jobs(job.cell)
    ios = ordered.get("many", 0) - ordered.get("few", 0)
    if ios <= 0:
        what = f"{job.cell.workload} has no two amounts of I/O to tell the cost of one"
        raise GuestError("mismatch", what)
    phases = read_phases(machine.counts.read_text(errors="replace"))
    require_marks(phases, len(fio_runs(job.cell)), jobs)
    # The first run is the warm-up.
    few.require(ordered["few"], run_ns(phases, 1) / 1e9)
    many.require(ordered["many"], run_ns(phases, 2) / 1e9)
    longer_s = many.longest_s - few.longest_s
    if longer_s < 0:
        raise GuestError("corrupt", f"fio says that {ios:,} I/Os more took {-longer_s:.3f} s less")
    first, second = (phases[run_place(run)] for run in (1, 2))
    names = symbols(machine.kernel.system_map)
    io_cost = cost.slope(first, second, ios, names)
    (machine.folder / "cost.tsv").write_text(cost.to_text(io_cost))
    if job.cell.callers:
        stacks = machine.stacks.read_text(errors="replace")
        tree = call_tree.slope(stacks, run_place(1), run_place(2), ios, names)
        (machine.folder / call_tree.FILE).write_text(call_tree.to_text(tree))
    listed = "".join(f"{name}\n" for name in sorted(job.block_layer))
    (machine.folder / block_layer.FILE).write_text(listed)
    return {
        cost.TIME: longer_s * 1e9 / ios,
        cost.KERNEL: io_cost.kernel_total,
        cost.BLOCK_LAYER: io_cost.within(job.block_layer),
        cost.USER: io_cost.user,
        **_counted(job, machine, phases, 2),
        "measured_share": 100 * (first.total + second.total) / sum(p.total for p in phases),
    }


def _simulated(job: Job, machine: Machine, fio_runtime_s: float) -> dict[str, float]:
    """What the simulation says of an I/O: fio's own numbers are also of what is not measured."""
    phases = sim_counts.phases(machine.counts.read_text(errors="replace"))
    system_map, scaled = machine.kernel.system_map, job.cell.variants
    names = symbols(system_map), variables(system_map)
    nominal, *variants = sim_counts.simulated(phases, *names, fio_runtime_s, 1 + len(scaled))
    (machine.folder / "cost.tsv").write_text(cost.to_text(nominal.cost))
    (machine.folder / "lines.tsv").write_text(sim_counts.to_text(nominal.lines))
    values = nominal.values()
    for costs, variant in zip(scaled, variants, strict=True):
        values |= {sim_counts.variant(name, costs): n for name, n in variant.values().items()}
    return values
