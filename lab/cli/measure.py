# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands that measure without a claim: doctor, build, matrix, across, scaling, diff."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from lab.base.errors import LabError, UsageError
from lab.base.text import number, percent, visible
from lab.build import source_lines
from lab.cli import cell_options, ending, options
from lab.cli.verb import Verb
from lab.commands import across, call_costs, command_costs, line_costs, result_tables, scaling
from lab.commands import dry_run as plan
from lab.inputs import series, workload
from lab.inputs.queue_settings import Settings
from lab.inputs.terms import Engine
from lab.measure import host, matrix
from lab.measure.cell import STOCK
from lab.measure.cost import Cost
from lab.measure.matrix import Selection
from lab.measure.runner import Outcome
from lab.measure.session import Session
from lab.report import cell_tables, tables
from lab.report.run_builder import RunBuilder, host_record
from lab.report.run_record import TableRecord

_WORKLOAD = "randread_burst"
_SCALED_WORKLOAD = "randwrite_uring"
# So many cache lines are shown of a simulated kernel.
_LINES = 8


@click.command("doctor", cls=Verb, example="lab doctor")
@ending.as_json
@click.option("--fresh", is_flag=True, help="Check the engines again.")
@options.measuring
def doctor_command(session: Session, fresh: bool) -> None:
    """Check this machine, and boot a guest with each engine.

    The lab keeps the answer until the machine reboots. The first call builds the kernel that
    `lab run` uses.
    """
    report = session.check_engines(fresh=fresh).host
    ending.answer(host_record(report), lambda: click.echo("\n".join(host.lines(report))))


@click.command("build", cls=Verb, example="lab build --patch 0001-fix.patch")
@ending.as_json
@options.tree
@options.patches
@options.building
def build_command(session: Session, spec: str, patches: tuple[Path, ...]) -> None:
    """Build a kernel and print its path."""
    built = session.kernel(spec, patches)
    text = f"Linux {visible(built.release)}\nkernel id {built.id}\n{built.vmlinux}"
    document = ending.Built(id=built.id, release=built.release, image=str(built.vmlinux))
    ending.answer(document, lambda: click.echo(text))


@click.command(
    "matrix", cls=Verb, example="lab matrix --topology nullb_mq --workload randread_burst"
)
@ending.as_json
@options.measuring
@options.tree
@options.patches
@cell_options.selection
@click.option(
    "--engine",
    type=click.Choice([e.value for e in Engine]),
    help="What executes the guest; default: kvm where it works, else tcg.",
)
@options.dry_run
def matrix_command(
    session: Session,
    spec: str,
    patches: tuple[Path, ...],
    selection: Selection,
    engine: str | None,
    dry_run: bool,
) -> None:
    """Measure schedulers, topologies and workloads on one kernel.

    The cells are those of the profile's matrix, or the ones that options select. The lab does not
    repeat a boot that is on record for this kernel and this host.
    """
    profile = session.profile
    wanted = Engine(engine) if engine else None
    planned = matrix.cells(profile, selection, wanted or Engine.TCG)
    matrix.require_used(selection, planned)
    if dry_run:
        kernel_line = f"{spec or profile.tree}, {len(patches)} patch(es)"
        each = 1 if planned[0].cell.engine.deterministic else profile.boots
        ending.planned(plan.of_cells([kernel_line], planned, each, session.durations))
        return
    report = session.check_engines(spec).host
    kernel = session.kernel(spec, patches)
    planned = matrix.cells(profile, selection, host.chosen(report, wanted))
    outcomes = session.outcomes(
        [planned_cell.on(kernel) for planned_cell in planned], profile.boots
    )
    title = f"Linux {kernel.release}, {profile.title}"
    run = RunBuilder(session, title).measured(outcomes)
    ending.run(run, session)
    if failed := cell_tables.failures(run):
        raise LabError(f"{sum(bool(cell.error) for cell in run.cells)} cell(s) failed:\n{failed}")


