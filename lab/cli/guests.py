# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands that show a guest to whoever wants to see it: shell, rerun."""

from __future__ import annotations

from dataclasses import replace

import click

from lab.base import cache
from lab.base.errors import ExitCode, UsageError, nearest
from lab.build import trust
from lab.cli import cell_options, complete, ending, options
from lab.cli.verb import Verb
from lab.commands import rerun
from lab.guest import interactive
from lab.inputs import series, workload
from lab.inputs.queue_settings import Settings
from lab.inputs.series import Arm, Series
from lab.inputs.terms import Engine
from lab.measure import fio_cell, matrix, recorded
from lab.measure.cell import Cell, Task, resolved
from lab.measure.cell_orders import changes
from lab.measure.job import resolve
from lab.measure.session import Session

# What a guest is without a series that says so: a disk that needs no device, and what reads it.
_TOPOLOGY, _SCHEDULER, _WORKLOAD = "nullb", "none", "randread_burst"


@click.command("shell", cls=Verb, example="lab shell bfq_burst_merge --arm before")
@click.argument("name", metavar="[SERIES]", default="", shell_complete=complete.a_series)
@click.option("--arm", default="after", show_default=True, help="An arm of the series.")
@cell_options.cell_part("topology")
@cell_options.cell_part("scheduler")
@cell_options.cell_part("workload", name="work")
@cell_options.fio(several=False)
@cell_options.queue
@options.tree
@options.building
@cell_options.device("topology")
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
    """Open a shell in a guest: the kernel and disk of a cell.

    The cell is that of the series' first claim, else nullb, none, randread_burst. The guest has fio
    and dbench, and no network; it runs by the host's clock. The lab keeps nothing of it.
    """
    patch_series = series.get(name).configured(session.config) if name else None
    work = cell_options.one_workload(work, fio)
    cell, side = _cell(patch_series, arm, topology, scheduler, work, queue)
    tree = spec or (patch_series.tree if patch_series else "")
    patches = patch_series.patches(side.patches) if patch_series else ()
    trust.require(tree, patches)
    fragments = (*patch_series.kernel, *workload.get(cell.workload).kernel) if patch_series else ()
    kernel = session.kernel(tree, patches, fragments)
    engine = session.testbed.host.best_wall_clock()
    task = Task(cell=replace(cell, engine=engine), kernel=kernel, arm=arm)
    with cache.scratch() as folder:
        job = resolve(task, session.testbed)
        if job.refusal:
            raise UsageError(job.refusal)
        session.progress.say(f"Linux {kernel.release}: {task}, {cell.cpus} vCPUs")
        if changed := changes(cell):
            session.progress.say(changed)
        interactive.talk(job.at(folder), job.orders)
    return ExitCode.DONE


def _cell(
    patch_series: Series | None, arm: str, topology: str, scheduler: str, work: str, queue: Settings
) -> tuple[Cell, Arm]:
    """What the guest is, out of the series' first claim and what the user says else."""
    sides = patch_series.all_arms if patch_series else {arm: Arm(patches=series.SERIES)}
    if arm not in sides:
        raise UsageError(f"no arm is called {arm!r}", hint=nearest(arm, sides))
    side = sides[arm]
    claim = next(iter(patch_series.all_claims.values())) if patch_series else None
    topology = topology or side.topology or (claim.topology if claim else _TOPOLOGY)
    scheduler = scheduler or side.scheduler or (claim.scheduler if claim else _SCHEDULER)
    work = work or (claim.workload if claim else _WORKLOAD)
    matrix.require_known(
        [topology],
        [scheduler],
        [work],
        own_schedulers=patch_series.schedulers if patch_series else (),
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
        hw_queues=side.hw_queues,
        kernel_parameters=side.kernel_parameters,
        queue=queue,
    )
    fio_cell.require_possible(cell)
    return cell, side


@click.command("rerun", cls=Verb, example="lab rerun last --console")
@ending.as_json
@click.argument("boot", default="last", shell_complete=complete.boots)
@click.option("--console", is_flag=True, help="Print the kernel's console while it boots.")
@click.option(
    "--gdb", is_flag=True, help="Have QEMU wait for gdb, and print the command that attaches it."
)
@options.measuring
def rerun_command(session: Session, boot: str, console: bool, gdb: bool) -> int:
    """Repeat one boot, and compare its numbers.

    BOOT is an id, the beginning of one, or `last`. The kernel must be in the cache. A deterministic
    guest gives the same numbers, to the last digit.

    Exit codes: 0 equal, timed by the host's clock, or debugged. 3 it failed or differs.
    """
    repeated = rerun.run(recorded.find(session.store, boot), session, console=console, gdb=gdb)
    ending.answer(_record(repeated), lambda: click.echo(rerun.text(repeated), nl=False))
    timed = not repeated.recorded.cell.engine.deterministic and not repeated.failure
    return ExitCode.DONE if repeated.equal or timed or repeated.debugged else ExitCode.FAILED


def _record(repeated: rerun.Repeated) -> ending.RerunRecord:
    then = repeated.recorded.values
    numbers = {
        metric: ending.Number(then=then.get(metric), now=repeated.now.get(metric))
        for metric in sorted({**then, **repeated.now})
        if then.get(metric) != repeated.now.get(metric)
    }
    return ending.RerunRecord(
        boot=repeated.recorded.id,
        equal=repeated.equal,
        outcome=repeated.recorded.outcome,
        failure=repeated.failure.outcome if repeated.failure else "",
        changed=repeated.changed,
        numbers={} if repeated.debugged else numbers,
    )
