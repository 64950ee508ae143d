# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands that show what was measured: list, show, report, compare, schema, completion."""

from __future__ import annotations

import json
from pathlib import Path

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from lab.base import cache, toml
from lab.base.errors import UsageError
from lab.base.text import visible
from lab.cli import complete, ending, options
from lab.cli.verb import Verb
from lab.commands import gate_config
from lab.inputs import counters, kconfig, machine_model, profile, series, topology, workload
from lab.measure.boot_store import BootStore
from lab.report import compare, finish, mail, record_store, run_record, terminal
from lab.report.finish import FORMATS, PROFILES
from lab.report.run_record import RunRecord

_SCHEMAS: dict[str, type[toml.Model]] = {
    "run": run_record.RunRecord,
    "series": series.Series,
    "topology": topology.Topology,
    "workload": workload.Workload,
    "counter": counters.Counter,
    "profile": profile.Profile,
    "gate": gate_config.Gate,
    "list": ending.Names,
    "dry-run": ending.Planned,
    "build": ending.Built,
    "doctor": run_record.HostRecord,
    "gc": ending.Freed,
    "rerun": ending.RerunRecord,
    "trend": ending.Trends,
    "compare": compare.RunComparison,
}
_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command("list", cls=Verb, example="lab list")
@ending.as_json
def list_() -> None:
    """List all names that options take: series, topologies, runs ..."""
    ending.answer(_names(), _listed)


def _names() -> ending.Names:
    return ending.Names(
        series=tuple(series.known()),
        topologies=tuple(toml.names(topology.FOLDER)),
        workloads=tuple(workload.known()),
        machines=tuple(toml.names(machine_model.FOLDER)),
        counters=tuple(toml.names(counters.FOLDER)),
        profiles=tuple(toml.names(profile.FOLDER)),
        fragments=tuple(toml.names(kconfig.FRAGMENTS, ".config")),
        runs=tuple(record_store.known(BootStore().folder)),
    )


def _listed() -> None:
    click.echo("Series")
    for name in series.known():
        click.echo(f"  {name:<26} {series.get(name).title}")
    for title, names, load in (
        ("Topologies", topology.known(), topology.get),
        ("Workloads", workload.known(), workload.get),
        ("Machine models", toml.names(machine_model.FOLDER), machine_model.get),
        ("Counters", counters.known(), counters.get),
        ("Profiles", toml.names(profile.FOLDER), profile.get),
    ):
        click.echo(title)
        for name in names:
            click.echo(f"  {name:<26} {load(name).title}")
    click.echo("Kernel fragments")
    for name in toml.names(kconfig.FRAGMENTS, ".config"):
        click.echo(f"  {name}")
    folder = BootStore().folder
    if ids := record_store.known(folder):
        click.echo("Runs, the newest last")
        for name in ids:
            click.echo(f"  {name:<26} {visible(_title(folder / 'runs' / name))}")


def _title(folder: Path) -> str:
    """A run's title; one record that nobody can read does not hide the others."""
    try:
        return record_store.load(folder).title
    except UsageError as exc:
        return f"({exc.what})"


@click.command(cls=Verb, example="lab show last~1")
@ending.as_json
@click.argument("run", default="last", shell_complete=complete.runs)
def show(run: str) -> None:
    """Print the results of a run, in detail.

    RUN is an id (`lab list`), the beginning of one, `last`, or `last~1` for the one before.
    """
    record = record_store.load(record_store.find(BootStore().folder, run))
    ending.answer(record, lambda: click.echo(ending.coloured(terminal.text(record)), nl=False))


@click.command("report", cls=Verb, example="lab report last --format commit")
@click.argument("run", default="last", shell_complete=complete.runs)
@click.option(
    "--format",
    "name",
    default="html",
    show_default=True,
    type=click.Choice(["html", *FORMATS, *PROFILES]),
    metavar="FORMAT",
    help="html: a page; commit: a table for a commit message; mail: a reply to the patches; b4: "
    f"a check for `b4 review`; or {', '.join(sorted(FORMATS.keys() - {'commit', 'mail', 'b4'}))}. "
    f"{', '.join(PROFILES)}: the cost of an I/O by function, or by call path "
    "after `lab diff --callers`; svg: a graph of the change.",
)
@click.option(
    "--tested-by",
    default="",
    metavar="'NAME <ADDRESS>'",
    help="For --format mail: add this Tested-by trailer, unless the patches failed.",
)
@click.option(
    "--cell",
    metavar="TEXT",
    default="",
    help="For folded, speedscope, svg: only cells with this in the name, such as 'nullb_mq bfq'.",
)
@options.output
def report_command(run: str, name: str, tested_by: str, cell: str, output: Path | None) -> None:
    """Write a report of a run: page, mail, table, flame graph.

    RUN is an id (`lab list`), the beginning of one, `last`, or `last~1` for the one before.
    """
    if tested_by and name != "mail":
        raise UsageError("--tested-by is a line of a mail", hint="give --format mail, too")
    if cell and name not in PROFILES:
        what = f"--cell chooses nothing from {name}"
        raise UsageError(what, hint=f"leave it out, or give --format {', '.join(PROFILES)}")
    store = BootStore()
    folder = record_store.find(store.folder, run)
    record = record_store.load(folder)
    if name == "html":
        click.echo(finish.write_page(record, store, output))
        return
    if name in PROFILES:
        text = _profile(record, store, name, cell)
    else:
        text = mail.reply(record, tested_by) if name == "mail" else FORMATS[name](record)
    if output:
        cache.write_atomically(output, text)
    else:
        click.echo(text, nl=False)


def _profile(run: RunRecord, store: BootStore, name: str, cell: str) -> str:
    """What an I/O costs by function; UsageError where a run has nothing of that kind."""
    if text := PROFILES[name](run, store.cost, cell):
        return text
    what = "no two cells were compared" if name == "svg" else "no cell was counted"
    raise UsageError(
        f"{what} by function" + (f" with {cell!r} in its name" if cell else ""),
        where=f"run {run.id}",
        hint="without --cell all are printed, each by its name"
        if cell
        else "the engines exact and sim count, where fio does the work: lab diff",
    )


@click.command("compare", cls=Verb, example="lab compare last~1 last")
@ending.as_json
@click.argument("first", metavar="RUN", shell_complete=complete.runs)
@click.argument("second", metavar="RUN", default="last", shell_complete=complete.runs)
def compare_command(first: str, second: str) -> None:
    """Show in which verdicts and values two runs differ.

    RUN is an id (`lab list`), the beginning of one, `last`, or `last~1` for the one before.
    """
    folder = BootStore().folder
    runs = [record_store.load(record_store.find(folder, name)) for name in (first, second)]
    comparison = compare.compared(runs[0], runs[1])
    ending.answer(comparison, lambda: click.echo(compare.text(runs[0], runs[1]), nl=False))


@click.command("schema", cls=Verb, example="lab schema series >series.schema.json")
@click.argument("what", type=click.Choice(list(_SCHEMAS)))
def schema_command(what: str) -> None:
    """Print the JSON Schema of a TOML file or of --json output.

    `run` is the record that commands which measure print; the others are named after their file or
    command.
    """
    click.echo(json.dumps(_SCHEMAS[what].model_json_schema(), indent=2))


@click.command(
    cls=Verb,
    example="lab completion bash >~/.local/share/bash-completion/completions/lab",
)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script for command-line completion."""
    click.echo(_SHELLS[shell](ctx.find_root().command, {}, "lab", "_LAB_COMPLETE").source())
