# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that finds the commit which made something worse: bisect."""

from __future__ import annotations

from pathlib import Path

import click

from lab.base.errors import ExitCode, UsageError
from lab.build import trust
from lab.cli import cell_options, ending, options
from lab.cli.verb import Verb
from lab.commands import bisect_measure, bisect_search, cost_diff, result_tables
from lab.commands.bisect_measure import CommitMeasure, CommitTree
from lab.commands.bisect_search import Bisection
from lab.commands.gate_config import USUAL_THRESHOLD, USUAL_TIME
from lab.inputs.queue_settings import Settings
from lab.measure.session import Session
from lab.report.run_builder import RunBuilder

# Where a fio job runs if no cell is named.
_FIO_CELL = "nullb_mq/none"


@click.command(
    "bisect",
    cls=Verb,
    example="lab bisect v6.12 HEAD --cell nullb_mq/none/randread_burst",
)
@ending.as_json
@click.argument("good")
@click.argument("bad")
@click.option(
    "--cell",
    metavar="TOPOLOGY/SCHEDULER/WORKLOAD",
    help="The cell that became worse; TOPOLOGY/SCHEDULER with --fio.",
)
@cell_options.fio(several=False)
@cell_options.queue
@click.option(
    "--claim",
    metavar="SERIES/CLAIM[/METRIC]",
    help="A claim whose metric changed, such as sq_batch_dispatch/deadline_lock.",
)
@options.host_time
@click.option(
    "--repo",
    default=Path(),
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The git tree; default: the current folder.",
)
@click.option(
    "--threshold",
    metavar="PERCENT",
    type=click.FloatRange(0),
    help="The least change that counts. "
    f"[default: {USUAL_THRESHOLD} for a cost, {USUAL_TIME} for counters and wall clock]",
)
@click.option(
    "--here",
    is_flag=True,
    help="Judge the commit that is checked out, for `git bisect run`: 0 good, 1 bad, 125 cannot be "
    "judged, from 128 the lab failed.",
)
@options.measuring
def bisect_command(
    session: Session,
    good: str,
    bad: str,
    cell: str | None,
    fio: str,
    queue: Settings,
    claim: str | None,
    host_time: bool,
    repo: Path,
    threshold: float | None,
    here: bool,
) -> int:
    """Find the commit that made an I/O cost more.

    GOOD and BAD are commits of a git tree. For fio cells and counters the exact engine decides,
    mostly with one boot a commit. Else the lab boots each commit in pairs with GOOD. It skips
    commits that do not build or boot.
    """
    if fio:
        cell = f"{cell or _FIO_CELL}/{fio}"
    if bool(cell) == bool(claim):
        raise UsageError("what is to be measured?", hint="give --cell, --fio or --claim")
    if claim and queue:
        raise UsageError("--queue goes with --cell or --fio")
    trust.require(f"git:{repo}")
    line = bisect_search.commits(repo, good, bad)
    tree = CommitTree(repo, session)
    limit = None if threshold is None else threshold / 100
    count = bisect_measure.decisions(line)
    if cell:
        measure = bisect_measure.of_cell(cell, tree, limit, count, timed=host_time, queue=queue)
    else:
        measure = bisect_measure.of_claim(claim or "", tree, limit, count, timed=host_time)
    measure.compare(line[0], line[-1])
    if here:
        return _here(line, tree, measure)
    bisection = bisect_search.search(line, lambda commit: _value(commit, tree, measure))
    _finish(bisection, line, tree, measure)
    return ExitCode.DONE


def _here(line: list[str], tree: CommitTree, measure: CommitMeasure) -> int:
    """What `git bisect run` wants to know of the commit that is checked out."""
    low, high, present = (_value(commit, tree, measure) for commit in (line[0], line[-1], "HEAD"))
    if low is None or high is None or present is None:
        return ExitCode.SKIP
    return int(bisect_search.is_bad(low, high, present))


def _value(commit: str, tree: CommitTree, measure: CommitMeasure) -> float | None:
    """The value of a commit; what it is and what came out is said."""
    progress = tree.session.progress
    progress.say(bisect_search.subject(tree.repository, commit))
    value = measure.value(commit)
    if value is not None:
        progress.say(f"    {measure.shown(value)}")
    return value


def _finish(
    bisection: Bisection, line: list[str], tree: CommitTree, measure: CommitMeasure
) -> None:
    """Record and print what a bisection found."""
    subjects = [bisect_search.subject(tree.repository, commit) for commit in bisection.suspects]
    shown = [result_tables.of_bisection(bisection, line, measure, subjects)]
    outcomes, changes = [], []
    if len(bisection.suspects) == 1:
        changes = measure.changes(bisection.last_good, bisection.suspects[0])
        shown += result_tables.of_changes(changes)
        outcomes = [side for change in changes for side in (change.before, change.after)]
        if not changes:
            shown.append(
                result_tables.note(measure.conclusion(bisection.last_good, bisection.suspects[0]))
            )
    session = tree.session
    title = f"Bisection of {line[0][:12]}..{line[-1][:12]}, {len(tree.built)} kernels"
    run = RunBuilder(session, title).measured(
        outcomes, tuple(shown), compared=cost_diff.compared(changes)
    )
    ending.run(run, session)
