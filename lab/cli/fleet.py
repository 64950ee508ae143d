# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands of a fleet of hosts: keys, scheduler, worker."""

from __future__ import annotations

from pathlib import Path

import click

from lab.base.progress import Progress
from lab.cli import options
from lab.cli.verb import VerbGroup


@click.group("fleet", cls=VerbGroup, example="lab fleet scheduler")
def fleet() -> None:
    """Boot deterministic guests on many hosts.

    One host runs `lab fleet scheduler`, each host `lab fleet worker ADDRESS`. Commands that measure
    take the address with --fleet or from LAB_FLEET (docs/fleet.md).
    """


@fleet.command("keys", example="lab fleet keys ~/fleet")
@click.argument("folder", type=click.Path(path_type=Path))
def keys_command(folder: Path) -> None:
    """Make the key that all hosts of a fleet need.

    Whoever has it can run programs on all of them.
    """
    options.fleet_module("network").make_keys(folder)
    click.echo(f"{folder}: copy it to every host of the fleet, and to nobody else")


@fleet.command(
    "scheduler", example="lab fleet scheduler --address tls://0.0.0.0:8786 --fleet-keys ~/fleet"
)
@click.option("--address", default=options.FLEET, show_default=True, help="Where to listen.")
@options.fleet_keys
def scheduler_command(address: str, fleet_keys: Path | None) -> None:
    """Run the scheduler, which connects hosts and commands."""
    options.fleet_module("servers").run_scheduler(address, fleet_keys, Progress())


@fleet.command(
    "worker", example="lab fleet worker tls://head.example.org:8786 --fleet-keys ~/fleet"
)
@click.argument("address", default=options.FLEET)
@options.fleet_keys
def worker_command(address: str, fleet_keys: Path | None) -> None:
    """Boot guests on this host for a fleet."""
    options.fleet_module("servers").run_worker(address, fleet_keys, Progress())
