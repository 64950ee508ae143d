# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands of the nightly gate: gate, gc."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from lab.base import cache
from lab.base.errors import ExitCode, UsageError
from lab.base.progress import Progress
from lab.base.stats import SEED_COUNTS
from lab.base.text import visible
from lab.build import trust
from lab.cli import ending, options
from lab.cli.verb import Verb
from lab.commands import dry_run as plan
from lab.commands import gate, gate_config, gc
from lab.commands import trend as trends
from lab.commands.gate import BranchResult, Gating
from lab.commands.gate_history import GateHistory
from lab.inputs import profile
from lab.inputs.terms import Verdict
from lab.measure.boot_store import BootStore
from lab.measure.session import Session
from lab.report import ci, html, record_store, tables, trend, view
from lab.report.run_builder import RunBuilder
from lab.report.run_record import TableRecord
from lab.report.tables import texts
from lab.report.trend import BranchTrend

_COLOURS = {Verdict.REFUTED: "RED", Verdict.ERROR: "ERROR", Verdict.INCONCLUSIVE: "open"}


@click.command("gate", cls=Verb, example="lab gate gate.toml")
@ending.as_json
@click.argument("config", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--accept", metavar="BRANCH", help="Make the judged state of this branch its baseline."
)
@click.option(
    "--run",
    "judged",
    default="",
    metavar="RUN",
    help="For --accept: the run that judged it; default: the last one.",
)
@click.option(
    "--cell",
    "cells",
    multiple=True,
    help="For --accept: a red or undecided cell; name each of them.",
)
@click.option("--reason", default="", help="For --accept: why.")
@options.trusting
@options.on_fleet
@options.fleet_keys
@options.dry_run
def gate_command(
    config: Path,
    accept: str | None,
    judged: str,
    cells: tuple[str, ...],
    reason: str,
    fleet: str,
    fleet_keys: Path | None,
    dry_run: bool,
) -> int:
    """Compare branches with their baselines: red or green.

    CONFIG is a TOML file (`lab schema gate`, docs/gate.md). An exact cell is red when the block
    layer costs more instructions per I/O than the threshold allows, with a second set of seeds,
    too. The lab boots wall_clock cells in pairs until the test decides.

    Exit codes: 0 green. 1 a branch is red. 2 wrong configuration. 3 the lab or a baseline failed
    for a branch. 4 a branch is undecided.
    """
    settings = gate_config.read(config)
    for branch in () if accept else settings.branches.values():
        trust.require(branch.source)
    session = options.placed(Session(profile.get(settings.profile)), fleet, fleet_keys)
    session.config = settings.config
    history = GateHistory(session.store)
    if accept:
        if not reason.strip():
            raise UsageError("a baseline is changed for a reason", hint="give --reason TEXT")
        gate.known_branch(settings, accept)
        known = judged or history.last_run(accept)
        if not known:
            raise UsageError(f"{accept} was never judged", hint="run the gate without --accept")
        record = record_store.load(record_store.find(session.store.folder, known))
        state = gate.accept(settings, accept, record, cells, reason, history)
        click.echo(f"{accept}: {state} is the baseline now")
        return ExitCode.DONE
    if judged or cells:
        raise UsageError("--run and --cell go with --accept")
    if dry_run:
        kernels = [
            f"{name}: {which}"
            for name, branch in settings.branches.items()
            for which in (branch.source, f"its baseline, {branch.baseline}")
        ]
        wanted = gate.cells(settings, session.profile)
        ending.planned(plan.of_cells(kernels, wanted, SEED_COUNTS[0], session.durations))
        return ExitCode.DONE
    session.check_engines()
    builder = RunBuilder(session, f"Gate {config.name}")
    results = gate.judge(Gating(settings, session, history, builder))
    run = builder.run(tuple(result.series for result in results), tables=(table(results),))
    ending.run(run, session, for_ci=True)
    gate.remember(results, run.id, history)
    if not ending.wanted() and os.environ.get("GITHUB_ACTIONS") == "true":
        click.echo("\n".join(ci.notices(run)))
    # A regression must not be missed for an error of another branch.
    return ending.exit_code({result.series.verdict for result in results}, Verdict.REFUTED)


