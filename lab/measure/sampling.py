# SPDX-License-Identifier: GPL-2.0-or-later
"""One boot of a job and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.base.errors import GuestError
from lab.guest import boot
from lab.guest.boot import Boot
from lab.guest.qemu_command import Machine
from lab.guest.time_slices import Slot
from lab.inputs import counters, topology
from lab.measure import cost, dbench, fio, sim_counts
from lab.measure.insn_counts import phases as read_phases
from lab.measure.insn_counts import run_phase, symbols, variables
from lab.measure.job import Job, costed, fio_jobs, fio_runs


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
    runs on that one alone.

    Raises GuestError when the guest fails, is not what its topology says, or prints what cannot be
    understood.
    """
    machine, cell = job.at(folder, host_cpu), job.cell
    done = boot.run(machine, job.orders, observe, slot)
    for name, content in done.outputs.items():
        (folder / name).write_text(content)
    topology.require_match(cell.topology, machine.topology, cell.scheduler, done.facts)
    values = _fio_values(job, machine, done) if job.work.tool == "fio" else _dbench(job, done)
    if job.probes:
        values |= counters.values(job.probes, done.outputs)
    if not cell.engine.sealed:  # a sealed guest cannot notice
        values |= done.noise
    return Sample(values, done.facts, done.phases_s, done.complaints)


def _dbench(job: Job, done: Boot) -> dict[str, float]:
    log = done.outputs.get("dbench.log", "")
    return dbench.metrics(log, int(job.cell.number("clients")), job.cell.number("seconds"))


def _fio_values(job: Job, machine: Machine, done: Boot) -> dict[str, float]:
    """Fio's numbers of the last run and, from the exact engine, the cost of an I/O."""
    last = fio_runs(job.cell)[-1]
    values = fio.metrics(done.outputs.get(f"{last}.json", ""))
    if not costed(job.cell):
        return values
    if job.cell.engine.simulated:
        return _simulated(job, machine, values["runtime_s"])
    fewer = fio.metrics(done.outputs.get("few.json", ""))
    ios = values["ios"] - fewer["ios"]
    if ios <= 0:
        raise GuestError("garbled", "both runs of the exact engine did the same number of I/Os")
    values["guest_ns_per_io"] = (values["runtime_s"] - fewer["runtime_s"]) * 1e9 / ios
    phases = read_phases(machine.counts.read_text())
    few, many = (run_phase(phases, run, fio_jobs(job.cell)) for run in (1, 2))
    found = cost.slope(few, many, int(ios), symbols(machine.kernel.system_map))
    (machine.folder / "cost.tsv").write_text(cost.to_text(found))
    values[cost.KERNEL] = found.kernel_total
    values[cost.BLOCK_LAYER] = found.within(machine.kernel.block_layer)
    values[cost.USER] = found.user
    values["measured_share"] = 100 * (few.total + many.total) / sum(p.total for p in phases)
    return values


def _simulated(job: Job, machine: Machine, fio_runtime_s: float) -> dict[str, float]:
    """What the simulation says of an I/O: fio's own numbers are also of what is not measured."""
    phases = sim_counts.phases(machine.counts.read_text())
    own, factors = machine.kernel.system_map, job.cell.variants
    names = symbols(own), variables(own)
    found, *others = sim_counts.simulated(phases, *names, fio_runtime_s, 1 + len(factors))
    (machine.folder / "cost.tsv").write_text(cost.to_text(found.cost))
    (machine.folder / "lines.tsv").write_text(sim_counts.to_text(found.lines))
    values = found.values()
    for factor, other in zip(factors, others, strict=True):
        values |= {sim_counts.variant(name, factor): n for name, n in other.values().items()}
    return values
