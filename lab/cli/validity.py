# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands about the simulation's validity: calibrate, validate."""

from __future__ import annotations

import os

import click

from lab.base.errors import ExitCode, LabError, UsageError
from lab.base.progress import Progress
from lab.cli import complete, ending, options
from lab.cli.verb import Verb
from lab.commands import (
    calibrate,
    validate,
    validate_curves,
    validate_disk,
    validate_functions,
)
from lab.inputs import hardware_curve, machine_model
from lab.inputs.machine_model import MachineModel
from lab.measure import loop_disk, primitives
from lab.measure.session import Session
from lab.report.run_builder import RunBuilder


@click.command("calibrate", cls=Verb, example="lab calibrate >configs/machine/mine.toml")
def calibrate_command() -> int:
    """Measure this machine, and print a machine model of it.

    It takes a minute, and nothing else should run meanwhile. The model has the range of each
    number. The lab discards disturbed repetitions.
    """
    progress = Progress()
    usual, *others = calibrate.calibrate(progress)
    click.echo(usual.text, nl=False)
    if usual.disturbed:
        progress.say(f"{usual.disturbed} repetitions were disturbed, and not used")
    for other in others:
        moved = other.model.level[-1].dirty_ns
        progress.say(f"the CPUs were moved: at times a transfer took {moved:g} ns")
    return ExitCode.DONE


@click.command("validate", cls=Verb, example="lab validate emr16")
@ending.as_json
@click.argument("machines", nargs=-1, metavar="[MODEL]...", shell_complete=complete.machines)
@click.option("--memory", is_flag=True, help="Measure and simulate this machine, too.")
@click.option("--disk", is_flag=True, help="The same, and a loop disk on it, as root.")
@click.option("--details", is_flag=True, help="Show every row.")
@options.measuring
def validate_command(
    session: Session, machines: tuple[str, ...], memory: bool, disk: bool, details: bool
) -> int:
    """Compare the simulation with measurements on real machines.

    It simulates cache-line transfers, atomic operations and locks by number of threads, reads of a
    disk that takes no time, and fio jobs by scheduler, and by number of processes or depth, with
    the time of kernel functions. It prints the mean and the worst error.
    Without MODEL it takes all machines of configs/validation.
    """
    known = sorted({*validate.recorded_machines(), *hardware_curve.known()})
    for name in machines:
        if name not in known:
            raise UsageError(
                f"nothing was measured on the machine of {name}",
                hint=f"choose of {', '.join(known)}",
            )
    wanted = machines or tuple(known)
    primitive = [
        (name, validate.hardware(name), machine_model.get(name))
        for name in wanted
        if name in validate.recorded_machines()
    ]
    if memory or disk:
        primitive += _this_machine(session, disk=disk)
    shown = []
    for name, measured, model in primitive:
        points = validate.points(measured, model, session.testbed, session.progress)
        shown += [validate.details(name, points)] if details else []
        shown.append(validate.summary(name, model, points))
        shown += validate_disk.tables(name, measured, model, session)
    curves = [
        (name, validate_curves.compare(curve, name, session))
        for name in wanted
        if name in hardware_curve.known()
        for curve in hardware_curve.get(name)
    ]
    shown += [validate_curves.table(name, compared) for name, compared in curves]
    for name, compared in curves:
        times = validate_functions.compare(compared, session.store)
        shown += validate_functions.tables(name, compared.curve.by, times)
    shown += [validate_curves.by_machine(curves)] if curves else []
    builder = RunBuilder(session, "The simulation beside real machines")
    outcomes = [outcome for _, compared in curves for outcome in compared.outcomes]
    ending.run(builder.measured(outcomes, tuple(shown)), session)
    if failed := validate_curves.failures([compared for _, compared in curves]):
        raise LabError(f"{failed} guest(s) failed")
    return ExitCode.DONE


def _this_machine(
    session: Session, *, disk: bool
) -> list[tuple[str, primitives.Measured, MachineModel]]:
    """What was measured here, and its model: one for each distance at which two CPUs were."""
    usual, *others = calibrate.calibrate(session.progress)
    measured = usual.measured
    cpus = sorted(os.sched_getaffinity(0))[: machine_model.MAX_CPUS]
    if many := [count for count in primitives.thread_counts(len(cpus)) if count > 2]:
        with session.progress.step("measuring all CPUs"):
            measured = measured | primitives.natively(many, cpus)
    if disk:
        with session.progress.step("measuring a loop disk"):
            measured = measured | loop_disk.natively(cpus)
    machines = [(measured, usual.model), *((other.measured, other.model) for other in others)]
    return [
        (f"this machine, {model.level[-1].dirty_ns:g} ns a transfer", rows, model)
        for rows, model in machines
    ]