def table(results: Sequence[BranchResult]) -> TableRecord:
    """One line a branch, then what is red in it."""
    rows, notes = [], []
    for result in results:
        changed = sum(bool(change) for change in result.changes.values())
        cells = f"{len(result.changes)}, {changed} differ" if result.changes else "-"
        state = result.state.rpartition("@")[2] or "-"
        rows.append(
            (result.series.name, state, _COLOURS.get(result.series.verdict, "green"), cells)
        )
        if result.series.error:
            notes.append(f"{result.series.name}: {result.series.error}")
        for claim in result.series.claims:
            (finding,) = claim.findings
            if finding.verdict is not Verdict.HOLDS or finding.measured_change:
                shown = view.of_finding(finding).change or "-"
                notes.append(f"  {result.series.name} {claim.name}: {shown} ({finding.reason})")
    columns = texts("branch", "state", "verdict", "cells")
    return TableRecord(title="Gate", columns=columns, rows=tuple(rows), notes=tuple(notes))


@click.command("trend", cls=Verb, example="lab trend --cell 'nullb_mq/*'")
@ending.as_json
@click.argument("branches", metavar="[BRANCH]...", nargs=-1)
@click.option(
    "--cell",
    "pattern",
    default="*",
    help="Only cells that match this pattern, such as 'nvme*/bfq/*'.",
)
@click.option(
    "--threshold",
    default=0.1,
    show_default=True,
    metavar="PERCENT",
    type=click.FloatRange(0),
    help="The least change that counts.",
)
@options.output
def trend_command(
    branches: tuple[str, ...], pattern: str, threshold: float, output: Path | None
) -> None:
    """Show every cell over the gate's nights, and its change points.

    The lab prints the branches, and each change point with its commits. It writes a page with a
    plot for each cell; without --output that is trend.html in the folder of results.
    """
    store = BootStore()
    if not store.folder.is_dir():
        raise UsageError(f"no night was judged in {store.folder} yet", hint="`lab gate` judges one")
    least = threshold / 100
    branch_trends = trends.collect(GateHistory(store), least, branches, pattern)
    target = (output or store.folder / "trend.html").absolute()
    cache.write_atomically(target, html.trend_page(branch_trends, least))
    text = f"{visible(chr(10).join(map(tables.text, trend.tables(branch_trends))))}Page: {target}"
    ending.answer(_record(branch_trends), lambda: click.echo(text))


def _record(branch_trends: Sequence[BranchTrend]) -> ending.Trends:
    return ending.Trends(
        branches=tuple(
            ending.Trend(
                branch=branch.name,
                nights=tuple(night.source for night in branch.nights),
                days=tuple(night.day for night in branch.nights),
                good=tuple(night.good for night in branch.nights),
                cells={cell.name: cell.values for cell in branch.cells},
                change_points={
                    cell.name: tuple(ending.ChangePoint(**asdict(jump)) for jump in cell.jumps)
                    for cell in branch.cells
                    if cell.jumps
                },
            )
            for branch in branch_trends
        )
    )


@click.command("gc", cls=Verb, example="lab gc --days 7 --dry-run")
@ending.as_json
@click.option(
    "--days",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Keep what was used within so many days.",
)
@options.dry_run
def gc_command(days: float, dry_run: bool) -> None:
    """Delete what no record, baseline or recent run needs.

    These are boots that no record names, remains of killed runs, and entries of the cache that can
    be made again: kernels, guest roots, sources with their objects.
    """
    store, progress = BootStore(), Progress()
    with cache.lock(store.folder / "lock", progress, "using these results"):
        garbage = gc.garbage(store, GateHistory(store), days)
        if not dry_run:
            gc.delete(garbage, store)
    kinds = Counter(entry.kind for entry in garbage)
    freed = ending.Freed(
        deleted=not dry_run, bytes=sum(entry.size for entry in garbage), entries=dict(kinds)
    )
    ending.answer(freed, lambda: _print_freed(garbage, dry_run=dry_run))


def _print_freed(garbage: Sequence[gc.Garbage], *, dry_run: bool) -> None:
    for kind in dict.fromkeys(entry.kind for entry in garbage):
        sizes = [entry.size for entry in garbage if entry.kind == kind]
        click.echo(f"{len(sizes):>6} {kind}(s), {sum(sizes) / 2**20:,.0f} MiB")
    total = sum(entry.size for entry in garbage) / 2**20
    click.echo(f"{total:,.0f} MiB {'could be' if dry_run else 'were'} deleted")
