# SPDX-License-Identifier: GPL-2.0-or-later
"""Options of several commands: each has one name and one text.

An option of all commands that build kernels goes into building, of all that measure into measuring.
"""

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
from lab.base.toml import named
from lab.build import trust
from lab.cli import complete
from lab.inputs import kconfig, profile
from lab.inputs.terms import Engine
from lab.measure.session import Session

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]
# Where a fleet's scheduler is when nobody says where.
FLEET = "tls://127.0.0.1:8786"


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
    """Names of kernel fragments, or small. Raises UsageError for one that is not there."""
    return tuple(
        name
        if name == kconfig.SMALL
        else named(kconfig.FRAGMENTS, name, ".config", "kernel fragment").stem
        for name in names
    )


trusting = click.option(
    "--trust",
    is_flag=True,
    is_eager=True,  # before the options that ask for it
    expose_value=False,
    callback=lambda _context, _option, trusted: os.environ.update(
        {sandbox.TRUST: "1"} if trusted else {}
    ),
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
senders = click.option(
    "--from",
    "senders",
    multiple=True,
    metavar="ADDRESS",
    help="Take only patches of this sender; repeatable.",
)
rows = click.option(
    "--rows",
    default=25,
    show_default=True,
    type=click.IntRange(1),
    help="Number of functions to show.",
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
        help="Add this file of configs/kernel, such as distro, a distribution's options, or take "
        "those out: small; repeatable.",
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
