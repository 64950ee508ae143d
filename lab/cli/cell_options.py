# SPDX-License-Identifier: GPL-2.0-or-later
"""Options that say what a cell is: its disk, its queue, its scheduler, and what runs there."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import click

from lab.base.errors import UsageError
from lab.cli import complete
from lab.cli.complete import Completion
from lab.cli.options import Command, Decorator, cpus
from lab.inputs import device_line, queue_settings, topology, workload
from lab.inputs.queue_settings import Settings
from lab.inputs.workload import Value
from lab.measure.matrix import Selection
from lab.measure.session import Session


def machine(default: str = "") -> Decorator:
    """The option for a machine model."""
    return click.option(
        "--machine",
        default=default,
        metavar="MODEL",
        show_default=bool(default),
        shell_complete=complete.machines,
        help="A file of configs/machine, for the engine sim.",
    )


_CELL_PARTS: dict[str, tuple[str, Completion]] = {
    "topology": ("A file of configs/guest", complete.topologies),
    "scheduler": ("An I/O scheduler", complete.schedulers),
    "workload": ("A file of workloads", complete.workloads),
}


def cell_part(
    part: str, default: str | Sequence[str] = "", name: str = "", shown: str = ""
) -> Decorator:
    """The option for a topology, a scheduler or a workload; repeatable where default is a sequence.

    The command gets it as name, else as part. shown is the default that the command itself takes.
    """
    text, completion = _CELL_PARTS[part]
    several = not isinstance(default, str)
    return click.option(
        f"--{part}",
        name or part,
        default=default,
        multiple=several,
        show_default=shown or bool(default),
        shell_complete=completion,
        help=f"{text}; repeatable." if several else f"{text}.",
    )


def _fio_workload(_context: click.Context, _option: click.Parameter, written: Any) -> Any:
    """The names of the workloads that fio lines or job files make, or of one."""
    if isinstance(written, tuple):
        return tuple(map(workload.of_line_or_file, written))
    return workload.of_line_or_file(written) if written else ""


def queue(command: Command) -> Command:
    """The option that sets attributes of the disk's queue; the command gets them as ``queue``."""
    return click.option(
        "--queue",
        multiple=True,
        metavar="ATTRIBUTE=VALUE",
        callback=lambda _context, _option, texts: tuple(map(queue_settings.parse, texts)),
        help="An attribute of the disk's queue/ in sysfs, such as nr_requests=64 or "
        "iosched/low_latency=0; repeatable, in order.",
    )(command)


def device(parameter: str) -> Decorator:
    """The option that makes a disk of a line; its name goes into the command's parameter for the
    topology, or for topologies, and the kernel gets the fragments that the disk needs.
    """

    def decorate(command: Command) -> Command:
        @click.option(
            "--device",
            "layers",
            multiple=True,
            metavar="LINE",
            callback=lambda _context, _option, texts: device_line.read(texts) if texts else "",
            help="A disk in place of a topology, such as 'null_blk submit_queues=8'; repeat it for "
            "a layer above it: 'dm linear DISK 0', 'md raid0 2' or 'loop'.",
        )
        @functools.wraps(command)
        def with_device(*args: Any, layers: str, session: Session, **kwargs: Any) -> Any:
            if layers:
                several = isinstance(kwargs[parameter], tuple)
                kwargs[parameter] = (*kwargs[parameter], layers) if several else layers
                session.config = (*session.config, *topology.get(layers).kernel)
            return command(*args, session=session, **kwargs)

        return with_device

    return decorate


def one_workload(name: str | None, fio: str, run: str = "") -> str:
    """The workload that one of these options names, or none; UsageError for several."""
    named_by = {"--workload": name, "--fio": fio, "--run": run}
    if len(several := [option for option, work in named_by.items() if work]) > 1:
        raise UsageError(f"{' and '.join(several)} each name a workload", hint="leave out one")
    return name or fio or run


def run(command: Command) -> Command:
    """The options that make a workload of a shell command; the command gets its name as ``run``."""

    @click.option(
        "--run",
        "text",
        default="",
        metavar="COMMAND",
        help="A shell command to count in the guest: $DISK is the disk, $MNT an empty folder. With "
        "$N the lab runs it for two values of N and reports the cost of one more.",
    )
    @click.option(
        "--setup",
        default="",
        metavar="COMMAND",
        help="A shell command before that of --run, not counted, such as mkfs.ext4 -q $DISK.",
    )
    @functools.wraps(command)
    def with_run(*args: Any, text: str, setup: str, **kwargs: Any) -> Any:
        if setup and not text:
            raise UsageError("--setup is for --run", hint="give --run too")
        name, changes = workload.give_command(text, setup) if text else ("", [])
        if changes:
            click.echo(f"{name}: {'; '.join(changes)}", err=True)
        return command(*args, run=name, **kwargs)

    return with_run


def fio(*, several: bool) -> Decorator:
    """The option that makes a workload of a fio command line or a job file; the command gets its
    name as ``fio``.
    """
    return click.option(
        "--fio",
        multiple=several,
        default=() if several else "",
        metavar="LINE|FILE.fio",
        callback=_fio_workload,
        help="A fio command line, as it was posted, or a job file."
        + (" Repeatable." if several else ""),
    )


def selection(command: Command) -> Command:
    """The options that pick cells of a profile; the command gets them as ``selection``."""

    @cell_part("topology", (), "topologies")
    @device("topologies")
    @cell_part("scheduler", (), "schedulers")
    @cell_part("workload", (), "workloads")
    @fio(several=True)
    @queue
    @click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE[,VALUE...]",
        callback=lambda _context, _option, texts: tuple(map(_setting, texts)),
        help="Change a workload parameter; several values make several cells; repeatable.",
    )
    @cpus
    @machine()
    @functools.wraps(command)
    def with_selection(
        *args: Any,
        topologies: tuple[str, ...],
        schedulers: tuple[str, ...],
        workloads: tuple[str, ...],
        fio: tuple[str, ...],
        queue: Settings,
        settings: tuple[tuple[str, tuple[Value, ...]], ...],
        cpus: int,
        machine: str,
        **kwargs: Any,
    ) -> Any:
        picked = Selection(
            topologies, schedulers, (*workloads, *fio), settings, cpus, machine, queue
        )
        return command(*args, selection=picked, **kwargs)

    return with_selection


def _setting(text: str) -> tuple[str, tuple[Value, ...]]:
    """NAME=VALUE[,VALUE...] as name and values, numbers where they look like numbers."""
    name, equals, values = text.partition("=")
    if not equals or not name or not values:
        raise UsageError(f"not a setting: {text!r}", hint="write --set NAME=VALUE")
    return name, tuple(_value(value) for value in values.split(","))


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
