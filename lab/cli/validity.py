# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands about the simulation's validity: calibrate, validate."""

from __future__ import annotations

import click

from lab.base.errors import ExitCode, UsageError
from lab.base.progress import Progress
from lab.cli import complete, options
from lab.cli.verb import Verb
from lab.commands import calibrate, validate
from lab.inputs import machine_model
from lab.inputs.machine_model import MachineModel
from lab.measure import primitives
from lab.measure.session import Session
from lab.report import tables


@click.command("calibrate", cls=Verb, example="lab calibrate >configs/machine/mine.toml")
def calibrate_command() -> int:
    """Measure this machine, and print a machine model of it.

    It takes a minute, and nothing else should run meanwhile. The model has the range of each
    number. The lab discards disturbed repetitions.
    """
    progress = Progress()
    found = calibrate.calibrate(progress)
    click.echo(found.text, nl=False)
    if found.disturbed:
        progress.say(f"{found.disturbed} repetitions were disturbed, and not used")
    return ExitCode.DONE


@click.command("validate", cls=Verb, example="lab validate emr16")
@click.argument("machines", nargs=-1, metavar="[MODEL]...", shell_complete=complete.machines)
@click.option("--memory", is_flag=True, help="Measure and simulate this machine, too.")
@click.option("--details", is_flag=True, help="Show every row.")
@options.measuring
def validate_command(
    session: Session, machines: tuple[str, ...], memory: bool, details: bool
) -> int:
    """Compare the simulation with measurements on real machines.

    It simulates cache-line transfers, atomic operations and locks by number of threads, and prints
    the mean and the worst error. Without MODEL it takes all machines of configs/validation.
    """
    known = validate.recorded_machines()
    for name in machines:
        if name not in known:
            raise UsageError(
                f"nothing was measured on the machine of {name}",
                hint=f"choose of {', '.join(known)}",
            )
    found = [(name, validate.hardware(name), machine_model.get(name)) for name in machines or known]
    if memory:
        found.append(_this_machine(session))
    for name, measured, model in found:
        points = validate.points(measured, model, session.testbed, session.progress)
        shown = [validate.details(name, points)] if details else []
        for table in (*shown, validate.summary(name, model, points)):
            click.echo(tables.text(table))
    return ExitCode.DONE


def _this_machine(session: Session) -> tuple[str, primitives.Measured, MachineModel]:
    model = calibrate.calibrate(session.progress).model
    with session.progress.step("measuring all CPUs"):
        threads = primitives.thread_counts(min(model.cpus, machine_model.MAX_CPUS))
        return "this machine", primitives.natively(threads), model
