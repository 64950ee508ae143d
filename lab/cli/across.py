# SPDX-License-Identifier: GPL-2.0-or-later
"""The command for one cell on several kernels: across."""

from __future__ import annotations

import click

from lab.base.errors import LabError, UsageError
from lab.cli import cell_options, ending, options
from lab.cli.verb import Verb
from lab.commands import across
from lab.inputs.queue_settings import Settings
from lab.inputs.terms import Engine
from lab.measure import matrix
from lab.measure.matrix import Selection
from lab.measure.session import Session
from lab.report.run_builder import RunBuilder

_WORKLOAD = "randread_burst"


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
