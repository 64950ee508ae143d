# SPDX-License-Identifier: GPL-2.0-or-later
"""Options of several commands: each has one name and one text.

An option of all commands that build kernels goes into building, of all that measure into measuring.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from lab.base import sandbox
from lab.base.errors import UsageError
from lab.base.toml import named
from lab.build import trust
from lab.cli import complete
from lab.cli.complete import Completion
from lab.inputs import device_line, kconfig, profile, queue_settings, topology, workload
from lab.inputs.queue_settings import Settings
from lab.inputs.terms import Engine
from lab.inputs.workload import Value
from lab.measure.matrix import Selection
from lab.measure.session import Session

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]
# Where a fleet's scheduler is when nobody says where.
FLEET = "tls://127.0.0.1:8786"


def _believe(_context: click.Context, _option: click.Parameter, *, trusted: bool) -> None:
    if trusted:
        os.environ[sandbox.TRUST] = "1"


def of_source(_context: click.Context, _option: click.Parameter, spec: str) -> str:
    """A source, unless it is foreign and would run unconfined."""
    trust.require(spec)
    return spec


def of_patches(
    _context: click.Context, _option: click.Parameter, paths: tuple[Path, ...]
) -> tuple[Path, ...]:
    """Patches, unless they are foreign and would run unconfined."""
    trust.require("", paths)
    return paths


def of_fragments(
    _context: click.Context, _option: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    """Names of kernel fragments. Raises UsageError for one that is not there."""
    return tuple(
        named(kconfig.FRAGMENTS, name, ".config", "kernel fragment").stem
        for name in names
        if name != "small"
    )


trusting = click.option(
    "--trust",
    is_flag=True,
    is_eager=True,  # before the options that ask for it
    expose_value=False,
    callback=lambda context, option, trusted: _believe(context, option, trusted=trusted),
    help="Run foreign code even where no sandbox works; also LAB_TRUST=1.",
)
tree = click.option(
    "--tree",
    "spec",
    default="",
    metavar="SOURCE",
    callback=of_source,
    help="debian:VERSION, release:VERSION, git:PATH@REV or tar:PATH; default: that of the series, "
    "else of the profile.",
)
patches = click.option(
    "--patch",
    "patches",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    callback=of_patches,
    help="A patch to apply; repeatable, in order.",
)
host_time = click.option(
    "--host-time",
    is_flag=True,
    help="Time guests by the host's clock, in paired boots, even without KVM.",
)
dry_run = click.option(
    "--dry-run", is_flag=True, help="Print what the command would do, and do nothing."
)
cpus = click.option(
    "--cpus",
    default=0,
    type=click.IntRange(0, 64),
    help="vCPUs; default: 1 for exact, the model's active CPUs for sim, else the topology's.",
)
# The engines that need no clock of the host's.
deterministic = click.option(
    "--engine",
    default=Engine.EXACT.value,
    show_default=True,
    type=click.Choice([Engine.EXACT.value, Engine.SIM.value]),
    help="exact counts instructions, sim simulates the CPUs of --machine.",
)
claims = click.option(
    "--claim",
    "claims",
    multiple=True,
    shell_complete=complete.claims,
    help="Only this claim; repeatable.",
)
output = click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; default: standard output, for a page the folder of results.",
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
            help="A disk in place of a topology, such as 'null_blk submit_queues=8'; once more for "
            "what lies over it, such as 'dm linear DISK 0'.",
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
        "$N it is run with two amounts, and one more is counted.",
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


def fleet_module(name: str) -> Any:
    """A module of lab.fleet. Raises UsageError where dask, an optional dependency, is missing."""
    try:
        return import_module(f"lab.fleet.{name}")
    except ModuleNotFoundError as exc:
        if exc.name not in ("dask", "distributed"):
            raise
        raise UsageError(
            "a fleet needs dask.distributed, which is not installed",
            hint=f"{sys.executable} -m pip install 'blocklab[fleet]'",
        ) from exc


def placed(session: Session, fleet: str, keys: Path | None) -> Session:
    """The session, whose deterministic guests run on a fleet where one is named."""
    if fleet:
        session.place = fleet_module("fleet").Fleet(fleet, keys, session.progress)
    return session


on_fleet = click.option(
    "--fleet",
    default="",
    envvar="LAB_FLEET",
    metavar="ADDRESS",
    help="Boot deterministic guests on this fleet; also LAB_FLEET.",
)
fleet_keys = click.option(
    "--fleet-keys",
    envvar="LAB_FLEET_KEYS",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the fleet's keys; default: this host's own; also LAB_FLEET_KEYS.",
)


def building(command: Command) -> Command:
    """The options of every command that builds kernels; it gets them as ``session``."""

    @click.option(
        "--profile",
        "profile_name",
        default="quick",
        show_default=True,
        shell_complete=complete.profiles,
        help="A file of configs/profile.",
    )
    @click.option(
        "--config",
        "fragments",
        multiple=True,
        metavar="FRAGMENT",
        callback=of_fragments,
        shell_complete=complete.fragments,
        help="Add this file of configs/kernel, such as distro, a distribution's options; "
        "repeatable.",
    )
    @trusting
    @functools.wraps(command)
    def with_session(
        *args: Any, profile_name: str, fragments: tuple[str, ...], **kwargs: Any
    ) -> Any:
        session = Session(profile.get(profile_name))
        session.config = fragments
        return command(*args, session=session, **kwargs)

    return with_session


def measuring(command: Command) -> Command:
    """The options of every command that measures; it gets them as ``session``."""

    @building
    @on_fleet
    @fleet_keys
    @functools.wraps(command)
    def with_place(
        *args: Any, session: Session, fleet: str, fleet_keys: Path | None, **kwargs: Any
    ) -> Any:
        return command(*args, session=placed(session, fleet, fleet_keys), **kwargs)

    return with_place


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
