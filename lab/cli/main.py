# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab command: options in, exit code out; the work is done in pipeline."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from lab import __version__
from lab.base.errors import LabError, UsageError, nearest
from lab.base.progress import Progress
from lab.cli import nightly, options, patches, run, show
from lab.commands import selfbench
from lab.inputs import profile
from lab.inputs.terms import Engine
from lab.inputs.workload import Value
from lab.measure import host, matrix, session
from lab.measure.boot_store import BootStore
from lab.measure.matrix import Selection
from lab.report import finish, matrix_text, run_builder

_INTERRUPTED = 130


class _Group(click.Group):
    """A group that knows what a mistyped command was meant to be."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise UsageError(
                f"no command is called {args[0]!r}", hint=nearest(args[0], self.commands)
            )
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80}
)
@click.version_option(__version__, prog_name="lab")
def lab() -> None:
    """Judge what a kernel patch claims about the block layer.

    Exit codes: 0 done or all claims hold, 1 a claim is refuted, 2 wrong usage or configuration,
    3 the lab, a build or a guest failed, 4 inconclusive, 130 interrupted.
    """


@lab.command()
@click.option("--fresh", is_flag=True, help="Prove the engines again, whatever the cache says.")
def doctor(fresh: bool) -> None:
    """Say what this machine has and which engines really work on it.

    Each engine is proved by booting a guest with a deadline; the answer is kept until this
    machine is rebooted. The first time this builds the kernel that `lab run` uses.

    Example: lab doctor --fresh
    """
    progress = Progress()
    chosen = profile.get("quick")
    prepared = session.prepare(chosen.tree, (), chosen.kernel, progress, fresh=fresh)
    click.echo("\n".join(host.lines(prepared.host)))


@lab.command()
@options.tree
@options.patches
@options.fragments
@options.profile
def build(
    spec: str | None, patches: tuple[Path, ...], fragments: tuple[str, ...], profile_name: str
) -> None:
    """Build a kernel and print where it lies.

    Example: lab build --tree debian:6.12 --patch 0001-fix.patch
    """
    chosen = profile.get(profile_name)
    built = session.prepare_kernel(
        spec or chosen.tree, patches, fragments or chosen.kernel, Progress()
    )
    click.echo(f"Linux {built.release}\nkernel id {built.id}\n{built.image}")


@lab.command("matrix")
@options.profile
@options.tree
@options.patches
@options.fragments
@click.option(
    "--engine",
    type=click.Choice([e.value for e in Engine]),
    help="Default: kvm where it works, else tcg.",
)
@click.option(
    "--cpus",
    default=0,
    type=click.IntRange(0, 64),
    help="vCPUs; default: the topology's, icount 1.",
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
def matrix_command(
    profile_name: str,
    spec: str | None,
    patches: tuple[Path, ...],
    fragments: tuple[str, ...],
    engine: str | None,
    cpus: int,
    topologies: tuple[str, ...],
    schedulers: tuple[str, ...],
    workloads: tuple[str, ...],
    settings: tuple[str, ...],
) -> None:
    """Run a profile's matrix of schedulers, topologies and workloads on one kernel.

    What was measured before on this kernel and this host is not measured again.

    Example: lab matrix --topology nullb_mq --workload randwrite_uring --set seconds=10
    """
    progress, started = Progress(), time.time()
    chosen = profile.get(profile_name)
    changes = tuple(map(_setting, settings))
    selection = Selection(topologies, schedulers, workloads, changes, cpus)
    planned = matrix.cells(chosen, selection, _engine(engine) or Engine.TCG)
    matrix.require_used(selection, planned)
    store = BootStore()
    prepared = session.prepare(spec or chosen.tree, patches, fragments or chosen.kernel, progress)
    outcomes = session.measured_matrix(prepared, chosen, selection, engine, store, progress)
    title = f"Linux {prepared.kernel.release}, profile {profile_name}: {chosen.title}"
    made = run_builder.RunBuilder(store, chosen, prepared.host, title).measured(outcomes, started)
    click.echo(finish.finish(made, store).ending(progress.summary()))
    if failed := matrix_text.failures(made):
        raise LabError(f"{sum(bool(cell.error) for cell in made.cells)} cell(s) failed:\n{failed}")


@lab.command()
@click.option(
    "--topology",
    "topology_name",
    default="nullb_mq",
    show_default=True,
    help="A file of configs/guest.",
)
@click.option(
    "--workload",
    "workload_name",
    default="randread_burst",
    show_default=True,
    help="An fio workload.",
)
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    default=("mq-deadline",),
    show_default=True,
    help="One to compare kernels under it; two to compare them on one kernel.",
)
@click.option("--cpus", default=1, show_default=True, type=click.IntRange(1, 64), help="vCPUs.")
@click.option("--rows", default=25, show_default=True, help="How many functions to show.")
@options.profile
@options.tree
@options.patches
def diff(
    topology_name: str,
    workload_name: str,
    schedulers: tuple[str, ...],
    cpus: int,
    rows: int,
    profile_name: str,
    spec: str | None,
    patches: tuple[Path, ...],
) -> None:
    """Show by function what an I/O costs more or less: instructions, exact to the last digit.

    Compares the kernel without and with patches, or two schedulers on one kernel.

    Examples: lab diff --scheduler bfq --patch 0001-my.patch;
    lab diff --scheduler none --scheduler mq-deadline
    """
    if len(schedulers) + bool(patches) != 2:
        raise UsageError(
            "nothing to compare, or too much",
            hint="give two --scheduler, or one --scheduler and at least one --patch",
        )
    progress, store, chosen = Progress(), BootStore(), profile.get(profile_name)
    arms: list[tuple[str, tuple[Path, ...], str]] = (
        [("before", (), schedulers[0]), ("after", patches, schedulers[0])]
        if patches
        else [(name, (), name) for name in schedulers]
    )
    cells = []
    for _, _, scheduler in arms:
        selection = Selection((topology_name,), (scheduler,), (workload_name,), cpus=cpus)
        cells += matrix.cells(chosen, selection, Engine.ICOUNT)
    costs = []
    for (label, applied, _), cell in zip(arms, cells, strict=True):
        progress.say(f"{label}:")
        prepared = session.prepare(spec or chosen.tree, applied, chosen.kernel, progress)
        costs.append(session.cost_of(prepared, cell, store, progress))
    click.echo(matrix_text.cost_difference((arms[0][0], arms[1][0]), (costs[0], costs[1]), rows))


@lab.command("bench")
@click.option(
    "--repeat",
    default=20,
    show_default=True,
    type=click.IntRange(2),
    help="How often the same cell is run.",
)
@options.profile
def bench_command(repeat: int, profile_name: str) -> None:
    """Measure the exact engine itself: is it exact, how fast is it, how near is near-exact.

    Example: lab bench --repeat 5
    """
    progress, chosen = Progress(), profile.get(profile_name)
    prepared = session.prepare(chosen.tree, (), chosen.kernel, progress)
    if prepared.plugin is None:
        raise LabError("the plugin cannot be compiled here", hint="install a C compiler")
    sound = selfbench.repetitions(prepared, repeat, click.echo)
    sound &= selfbench.side_by_side(prepared, click.echo)
    selfbench.near_exact(prepared, 5, click.echo)
    selfbench.speed(prepared, click.echo)
    if not sound:
        raise LabError("the exact engine is not exact on this host")


def _engine(name: str | None) -> Engine | None:
    known = [engine.value for engine in Engine]
    if name is not None and name not in known:
        raise UsageError(f"no engine is called {name!r}", hint=nearest(name, known))
    return Engine(name) if name else None


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
    """Run the command line and exit with the code that --help promises."""
    try:
        status = lab.main(prog_name="lab", standalone_mode=False)
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


for _command in (
    *(run.run_command, run.check_series_command, run.control_command),
    *(show.list_, show.show, show.report_command, show.compare_command),
    *(show.schema_command, show.completion, patches.try_, patches.bisect_command),
    nightly.gate_command,
    nightly.gc_command,
):
    lab.add_command(_command)

if __name__ == "__main__":
    main()