@click.command(
    "across", cls=Verb, example="lab across debian:5.10 debian:6.1 debian:6.12 --scheduler none"
)
@ending.as_json
@click.argument("specs", metavar="SOURCE...", nargs=-1)
@cell_options.cell_part("topology", "nullb_mq", "topology_name")
@cell_options.cell_part("workload", name="workload_name", shown=_WORKLOAD)
@cell_options.fio(several=False)
@cell_options.queue
@cell_options.cell_part("scheduler", ("mq-deadline",), "schedulers")
@options.deterministic
@cell_options.machine()
@options.cpus
@options.rows
@options.measuring
@cell_options.device("topology_name")
def across_command(
    session: Session,
    specs: tuple[str, ...],
    topology_name: str,
    workload_name: str | None,
    fio: str,
    queue: Settings,
    schedulers: tuple[str, ...],
    engine: str,
    machine: str,
    cpus: int,
    rows: int,
) -> None:
    """Compare what an I/O costs on several kernels, by function.

    SOURCE is debian:VERSION, release:VERSION, git:PATH@REV or tar:PATH; give two or more, the
    oldest first. Costs are instructions for exact, and nanoseconds of all vCPUs for sim.
    """
    sources = tuple(dict.fromkeys(specs))
    if len(sources) < 2:
        raise UsageError("one kernel is compared with nothing", hint="give two sources or more")
    work = cell_options.one_workload(workload_name, fio) or _WORKLOAD
    selection = Selection(
        (topology_name,), schedulers, (work,), cpus=cpus, machine=machine, queue=queue
    )
    planned = matrix.by_scheduler(session.profile, selection, Engine(engine))
    session.check_engines(sources[-1]).host.require(Engine(engine))
    measured = across.measure(session, sources, planned)
    outcomes = [each.outcome for by_kernel in measured for each in by_kernel]
    title = f"{work} on {topology_name}: {' '.join(each.kernel for each in measured[0])}"
    run = RunBuilder(session, title).measured(outcomes, across.tables(measured, rows))
    ending.run(run, session, phases=False)
    if failed := sum(bool(outcome.error) for outcome in outcomes):
        raise LabError(f"{failed} guest(s) failed")


@click.command("scaling", cls=Verb, example="lab scaling sq_batch_dispatch --cpus 1,4,16")
@ending.as_json
@click.argument("name", metavar="[SERIES]", required=False)
@cell_options.cell_part("topology", "nullb_mq")
@cell_options.cell_part("workload", name="workload_name", shown=_SCALED_WORKLOAD)
@cell_options.fio(several=False)
@cell_options.queue
@cell_options.cell_part("scheduler", matrix.SCHEDULERS, "schedulers")
@cell_options.machine("arm128")
@click.option(
    "--cpus",
    default=",".join(map(str, scaling.USUAL_CPUS)),
    show_default=True,
    metavar="N[,N...]",
    callback=lambda _context, _option, text: _numbers(text),
    help="Numbers of vCPUs, a guest for each.",
)
@options.measuring
@cell_options.device("topology")
def scaling_command(
    session: Session,
    name: str | None,
    topology: str,
    workload_name: str | None,
    fio: str,
    queue: Settings,
    schedulers: tuple[str, ...],
    machine: str,
    cpus: tuple[int, ...],
) -> None:
    """Simulate throughput over the number of CPUs.

    The lab simulates each scheduler without and with the series, with one fio job for each CPU.
    """
    patch_series = series.get(name).configured(session.config) if name else None
    work = cell_options.one_workload(workload_name, fio) or _SCALED_WORKLOAD
    scaling.require_possible(machine, work, cpus)
    spec = patch_series.tree if patch_series else ""
    fragments = patch_series.kernel if patch_series else ()
    session.check_engines(spec, fragments).host.require(Engine.SIM)
    if patch_series:
        arms = patch_series.all_arms
        kernels = {
            arm: session.kernel(spec, patch_series.patches(arms[arm].patches), fragments)
            for arm in ("before", "after")
        }
    else:
        kernels = {STOCK: session.kernel()}
    curves = scaling.measure(session, kernels, topology, work, schedulers, machine, cpus, queue)
    measured = patch_series.name if patch_series else "Stock kernel"
    title = f"{measured}: {work} on {topology}, simulated {machine}"
    table = result_tables.of_scaling(title, cpus, curves)
    run = RunBuilder(session, title).measured(
        [outcome for curve in curves for outcome in curve.outcomes], (table,)
    )
    ending.run(run, session)
    if failed := sum(bool(each.error) for curve in curves for each in curve.outcomes):
        raise LabError(f"{failed} guest(s) failed")


def _numbers(text: str) -> tuple[int, ...]:
    """Numbers of CPUs out of N,N,..., in order. Raises UsageError for anything else."""
    words = text.split(",")
    # isdigit() takes digits that int() refuses; and int() refuses thousands of them.
    if not all(re.fullmatch("[0-9]{1,9}", word) and int(word) > 0 for word in words):
        raise UsageError(f"not numbers of CPUs: {text!r}", hint="write --cpus 1,2,4,8")
    return tuple(sorted({int(word) for word in words}))


