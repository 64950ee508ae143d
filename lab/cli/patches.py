# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands for somebody's own patches and branches: try, bisect."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from lab.base import cache
from lab.base.errors import ExitCode, UsageError
from lab.base.stats import LOOKS
from lab.base.system import TREE
from lab.build import patch_mail, trust
from lab.build import source as source_tree
from lab.cli import ending, options
from lab.cli.run import chosen, judged, say_plan
from lab.commands import bisect_measure, bisect_search, cost_diff, result_tables, try_patches
from lab.commands import dry_run as plan
from lab.commands.bisect_measure import CommitMeasure, Tree
from lab.commands.bisect_search import Found
from lab.commands.dry_run import Plan
from lab.commands.gate_config import USUAL_THRESHOLD, USUAL_TIME
from lab.commands.try_patches import Subject
from lab.inputs import series
from lab.inputs.series import Series
from lab.measure.cell import PlannedCell
from lab.measure.matrix import Selection
from lab.measure.session import Session
from lab.report.run_builder import RunBuilder
from lab.report.run_record import Mail, Step

# Options of `lab try` that do nothing with claims, or without.
_USELESS = {
    "selection": "the claims say which cells are measured: leave out --topology and the like",
    "each": "--each goes without --claims: a claim is about the whole series",
    "kernel": "the claims say with which options kernels are built: leave out --kernel",
    "claim": "--claim names one of --claims: give that, too",
}


@click.command("try")
@ending.as_json
@click.argument("source")
@options.tree
@options.fragments
@options.measuring
@options.selection
@click.option(
    "--claims",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A series.toml whose claims are to be judged; without it: what changes?",
)
@click.option("--claim", "names", multiple=True, help="Only this claim of them; several times.")
@click.option("--each", is_flag=True, help="Measure after every patch, not only after the last.")
@click.option(
    "--base-commit/--no-base-commit",
    "based",
    default=True,
    help="Whether to apply patches to the commit that they name, where --tree has it.",
)
@click.option(
    "--from",
    "senders",
    multiple=True,
    metavar="ADDRESS",
    help="Whose patches are meant, in a mailbox with those of several people; several times.",
)
@options.dry_run
def try_(
    session: Session,
    source: str,
    spec: str,
    fragments: tuple[str, ...],
    selection: Selection,
    claims: Path | None,
    names: tuple[str, ...],
    each: bool,
    based: bool,
    senders: tuple[str, ...],
    dry_run: bool,
) -> int:
    """Judge somebody's patches.

    SOURCE is a mailbox (as b4 writes it, cover letter and replies included), lore:MESSAGE-ID, a
    folder of patches, one patch, git:PATH@A..B, or - for a mailbox on standard input. A series that
    names its base-commit is applied there when --tree is a git tree that has it.

    Without --claims every cell of the profile that the exact engine can measure is measured
    without and with the patches, and what changed is shown by size and by function. Exit codes: 0
    done, 1 the patched kernel breaks or a claim is refuted, 2 no patch found, 3 a patch does not
    apply or build, 4 a claim is inconclusive.

    Examples: lab try lore:MESSAGE-ID; lab try git:~/linux@master..mine --each; lab report last
    --format mail
    """
    collected = patch_mail.collect(source, senders)
    patches = _told(collected, session)
    spec = _base(collected.base_commit, spec, session) if based else spec
    trust.require(spec, patches)
    mail = None
    if collected.thread:
        mail = Mail(source=source, base_commit=collected.base_commit, **asdict(collected.thread))
    if claims:
        _refuse(selection=selection != Selection(), each=each, kernel=bool(fragments))
        own = _on_tree(_series(patches, claims), claims, spec)
        session.progress.say(f"     the tree: {own.tree}")
        pairs = chosen([own], names)
        if dry_run:
            say_plan([own], session, pairs)
            return ExitCode.DONE
        return judged([own], session, f"Verdicts on {own.name}", claims=pairs, mail=mail)
    _refuse(claim=bool(names))
    profile = session.profile
    subject = Subject(spec, patches, fragments)
    wanted = cost_diff.cells(profile, selection)
    if dry_run:
        ending.planned(_planned(subject, wanted, session, each=each))
        return ExitCode.DONE
    steps = try_patches.run(subject, wanted, session, each=each)
    outcomes = [side for one in steps for c in one.found for side in (c.before, c.after)]
    run = RunBuilder(session, f"What {source} changes", mail=mail).measured(
        outcomes,
        result_tables.of_steps(steps),
        tuple(Step(title=one.title, broken=one.broken, warned=one.warned) for one in steps),
        compared=cost_diff.compared([one for step in steps for one in step.found]),
    )
    ending.run(run, session)
    return ExitCode.REFUTED if any(one.broken for one in steps) else ExitCode.DONE


