# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands of the nightly gate: gate, gc."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from lab.base import cache
from lab.base.errors import LabError, UsageError
from lab.base.progress import Progress
from lab.commands import gate, gc
from lab.commands.gate import Result, Tools
from lab.commands.gate_history import GateHistory
from lab.inputs import profile
from lab.inputs.terms import Verdict
from lab.measure import session
from lab.measure.boot_store import BootStore
from lab.report import finding, finish, run_builder
from lab.report.run_record import Column, Table

_RED = 1
_COLOURS = {Verdict.REFUTED: "RED", Verdict.ERROR: "ERROR"}


@click.command("gate")
@click.argument("config", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--accept", metavar="BRANCH", help="Make what the branch is now its baseline.")
@click.option("--reason", default="", help="Why, for --accept.")
def gate_command(config: Path, accept: str | None, reason: str) -> int:
    """Judge branches against their baselines: red for a regression, else green.

    CONFIG is a TOML file (`lab schema gate`; docs/gate.md). Exact cells: more kernel instructions
    per I/O than the threshold allows are red, at once. Cells of host time are red only when rounds
    that were booted afterwards confirm it. Exit codes: 0 green, 1 red, 2 wrong configuration, 3
    the lab failed for a branch.

    Examples: lab gate nightly.toml;
    lab gate nightly.toml --accept block-next --reason "the new accounting is worth it"
    """
    progress, store, started = Progress(), BootStore(), time.time()
    own, history = gate.read(config), GateHistory(store.folder)
    if accept:
        if not reason.strip():
            raise UsageError("a baseline is changed for a reason", hint="give --reason TEXT")
        state = gate.accept(own, accept, reason, history, progress)
        click.echo(f"{accept}: {state} is the baseline now")
        return 0
    chosen = profile.get(own.profile)
    testbed = session.prepare(chosen.tree, (), chosen.kernel, progress)
    made = run_builder.RunBuilder(store, chosen, testbed.host, f"Gate {config.name}")
    results = gate.judge(Tools(own, chosen, store, history, made, testbed, progress))
    run = made.run(started, tuple(one.series for one in results), tables=(_table(results),))
    done = finish.finish(run, store, for_ci=True)
    gate.remember(results, run.id, history)
    click.echo(done.ending(progress.summary()))
    verdicts = {one.verdict for one in run.series}
    if Verdict.REFUTED in verdicts:
        return _RED
    return LabError.exit_code if Verdict.ERROR in verdicts else 0


def _table(results: Sequence[Result]) -> Table:
    """One line a branch, then what is red in it."""
    rows, notes = [], []
    for one in results:
        changed = sum(bool(change) for change in one.changes.values())
        cells = f"{len(one.changes)}, {changed} differ" if one.changes else "-"
        state = one.state.rpartition("@")[2] or "-"
        rows.append((one.name, state, _COLOURS.get(one.series.verdict, "green"), cells))
        if one.series.error:
            notes.append(f"{one.name}: {one.series.error}")
        for claim in one.series.claims:
            (found,) = claim.findings
            if found.verdict is not Verdict.HOLDS or found.change:
                shown = finding.parts(found).change or "-"
                notes.append(f"  {one.name} {claim.name}: {shown} ({found.reason})")
    titles = ("branch", "state", "verdict", "cells")
    columns = tuple(Column(title=title) for title in titles)
    return Table(title="Gate", columns=columns, rows=tuple(rows), notes=tuple(notes))


@click.command("gc")
@click.option(
    "--days",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Keep what was used since so many days.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
def gc_command(days: float, dry_run: bool) -> None:
    """Delete what neither a baseline nor a report needs, and nothing used lately.

    These are boots that no report names, what a killed lab left of a run, and of the cache kernels,
    guest roots and source trees with their objects. All of the cache can be made again.

    Example: lab gc --days 7 --dry-run
    """
    store, progress = BootStore(), Progress()
    with cache.lock(store.folder / "lock", progress, "using these results"):
        found = gc.garbage(store, GateHistory(store.folder), days)
        if not dry_run:
            gc.delete(found, store)
    for kind in dict.fromkeys(one.kind for one in found):
        sizes = [one.size for one in found if one.kind == kind]
        click.echo(f"{len(sizes):>6} {kind}(s), {sum(sizes) / 2**20:,.0f} MiB")
    total = sum(one.size for one in found) / 2**20
    click.echo(f"{total:,.0f} MiB {'could be' if dry_run else 'were'} deleted")
