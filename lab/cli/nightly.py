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
from lab.commands import dry_run as plan
from lab.commands import gate, gate_config, gc
from lab.commands import trend as trends
from lab.commands.gate import BranchResult, Gating
from lab.commands.gate_history import GateHistory
from lab.inputs import profile
from lab.inputs.terms import Verdict
from lab.measure.boot_store import BootStore
from lab.report import ci, html, record_store, tables, trend, view
from lab.report.run_builder import RunBuilder
from lab.report.run_record import TableRecord
from lab.report.tables import texts
from lab.report.trend import BranchTrend

_COLOURS = {Verdict.REFUTED: "RED", Verdict.ERROR: "ERROR", Verdict.INCONCLUSIVE: "open"}


@click.command("gate")
@ending.as_json
@click.argument("config", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--accept", metavar="BRANCH", help="Make the state that was judged the branch's baseline."
)
@click.option("--run", "judged", default="", metavar="RUN", help="The run to accept; the last one.")
@click.option("--cell", "cells", multiple=True, help="What is accepted: all that was not good.")
@click.option("--reason", default="", help="Why, for --accept.")
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
    """Judge branches against their baselines: red for a regression, else green.

    CONFIG is a TOML file (`lab schema gate`; docs/gate.md). Exact cells: more instructions per I/O
    in the block layer than the threshold allows are red, with other seeds, too. Cells of wall clock
    are run in rounds until it is sure that they are slower, or not. Exit codes: 0 green, 1 red,
    2 wrong configuration, 3 the lab or a baseline failed for a branch, 4 a branch is not decided.

    Examples: lab gate nightly.toml;
    lab gate nightly.toml --accept block-next --cell nullb_mq/none/randread_burst
    --reason "the new accounting is worth it"
    """
    own = gate_config.read(config)
    for branch in () if accept else own.branches.values():
        trust.require(branch.source)
    session = options.new_session(profile.get(own.profile), fleet, fleet_keys)
    session.config = own.config
    history = GateHistory(session.store)
    if accept:
        if not reason.strip():
            raise UsageError("a baseline is changed for a reason", hint="give --reason TEXT")
        gate.known_branch(own, accept)
        known = judged or history.last_run(accept)
        if not known:
            raise UsageError(f"{accept} was never judged", hint="run the gate without --accept")
        record = record_store.load(record_store.find(session.store.folder, known))
        state = gate.accept(own, accept, record, cells, reason, history)
        click.echo(f"{accept}: {state} is the baseline now")
        return ExitCode.DONE
    if judged or cells:
        raise UsageError("--run and --cell go with --accept")
    if dry_run:
        kernels = [
            f"{name}: {which}"
            for name, branch in own.branches.items()
            for which in (branch.source, f"its baseline, {branch.baseline}")
        ]
        wanted = gate.cells(own, session.profile)
        ending.planned(plan.of_cells(kernels, wanted, SEED_COUNTS[0], session.durations))
        return ExitCode.DONE
    session.check_engines()
    builder = RunBuilder(session, f"Gate {config.name}")
    results = gate.judge(Gating(own, session, history, builder))
    run = builder.run(tuple(one.series for one in results), tables=(table(results),))
    ending.run(run, session, for_ci=True)
    gate.remember(results, run.id, history)
    if not ending.wanted() and os.environ.get("GITHUB_ACTIONS") == "true":
        click.echo("\n".join(ci.notices(run)))
    return exit_code(results)


def exit_code(results: Sequence[BranchResult]) -> ExitCode:
    """The exit code of a gate: red before all else, for a regression must not be missed."""
    verdicts = {one.series.verdict for one in results}
    if Verdict.REFUTED in verdicts:
        return ExitCode.REFUTED
    if Verdict.ERROR in verdicts:
        return ExitCode.FAILED
    return ExitCode.INCONCLUSIVE if Verdict.INCONCLUSIVE in verdicts else ExitCode.DONE