@click.command("diff", cls=Verb, example="lab diff --scheduler none --scheduler mq-deadline")
@ending.as_json
@cell_options.cell_part("topology", "nullb_mq", "topology_name")
@cell_options.cell_part("workload", name="workload_name", shown=_WORKLOAD)
@cell_options.fio(several=False)
@cell_options.run
@cell_options.queue
@cell_options.cell_part("scheduler", ("mq-deadline",), "schedulers")
@options.deterministic
@cell_options.machine()
@options.cpus
@options.rows
@click.option(
    "--lines",
    "by_line",
    is_flag=True,
    help="By source line, too. It builds kernels with debug information, in minutes.",
)
@click.option(
    "--callers",
    "called",
    multiple=True,
    metavar="FUNCTION",
    help="Show who calls this function, whom it calls, and what that costs; repeatable.",
)
@options.measuring
@cell_options.device("topology_name")
@options.tree
@options.patches
def diff_command(
    session: Session,
    topology_name: str,
    workload_name: str | None,
    fio: str,
    run: str,
    queue: Settings,
    schedulers: tuple[str, ...],
    engine: str,
    machine: str,
    cpus: int,
    rows: int,
    by_line: bool,
    called: tuple[str, ...],
    spec: str,
    patches: tuple[Path, ...],
) -> None:
    """Show by function what an I/O costs more or less.

    It compares the kernel without and with patches under one scheduler, or two schedulers on one
    kernel. Costs are instructions for exact, and nanoseconds of all vCPUs for sim. With --run it
    counts a command instead of fio's I/O. With --callers the lab also follows the kernel's stacks,
    and `lab report --format svg` writes a flame graph of them.
    """
    sides = len(set(schedulers)) + bool(patches)
    if sides != 2 and not (run and sides == 1):
        raise UsageError(
            "nothing to compare, or too much",
            hint="give two --scheduler, or one --scheduler and at least one --patch",
        )
    for option in (["--lines"] if by_line else []) + (["--callers"] if called else []):
        _require_exact_io(option, Engine(engine), command=bool(run))
    work = cell_options.one_workload(workload_name, fio, run) or _WORKLOAD
    if run:
        command_costs.require_possible(Engine(engine))
        session.config = (*session.config, *workload.get(run).kernel)
    names = ("before", "after") if patches else tuple(dict.fromkeys(schedulers))
    selection = Selection(
        (topology_name,), schedulers, (work,), cpus=cpus, machine=machine, queue=queue
    )
    planned = matrix.by_scheduler(session.profile, selection, Engine(engine))
    planned *= 2 if patches else 1
    if called:
        planned = [replace(each, cell=replace(each.cell, callers=True)) for each in planned]
    session.check_engines(spec).host.require(Engine(engine))
    fragments = (*session.fragments, *((source_lines.FRAGMENT,) if by_line else ()))
    kernels = [session.kernel(spec, patches if n == "after" else (), fragments) for n in names]
    by_arm = zip(planned, kernels, names, strict=True)
    tasks = [planned_cell.on(kernel, name, kernels[0]) for planned_cell, kernel, name in by_arm]
    outcomes, costs = zip(*session.costs(tasks), strict=True)
    if run:
        shown = command_costs.tables(names, outcomes, costs, rows)
    else:
        shown = _of_ios(session, (names[0], names[1]), outcomes, costs, rows)
    if by_line:
        differences = line_costs.differences(session.store, outcomes)
        shown.append(line_costs.table((names[0], names[1]), differences, rows))
    shown += call_costs.tables(session.store, names, outcomes, called, rows)
    builder, pairs = RunBuilder(session, shown[0].title), [outcomes] if len(outcomes) == 2 else []
    ending.run(builder.measured(outcomes, tuple(shown), compared=pairs), session, phases=False)


def _require_exact_io(option: str, engine: Engine, *, command: bool) -> None:
    """Raise UsageError for an engine that does not tell calls and lines, and for a command."""
    if command:
        raise UsageError(f"{option} is for fio's I/O, not for --run", hint="leave out one")
    if engine is not Engine.EXACT:
        raise UsageError(f"{option}: {engine} does not tell that", hint="use --engine exact")


def _of_ios(
    session: Session,
    names: tuple[str, str],
    outcomes: Sequence[Outcome],
    costs: tuple[Cost, Cost],
    rows: int,
) -> list[TableRecord]:
    """What an I/O of fio's costs in two measurements; simulated, also which cache lines move, and
    the throughput.
    """
    cell = outcomes[0].task.cell
    what = "CPU ns" if cell.engine.simulated else "instructions"
    shown = [tables.of_costs(names, costs, rows, f"Kernel {what} per I/O")]
    if not cell.engine.simulated:
        return shown
    shown += [
        tables.of_lines(name, session.store.lines(outcome.boots[-1].id), _LINES)
        for name, outcome in zip(names, outcomes, strict=True)
    ]
    before, after = (outcome.value("iops") or math.nan for outcome in outcomes)
    title = (
        f"Simulated on {cell.machine} with {cell.cpus} CPUs: {number(before)} -> {number(after)} "
        f"simulated IOPS, {percent(after / before - 1, exact=False)}"
    )
    return [*shown, TableRecord(title=title)]
