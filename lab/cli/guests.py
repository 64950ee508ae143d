# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands that show a guest to whoever wants to see it: shell, rerun."""

from __future__ import annotations

from dataclasses import replace

import click

from lab.base import cache
from lab.base.errors import ExitCode, UsageError, nearest
from lab.build import trust
from lab.cli import complete, ending, options
from lab.commands import rerun
from lab.guest import interactive
from lab.inputs import series, workload
from lab.inputs.queue_settings import Settings
from lab.inputs.series import Arm, Series
from lab.inputs.terms import Engine
from lab.measure import fio_cell, matrix, recorded
from lab.measure.cell import Cell, Task, resolved
from lab.measure.job import changes, resolve
from lab.measure.session import Session

# What a guest is without a series that says so: a disk that needs no device, and what reads it.
_TOPOLOGY, _SCHEDULER, _WORKLOAD = "nullb", "none", "randread_burst"


@click.command("shell")
@click.argument("name", metavar="[SERIES]", default="", shell_complete=complete.a_series)
@click.option("--arm", default="after", show_default=True, help="An arm of the series.")
@click.option(
    "--topology",
    default="",
    shell_complete=complete.topologies,
    help="Default: that of the series' first claim, or nullb.",
)
@click.option(
    "--scheduler",
    default="",
    shell_complete=complete.schedulers,
    help="Default: that of the first claim, or none.",
)
@click.option(
    "--workload",
    "work",
    default="",
    shell_complete=complete.workloads,
    help="Whose job files and file system are there.",
)
@options.fio(several=False)
@options.queue
@options.tree
@options.measuring
def shell_command(
    session: Session,
    name: str,
    arm: str,
    topology: str,
    scheduler: str,
    work: str,
    fio: str,
    queue: Settings,
    spec: str,
) -> int:
    """Open a shell in a guest: the kernel and disk of a cell, with fio and dbench.

    It is the guest of a cell up to the moment in which the cell would be measured, on the host's
    clock, without network. Nothing of it is kept.

    Examples: lab shell; lab shell bfq_burst_merge --arm before --topology nullb_mq
    """
    own = series.get(name).configured(session.config) if name else None
    work = options.one_workload(work, fio)
    cell, arms = _cell(own, arm, topology, scheduler, work, queue)
    tree = spec or (own.tree if own else "")
    patches = own.patches(arms.patches) if own and arms else ()
    trust.require(tree, patches)
    fragments = (*own.kernel, *workload.get(cell.workload).kernel) if own else ()
    kernel = session.kernel(tree, patches, fragments)
    engine = session.testbed.host.best_wall_clock()
    task = Task(cell=replace(cell, engine=engine), kernel=kernel, arm=arm)
    with cache.scratch() as folder:
        job = resolve(task, session.testbed)
        if job.refusal:
            raise UsageError(job.refusal)
        session.progress.say(f"Linux {kernel.release}: {task}, {cell.cpus} vCPUs")
        if told := changes(cell):
            session.progress.say(told)
        interactive.talk(job.at(folder), job.orders)
    return ExitCode.DONE


def _cell(
    own: Series | None, arm: str, topology: str, scheduler: str, work: str, queue: Settings
) -> tuple[Cell, Arm | None]:
    """What the guest is, out of the series' first claim and what the user says else."""
    claim = next(iter(own.all_claims.values())) if own else None
    side = own.all_arms.get(arm) if own else None
    if own and side is None:
        raise UsageError(f"no arm is called {arm!r}", hint=nearest(arm, own.all_arms))
    topology = topology or (side.topology if side else "") or (claim.topology if claim else "")
    scheduler = scheduler or (side.scheduler if side else "") or (claim.scheduler if claim else "")
    work = work or (claim.workload if claim else "") or _WORKLOAD
    topology, scheduler = topology or _TOPOLOGY, scheduler or _SCHEDULER
    matrix.require_known(
        [topology], [scheduler], [work], own_schedulers=own.schedulers if own else ()
    )
    matrix.require_possible(work, topology, "")
    # Of a workload that is swept the first of its points.
    offered = {**workload.get(work).parameters, **(claim.parameters if claim else {})}
    parameters = {k: v[0] if isinstance(v, tuple) else v for k, v in offered.items()}
    cell = resolved(
        topology_name=topology,
        scheduler=scheduler,
        workload=work,
        parameters=parameters,
        engine=Engine.TCG,
        hw_queues=side.hw_queues if side else 0,
        kernel_parameters=side.kernel_parameters if side else (),
        queue=queue,
    )
    fio_cell.require_possible(cell)
    return cell, side


@click.command("rerun")
@ending.as_json
@click.argument("boot", default="last", shell_complete=complete.boots)
@click.option("--console", is_flag=True, help="Print the kernel's console while it boots.")
@click.option("--gdb", is_flag=True, help="Have QEMU wait for a debugger, and say what to type.")
@options.measuring
def rerun_command(session: Session, boot: str, console: bool, gdb: bool) -> int:
    """Boot one boot of a run again, and compare its numbers with the recorded ones.

    BOOT is an id, the beginning of one, or `last`. The same kernel out of the cache is booted on
    the same hardware to do the same work; the exact engine gives the same numbers to the last
    digit. Exit codes: 0 equal, or timed by the host's clock, or debugged; 3 it failed or differs.

    Examples: lab rerun last --console; lab rerun 20260101-120000-1a2b3c --gdb
    """
    found = rerun.run(recorded.find(session.store, boot), session, console=console, gdb=gdb)
    ending.answer(_record(found), lambda: click.echo(rerun.text(found), nl=False))
    timed = not found.recorded.cell.engine.deterministic and not found.failure
    return ExitCode.DONE if found.equal or timed or found.debugged else ExitCode.FAILED


def _record(found: rerun.Repeated) -> ending.Repeated:
    then = found.recorded.values
    numbers = {
        metric: ending.Number(then=then.get(metric), now=found.now.get(metric))
        for metric in sorted({**then, **found.now})
        if then.get(metric) != found.now.get(metric)
    }
    return ending.Repeated(
        boot=found.recorded.id,
        equal=found.equal,
        outcome=found.recorded.outcome,
        failure=found.failure.outcome if found.failure else "",
        changed=found.changed,
        numbers={} if found.debugged else numbers,
    )
