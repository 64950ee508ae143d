# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that finds the commit which made something worse: bisect."""

from __future__ import annotations

from pathlib import Path

import click

from lab.base.errors import ExitCode, UsageError
from lab.build import trust
from lab.cli import ending, options
from lab.commands import bisect_measure, bisect_search, cost_diff, result_tables
from lab.commands.bisect_measure import CommitMeasure, Tree
from lab.commands.bisect_search import Found
from lab.commands.gate_config import USUAL_THRESHOLD, USUAL_TIME
from lab.inputs.queue_settings import Settings
from lab.measure.session import Session
from lab.report.run_builder import RunBuilder

# Where a fio job runs if no cell is named.
_FIO_CELL = "nullb_mq/none"


@click.command("bisect")
@ending.as_json
@click.argument("good")
@click.argument("bad")
@click.option(
    "--cell",
    metavar="TOPOLOGY/SCHEDULER/WORKLOAD",
    help="What became worse, such as nullb_mq/none/randread_burst; TOPOLOGY/SCHEDULER with --fio.",
)
@options.fio(several=False)
@options.queue
@click.option(
    "--claim",
    metavar="SERIES/CLAIM[/METRIC]",
    help="Measure what this claim is about, such as sq_batch_dispatch/deadline_lock.",
)
@click.option("--timed", is_flag=True, help="By wall clock, even where the exact engine could.")
@click.option(
    "--repo",
    default=Path(),
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The git tree; default: the current folder.",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0),
    help="Per cent by which the ends must differ. "
    f"[default: {USUAL_THRESHOLD} for a cost, {USUAL_TIME} for counters and wall clock]",
)
@click.option(
    "--here",
    is_flag=True,
    help="Judge only the commit that is checked out: 0 good, 1 bad, 125 cannot be judged, 128 and "
    "more the lab failed.",
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
    timed: bool,
    repo: Path,
    threshold: float | None,
    here: bool,
) -> int:
    """Find the commit that made an I/O cost more, or changed what a claim measures.

    The exact engine decides with one boot a step where it can: for fio on disks that live in the
    guest, and for what is counted. Else commits are booted in pairs with the good end until it is
    clear what they are. GOOD and BAD are commits of a git tree; those between that do not build or
    boot are skipped. With --here it is a command for `git bisect run`.

    Examples: lab bisect v6.12 HEAD --cell nullb_mq/none/randread_burst;
    lab bisect v6.12 HEAD --claim sq_batch_dispatch/deadline_lock;
    git bisect run lab bisect v6.12 mine --cell nullb_mq/none/randread_burst --here
    """
    if fio:
        cell = f"{cell or _FIO_CELL}/{fio}"
    if bool(cell) == bool(claim):
        raise UsageError("what is to be measured?", hint="give --cell, --fio or --claim")
    if claim and queue:
        raise UsageError("--queue goes with --cell or --fio")
    trust.require(f"git:{repo}")
    line = bisect_search.commits(repo, good, bad)
    tree = Tree(repo, session)
    limit = None if threshold is None else threshold / 100
    count = bisect_measure.decisions(line)
    if cell:
        measure = bisect_measure.of_cell(cell, tree, limit, count, timed=timed, queue=queue)
    else:
        measure = bisect_measure.of_claim(claim or "", tree, limit, count, timed=timed)
    measure.compare(line[0], line[-1])
    if here:
        return _here(line, tree, measure)
    found = bisect_search.search(line, lambda commit: _value(commit, tree, measure))
    _finish(found, line, tree, measure)
    return ExitCode.DONE


def _here(line: list[str], tree: Tree, measure: CommitMeasure) -> int:
    """What `git bisect run` wants to know of the commit that is checked out."""
    low, high, present = (_value(commit, tree, measure) for commit in (line[0], line[-1], "HEAD"))
    if low is None or high is None or present is None:
        return ExitCode.SKIP
    return int(bisect_search.is_bad(low, high, present))


def _value(commit: str, tree: Tree, measure: CommitMeasure) -> float | None:
    """The value of a commit; what it is and what came out is said."""
    progress = tree.session.progress
    progress.say(bisect_search.subject(tree.repository, commit))
    found = measure.value(commit)
    if found is not None:
        progress.say(f"    {measure.shown(found)}")
    return found


def _finish(found: Found, line: list[str], tree: Tree, measure: CommitMeasure) -> None:
    """Record and print what a bisection found."""
    subjects = [bisect_search.subject(tree.repository, commit) for commit in found.suspects]
    shown = [result_tables.of_bisection(found, line, measure, subjects)]
    outcomes, changes = [], []
    if len(found.suspects) == 1:
        changes = measure.changes(found.last_good, found.suspects[0])
        shown += result_tables.of_changes(changes)
        outcomes = [side for one in changes for side in (one.before, one.after)]
        if not changes:
            shown.append(result_tables.note(measure.conclusion(found.last_good, found.suspects[0])))
    session = tree.session
    title = f"Bisection of {line[0][:12]}..{line[-1][:12]}, {len(tree.built)} kernels"
    run = RunBuilder(session, title).measured(
        outcomes, tuple(shown), compared=cost_diff.compared(changes)
    )
    ending.run(run, session)