def table(results: Sequence[BranchResult]) -> TableRecord:
    """One line a branch, then what is red in it."""
    rows, notes = [], []
    for one in results:
        changed = sum(bool(change) for change in one.changes.values())
        cells = f"{len(one.changes)}, {changed} differ" if one.changes else "-"
        state = one.state.rpartition("@")[2] or "-"
        rows.append((one.series.name, state, _COLOURS.get(one.series.verdict, "green"), cells))
        if one.series.error:
            notes.append(f"{one.series.name}: {one.series.error}")
        for claim in one.series.claims:
            (found,) = claim.findings
            if found.verdict is not Verdict.HOLDS or found.measured_change:
                shown = view.of_finding(found).change or "-"
                notes.append(f"  {one.series.name} {claim.name}: {shown} ({found.reason})")
    columns = texts("branch", "state", "verdict", "cells")
    return TableRecord(title="Gate", columns=columns, rows=tuple(rows), notes=tuple(notes))


@click.command("trend")
@ending.as_json
@click.argument("branches", metavar="[BRANCH]...", nargs=-1)
@click.option(
    "--cell", "pattern", default="*", help="Only cells that match, such as 'nvme*/bfq/*'."
)
@click.option(
    "--threshold",
    default=0.1,
    show_default=True,
    type=click.FloatRange(0),
    help="Per cent that a step has at least.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the page goes; default: trend.html among the results.",
)
def trend_command(
    branches: tuple[str, ...], pattern: str, threshold: float, output: Path | None
) -> None:
    """Show every cell over the gate's nights, with its steps and their commits.

    Branches, steps and the commits behind them are printed; the page, which a web server can show
    as it is, has a plot for each cell as well.

    Examples: lab trend; lab trend block-next --cell 'nvme*' --output /srv/www/block/index.html
    """
    store = BootStore()
    if not store.folder.is_dir():
        raise UsageError(f"no night was judged in {store.folder} yet", hint="`lab gate` judges one")
    least = threshold / 100
    found = trends.collect(GateHistory(store), least, branches, pattern)
    target = (output or store.folder / "trend.html").absolute()
    cache.write_atomically(target, html.trend_page(found, least))
    text = f"{visible(chr(10).join(map(tables.text, trend.tables(found))))}Page: {target}"
    ending.answer(_record(found), lambda: click.echo(text))


def _record(found: Sequence[BranchTrend]) -> ending.Trends:
    return ending.Trends(
        branches=tuple(
            ending.Trend(
                branch=branch.name,
                nights=tuple(night.source for night in branch.nights),
                days=tuple(night.day for night in branch.nights),
                good=tuple(night.good for night in branch.nights),
                cells={cell.name: cell.values for cell in branch.cells},
                steps={
                    cell.name: tuple(ending.Step(**asdict(jump)) for jump in cell.jumps)
                    for cell in branch.cells
                    if cell.jumps
                },
            )
            for branch in found
        )
    )


@click.command("gc")
@ending.as_json
@click.option(
    "--days",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Keep what was used since so many days.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
def gc_command(days: float, dry_run: bool) -> None:
    """Delete what neither a baseline nor a report needs, and nothing used lately or just now.

    These are boots that no report names, what a killed lab left of a run, and of the cache kernels,
    guest roots, source trees with their objects, patches and what else can be made again.

    Example: lab gc --days 7 --dry-run
    """
    store, progress = BootStore(), Progress()
    with cache.lock(store.folder / "lock", progress, "using these results"):
        found = gc.garbage(store, GateHistory(store), days)
        if not dry_run:
            gc.delete(found, store)
    kinds = Counter(one.kind for one in found)
    freed = ending.Freed(
        deleted=not dry_run, bytes=sum(one.size for one in found), entries=dict(kinds)
    )
    ending.answer(freed, lambda: _told(found, dry_run=dry_run))


def _told(found: Sequence[gc.Garbage], *, dry_run: bool) -> None:
    for kind in dict.fromkeys(one.kind for one in found):
        sizes = [one.size for one in found if one.kind == kind]
        click.echo(f"{len(sizes):>6} {kind}(s), {sum(sizes) / 2**20:,.0f} MiB")
    total = sum(one.size for one in found) / 2**20
    click.echo(f"{total:,.0f} MiB {'could be' if dry_run else 'were'} deleted")
