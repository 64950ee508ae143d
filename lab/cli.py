# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab command: options in, exit code out; the work is done in pipeline."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lab import (
    __version__,
    cache,
    config,
    host,
    kconfig,
    pipeline,
    plan,
    profile,
    table,
    topology,
    workload,
)
from lab.errors import LabError, UsageError
from lab.plan import Selection
from lab.progress import Progress
from lab.qemu import Engine
from lab.store import Store
from lab.workload import Value

_INTERRUPTED = 130

_tree = click.option(
    "--tree", "spec", metavar="SOURCE", help="debian:VERSION, git:PATH@REV or tar:PATH."
)
_patches = click.option(
    "--patch",
    "patches",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A patch to apply first; may be given several times, in order.",
)
_fragments = click.option(
    "--kernel",
    "fragments",
    multiple=True,
    metavar="FRAGMENT",
    help="A file of configs/kernel, without its suffix; may be given several times.",
)
_profile = click.option(
    "--profile",
    "profile_name",
    default="quick",
    show_default=True,
    help="A file of configs/profile.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, prog_name="lab")
def lab() -> None:
    """Judge what a kernel patch claims about the block layer.

    Exit codes: 0 done, 2 wrong usage or configuration, 3 the lab, a build or a guest failed,
    130 interrupted.
    """


@lab.command()
@click.option("--fresh", is_flag=True, help="Prove the engines again, whatever the cache says.")
def doctor(fresh: bool) -> None:
    """Say what this machine has and which engines really work on it.

    Each engine is proved by booting a guest with a deadline; the answer is kept until this
    machine is rebooted. The first time this builds the kernel that `lab run` uses.
    """
    progress = Progress()
    chosen = profile.get("quick")
    built = pipeline.prepare_kernel(chosen.tree, (), chosen.kernel, progress)
    bench = pipeline.prepare(built, progress, fresh=fresh)
    click.echo("\n".join(host.lines(bench.host)))


@lab.command()
@_tree
@_patches
@_fragments
@_profile
def build(
    spec: str | None, patches: tuple[Path, ...], fragments: tuple[str, ...], profile_name: str
) -> None:
    """Build a kernel and print where it lies.

    Example: lab build --tree debian:6.12 --patch 0001-fix.patch
    """
    chosen = profile.get(profile_name)
    built = pipeline.prepare_kernel(
        spec or chosen.tree, patches, fragments or chosen.kernel, Progress()
    )
    click.echo(f"Linux {built.release}\nkernel id {built.id}\n{built.image}")


@lab.command()
@_profile
@_tree
@_patches
@_fragments
@click.option(
    "--engine", type=click.Choice([*Engine]), help="Default: kvm where it works, else tcg."
)
@click.option("--topology", "topologies", multiple=True, help="Only this one; several times.")
@click.option("--scheduler", "schedulers", multiple=True, help="Only this one; several times.")
@click.option("--workload", "workloads", multiple=True, help="Only this one; several times.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE[,VALUE...]",
    help="Change a workload parameter; several values make several cells.",
)
def run(
    profile_name: str,
    spec: str | None,
    patches: tuple[Path, ...],
    fragments: tuple[str, ...],
    engine: str | None,
    topologies: tuple[str, ...],
    schedulers: tuple[str, ...],
    workloads: tuple[str, ...],
    settings: tuple[str, ...],
) -> None:
    """Run a profile's matrix of schedulers, topologies and workloads on one kernel.

    What was measured before on this kernel and this host is not measured again.

    Example: lab run --topology nullb_mq --workload randwrite_uring --set seconds=10
    """
    progress = Progress()
    chosen = profile.get(profile_name)
    selection = Selection(topologies, schedulers, workloads, tuple(map(_setting, settings)))
    planned = plan.cells(chosen, selection, Engine(engine or Engine.TCG))
    if unused := plan.unused_parameters(selection, planned):
        raise UsageError(f"no selected workload has the parameter {unused[0]!r}")
    store = Store()
    built = pipeline.prepare_kernel(
        spec or chosen.tree, patches, fragments or chosen.kernel, progress
    )
    bench = pipeline.prepare(built, progress)
    outcomes = pipeline.matrix(bench, chosen, selection, engine, store, progress)
    report = table.matrix(outcomes) + "\n" + table.hardware(outcomes)
    click.echo(f"\nLinux {built.release}, profile {profile_name}: {chosen.title}")
    if chosen.leaves_out:
        click.echo(f"Left out: {chosen.leaves_out}")
    click.echo(report)
    cache.write_atomically(store.folder / "last-table.txt", report)
    click.echo(f"Time of each phase\n{progress.summary()}")
    click.echo(f"Raw files: {store.folder / 'boots'}")
    if failed := table.failures(outcomes):
        raise LabError(f"{sum(bool(o.failure) for o in outcomes)} cell(s) failed:\n{failed}")


@lab.command("list")
def list_() -> None:
    """List topologies, workloads, profiles and kernel fragments."""
    for title, folder, load in (
        ("Topologies", topology.FOLDER, topology.get),
        ("Workloads", workload.FOLDER, workload.get),
        ("Profiles", profile.FOLDER, profile.get),
    ):
        click.echo(title)
        for name in config.names(folder):
            click.echo(f"  {name:<18} {load(name).title}")
    click.echo("Kernel fragments")
    for name in config.names(kconfig.FRAGMENTS, ".config"):
        click.echo(f"  {name}")


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


def main() -> None:
    """Run the command line and exit with the code that DESIGN and --help promise."""
    try:
        status = lab.main(standalone_mode=False)
        sys.exit(status if isinstance(status, int) else 0)
    except click.ClickException as exc:
        exc.show()
        sys.exit(UsageError.exit_code)
    except LabError as exc:
        click.echo(f"lab: {exc}", err=True)
        sys.exit(exc.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("\nlab: interrupted; finished results are kept, run it again to go on", err=True)
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
