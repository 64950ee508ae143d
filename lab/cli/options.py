# SPDX-License-Identifier: GPL-2.0-or-later
"""Options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from lab.measure.matrix import Selection

tree = click.option(
    "--tree", "spec", metavar="SOURCE", help="debian:VERSION, git:PATH@REV or tar:PATH."
)
patches = click.option(
    "--patch",
    "patches",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A patch to apply first; may be given several times, in order.",
)
fragments = click.option(
    "--kernel",
    "fragments",
    multiple=True,
    metavar="FRAGMENT",
    help="A file of configs/kernel, without its suffix; may be given several times.",
)
profile = click.option(
    "--profile",
    "profile_name",
    default="quick",
    show_default=True,
    help="A file of configs/profile.",
)


def selection(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that pick cells of a profile; the command gets them as ``selection``."""

    @click.option("--topology", "topologies", multiple=True, help="Only this one; several times.")
    @click.option("--scheduler", "schedulers", multiple=True, help="Only this one; several times.")
    @click.option("--workload", "workloads", multiple=True, help="Only this one; several times.")
    @functools.wraps(command)
    def with_selection(
        *args: Any,
        topologies: tuple[str, ...],
        schedulers: tuple[str, ...],
        workloads: tuple[str, ...],
        **kwargs: Any,
    ) -> Any:
        return command(*args, selection=Selection(topologies, schedulers, workloads), **kwargs)

    return with_selection
