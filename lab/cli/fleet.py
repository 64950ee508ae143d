# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands of a fleet of hosts: keys, scheduler, worker."""

from __future__ import annotations

from pathlib import Path

import click

from lab.base.progress import Progress
from lab.cli import options

_keys = click.option(
    "--keys",
    type=click.Path(path_type=Path),
    help="The folder that `lab fleet keys` made; default, on one host: the lab's own keys.",
)


@click.group("fleet")
def fleet() -> None:
    """Boot deterministic guests on many hosts, by dask.distributed.

    On one host: lab fleet scheduler. On each: lab fleet worker ADDRESS. Then LAB_FLEET=ADDRESS
    before any command that measures, or --fleet ADDRESS with it (docs/fleet.md).
    """


@fleet.command("keys")
@click.argument("folder", type=click.Path(path_type=Path))
def keys_command(folder: Path) -> None:
    """Make the key that all hosts of a fleet need; who has it may run programs on all of them.

    Example: lab fleet keys ~/fleet
    """
    options.fleet_module("network").make_keys(folder)
    click.echo(f"{folder}: copy it to every host of the fleet, and to nobody else")


@fleet.command("scheduler")
@click.option("--address", default=options.FLEET, show_default=True, help="Where to listen.")
@_keys
def scheduler_command(address: str, keys: Path | None) -> None:
    """Bring the hosts of a fleet and those who use it together.

    Example: lab fleet scheduler --address tls://0.0.0.0:8786 --keys ~/fleet
    """
    options.fleet_module("servers").run_scheduler(address, keys, Progress())


@fleet.command("worker")
@click.argument("address", default=options.FLEET)
@_keys
def worker_command(address: str, keys: Path | None) -> None:
    """Boot guests on this host for a fleet.

    Example: lab fleet worker tls://head.example.org:8786 --keys ~/fleet
    """
    options.fleet_module("servers").run_worker(address, keys, Progress())