def _planned(
    subject: Subject, wanted: Sequence[PlannedCell], session: Session, *, each: bool
) -> Plan:
    """What measuring the cells without and with patches would build and boot."""
    last = len(subject.patches)
    levels = range(last + 1) if each else (0, last)
    source = subject.spec or session.profile.tree
    kernels = [f"{source}, {level} patch(es)" for level in levels]
    return plan.of_cells(kernels, wanted, LOOKS[0], session.durations)


def _base(commit: str, spec: str, session: Session) -> str:
    """The source at the commit that patches say they apply to, else the one that was given."""
    if not commit:
        return spec
    if found := source_tree.at_commit(spec, commit):
        session.progress.say(f"     base-commit {commit[:12]}: applied there")
        return found
    where = spec or session.profile.tree
    session.progress.say(
        f"     base-commit {commit[:12]} is not in {where}: applied to that instead"
    )
    return spec


def _refuse(**given: bool) -> None:
    """Raise UsageError for options that would do nothing, with --claims or without."""
    if bad := [name for name, is_given in given.items() if is_given]:
        raise UsageError(_USELESS[bad[0]])


def _on_tree(own: Series, claims: Path, spec: str) -> Series:
    """A series on the source that the user names, where he names one.

    Raises UsageError for a source of this machine that only somebody else's claims name.
    """
    if spec:
        return own.model_copy(update={"tree": spec})
    if own.tree.startswith(("git:", "tar:")) and own.tree != os.environ.get(TREE):
        raise UsageError(
            f"the claims name a source of this machine: {own.tree!r}",
            where=f"{claims}, tree",
            hint=f"if you want it read, say so: --tree {shlex.quote(own.tree)}",
        )
    return own


def _told(collected: patch_mail.Collected, session: Session) -> tuple[Path, ...]:
    """The patches; what they are, who wrote them, and what is not among them has been said."""
    for number, patch in enumerate(collected.patches, start=1):
        author = patch_mail.author(patch)
        session.progress.say(f"{number:>3}  {patch.name}" + (f", by {author}" if author else ""))
    for title in collected.left_out:
        session.progress.say(f"     left out: {title}")
    return collected.patches


@click.command("bisect")
@ending.as_json
@click.argument("good")
@click.argument("bad")
@click.option(
    "--cell",
    metavar="TOPOLOGY/SCHEDULER/WORKLOAD",
    help="What became worse, such as nullb_mq/none/randread_burst.",
)
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
@options.fragments
@options.measuring
def bisect_command(
    session: Session,
    good: str,
    bad: str,
    cell: str | None,
    claim: str | None,
    timed: bool,
    repo: Path,
    threshold: float | None,
    here: bool,
    fragments: tuple[str, ...],
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
    if bool(cell) == bool(claim):
        raise UsageError("what is to be measured?", hint="give either --cell or --claim")
    trust.require(f"git:{repo}")
    line = bisect_search.commits(repo, good, bad)
    tree = Tree(repo, fragments or session.profile.kernel, session)
    limit = None if threshold is None else threshold / 100
    make = bisect_measure.of_cell if cell else bisect_measure.of_claim
    measure = make(cell or claim or "", tree, limit, bisect_measure.decisions(line), timed=timed)
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


def _series(patches: tuple[Path, ...], claims: Path) -> Series:
    """A series of these patches and claims, from a folder as those of kernel-patches.

    Raises UsageError for claims that are none, where the user has them.
    """
    folder = _folder(patches, claims)
    try:
        return series.get(str(folder))
    except UsageError as exc:
        copy = str(folder / "series.toml")
        exc.what, exc.where = (text.replace(copy, str(claims)) for text in (exc.what, exc.where))
        raise


def _folder(patches: tuple[Path, ...], claims: Path) -> Path:
    """The folder, in the cache."""
    texts = [patch.read_text(errors="replace") for patch in patches]
    key = cache.key("claims", cache.file_hash(claims), texts)
    folder = cache.root() / "series" / key / claims.absolute().parent.name
    if not cache.whole(folder):
        with cache.building(folder) as aside:
            (aside / "series").mkdir()
            for number, patch in enumerate(patches, start=1):
                shutil.copy(patch, aside / "series" / f"{number:04}-{patch.name}")
            shutil.copy(claims, aside / "series.toml")
    return folder
