# SPDX-License-Identifier: GPL-2.0-or-later
"""Options that several commands share. One that all measuring commands have goes into measuring."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from lab.base import sandbox
from lab.base.errors import UsageError
from lab.build import trust
from lab.cli import complete
from lab.inputs import profile
from lab.inputs.workload import Value
from lab.measure.matrix import Selection
from lab.measure.session import Session

Command = Callable[..., Any]
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


trusting = click.option(
    "--trust",
    is_flag=True,
    is_eager=True,  # before the options that ask for it
    expose_value=False,
    callback=lambda context, option, given: _believe(context, option, trusted=given),
    help="Run foreign code even where nothing confines it; also LAB_TRUST=1.",
)
tree = click.option(
    "--tree",
    "spec",
    default="",
    metavar="SOURCE",
    callback=of_source,
    help="debian:VERSION, release:VERSION, git:PATH@REV or tar:PATH; default: the profile's.",
)
patches = click.option(
    "--patch",
    "patches",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    callback=of_patches,
    help="A patch to apply; may be given several times, in order.",
)
fragments = click.option(
    "--kernel",
    "fragments",
    multiple=True,
    metavar="FRAGMENT",
    help="A file of configs/kernel, without its suffix; may be given several times.",
)

host_time = click.option(
    "--host-time",
    is_flag=True,
    help="Time guests by the host's clock, in rounds, even without KVM.",
)

dry_run = click.option(
    "--dry-run", is_flag=True, help="Print what would be built and booted, and do nothing."
)

machine = click.option(
    "--machine",
    default="",
    metavar="MODEL",
    shell_complete=complete.machines,
    help="A file of configs/machine, for the engine sim.",
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


def new_session(own: profile.Profile, fleet: str = "", keys: Path | None = None) -> Session:
    """A session with a profile; its deterministic guests run on a fleet where one is named."""
    found = Session(own)
    if fleet:
        found.place = fleet_module("fleet").Fleet(fleet, keys, found.progress)
    return found


on_fleet = click.option(
    "--fleet",
    default="",
    envvar="LAB_FLEET",
    metavar="ADDRESS",
    help="Boot deterministic guests on the hosts of this fleet (lab fleet); also LAB_FLEET.",
)
fleet_keys = click.option(
    "--fleet-keys",
    envvar="LAB_FLEET_KEYS",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the fleet's keys; default: this host's own; also LAB_FLEET_KEYS.",
)


def measuring(command: Command) -> Command:
    """The options of every command that measures; it gets them as ``session``."""

    @click.option(
        "--profile",
        "profile_name",
        default="quick",
        show_default=True,
        shell_complete=complete.profiles,
        help="A file of configs/profile.",
    )
    @trusting
    @on_fleet
    @fleet_keys
    @functools.wraps(command)
    def with_session(
        *args: Any, profile_name: str, fleet: str, fleet_keys: Path | None, **kwargs: Any
    ) -> Any:
        own = new_session(profile.get(profile_name), fleet, fleet_keys)
        return command(*args, session=own, **kwargs)

    return with_session


def selection(command: Command) -> Command:
    """The options that pick cells of a profile; the command gets them as ``selection``."""

    @click.option(
        "--topology",
        "topologies",
        multiple=True,
        shell_complete=complete.topologies,
        help="Only this topology; may be given several times.",
    )
    @click.option(
        "--scheduler",
        "schedulers",
        multiple=True,
        shell_complete=complete.schedulers,
        help="Only this scheduler; may be given several times.",
    )
    @click.option(
        "--workload",
        "workloads",
        multiple=True,
        shell_complete=complete.workloads,
        help="Only this workload; may be given several times.",
    )
    @click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE[,VALUE...]",
        callback=lambda _context, _option, texts: tuple(map(_setting, texts)),
        help="Change a workload parameter; several values make several cells.",
    )
    @click.option(
        "--cpus",
        default=0,
        type=click.IntRange(0, 64),
        help="vCPUs; default: the topology's; 1 for exact; the model's active CPUs for sim.",
    )
    @machine
    @functools.wraps(command)
    def with_selection(
        *args: Any,
        topologies: tuple[str, ...],
        schedulers: tuple[str, ...],
        workloads: tuple[str, ...],
        settings: tuple[tuple[str, tuple[Value, ...]], ...],
        cpus: int,
        machine: str,
        **kwargs: Any,
    ) -> Any:
        picked = Selection(topologies, schedulers, workloads, settings, cpus, machine)
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
