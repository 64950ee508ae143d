# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands for somebody's own patches and branches: try, bisect."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import click

from lab.base import cache
from lab.base.errors import UsageError
from lab.base.progress import Progress, duration
from lab.build import patch_mail
from lab.cli import change_tables, options
from lab.cli.run import judged
from lab.commands import bisect_measure, bisect_search, cost_diff, gate, try_patches
from lab.commands.bisect_measure import CommitMeasure, Tree
from lab.commands.bisect_search import Found
from lab.commands.try_patches import Subject
from lab.inputs import profile
from lab.measure.boot_store import BootStore
from lab.measure.matrix import Selection
from lab.report import finish, run_builder

_REFUTED = 1
_SKIP = 125  # what `git bisect run` takes for "cannot be judged"


@click.command("try")
@click.argument("source")
@options.tree
@options.fragments
@options.profile
@options.selection
@click.option(
    "--claims",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A series.toml whose claims are to be judged; without it: what changes?",
)
@click.option("--each", is_flag=True, help="Measure after every patch, not only after the last.")
def try_(
    source: str,
    spec: str | None,
    fragments: tuple[str, ...],
    profile_name: str,
    selection: Selection,
    claims: Path | None,
    each: bool,
) -> int:
    """Judge somebody's patches.

    SOURCE is a mailbox (as b4 writes it, cover letter and replies included), a folder of patches,
    one patch, git:PATH@A..B, or - for a mailbox on standard input.

    Without --claims every cell of the profile that the exact engine can measure is measured
    without and with the patches, and what changed is shown by size and by function. Exit codes: 0
    done, 1 the patched kernel breaks or a claim is refuted, 2 no patch found, 3 a patch does not
    apply or build, 4 a claim is inconclusive.

    Examples: b4 am -o - MESSAGE-ID | lab try -; lab try git:~/linux@master..mine --each
    """
    progress, started, chosen = Progress(), time.time(), profile.get(profile_name)
    patches = patch_mail.collect(source)
    for number, patch in enumerate(patches, start=1):
        progress.say(f"{number:>3}  {patch.name}")
    if claims:
        folder = _series(patches, claims)
        return judged((str(folder),), chosen, progress, spec=spec or "")
    subject = Subject(spec or chosen.tree, patches, fragments or chosen.kernel)
    wanted, store = cost_diff.cells(chosen, selection), BootStore()
    testbed, steps = try_patches.run(subject, wanted, chosen, store, progress, each=each)
    outcomes = [side for one in steps for c in one.found for side in (c.before, c.after)]
    title = f"What {source} changes"
    made = run_builder.RunBuilder(store, chosen, testbed.host, title)
    run = made.measured(outcomes, started, change_tables.of_steps(steps))
    click.echo(finish.finish(run, store).ending(progress.summary()))
    return _REFUTED if any(one.broken for one in steps) else 0


@click.command("bisect")
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
@click.option("--timed", is_flag=True, help="By host time, even where the exact engine could.")
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
    f"[default: {gate.USUAL_THRESHOLD} for a cost, {gate.USUAL_TIME} for counters and host time]",
)
@click.option(
    "--here",
    is_flag=True,
    help="Judge only the commit that is checked out: 0 good, 1 bad, 125 cannot be judged.",
)
@options.fragments
@options.profile
def bisect_command(
    good: str,
    bad: str,
    cell: str | None,
    claim: str | None,
    timed: bool,
    repo: Path,
    threshold: float | None,
    here: bool,
    fragments: tuple[str, ...],
    profile_name: str,
) -> int:
    """Find the commit that made an I/O dearer, or changed what a claim measures.

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
    chosen, progress, started = profile.get(profile_name), Progress(), time.monotonic()
    line = bisect_search.commits(repo, good, bad)
    tree = Tree(repo, chosen, fragments or chosen.kernel, BootStore(), progress)
    limit = None if threshold is None else threshold / 100
    make = bisect_measure.of_cell if cell else bisect_measure.of_claim
    own = make(cell or claim or "", tree, limit, bisect_measure.decisions(line), timed=timed)
    own.compare(line[0], line[-1])

    def value(commit: str) -> float | None:
        progress.say(bisect_search.subject(repo, commit))
        found = own.value(commit)
        if found is not None:
            progress.say(f"    {own.shown(found)}")
        return found

    if here:
        low, high, present = (value(commit) for commit in (line[0], line[-1], "HEAD"))
        if low is None or high is None or present is None:
            return _SKIP
        return int(bisect_search.is_bad(low, high, present))
    found = bisect_search.search(line, value)
    click.echo(f"\n{_steps_text(found, line, own)}")
    click.echo(
        f"{len(found.steps)} commits looked at of {len(line)}, {len(tree.built)} kernels, "
        f"{duration(time.monotonic() - started)}"
    )
    for suspect in found.suspects:
        click.echo(bisect_search.subject(repo, suspect))
    if len(found.suspects) == 1:
        click.echo(f"\n{own.conclusion(found.last_good, found.suspects[0])}")
    return 0


def _steps_text(found: Found, line: list[str], own: CommitMeasure) -> str:
    lines = []
    for number, step in enumerate(found.steps, start=1):
        shown = "skipped" if step.value is None else own.shown(step.value)
        if step.value is not None:
            shown += (
                ", bad" if bisect_search.is_bad(found.good, found.bad, step.value) else ", good"
            )
        lines.append(
            f"{number:>3}  commit {line.index(step.commit):>4}  {step.commit[:12]}  {shown}"
        )
    return "\n".join(lines) + "\n"


def _series(patches: tuple[Path, ...], claims: Path) -> Path:
    """A folder as those of kernel-patches, with these patches and claims."""
    texts = [patch.read_text(errors="replace") for patch in patches]
    key = cache.key("claims", claims.read_text(), texts)
    folder = cache.root() / "series" / key / claims.absolute().parent.name
    if not folder.exists():
        with cache.building(folder) as aside:
            (aside / "series").mkdir()
            for number, patch in enumerate(patches, start=1):
                shutil.copy(patch, aside / "series" / f"{number:04}-{patch.name}")
            shutil.copy(claims, aside / "series.toml")
    return folder
