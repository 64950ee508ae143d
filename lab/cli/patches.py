# SPDX-License-Identifier: GPL-2.0-or-later
"""The command for somebody's own patches: try."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from lab.base import cache, toml
from lab.base.errors import ExitCode, UsageError
from lab.base.stats import SEED_COUNTS
from lab.base.system import TREE
from lab.build import patch_mail, trust
from lab.build import source as source_tree
from lab.cli import cell_options, ending, options
from lab.cli.run import chosen, judged
from lab.cli.verb import Verb
from lab.commands import (
    cost_diff,
    new_series,
    result_tables,
    try_answers,
    try_patches,
    try_tables,
)
from lab.commands import dry_run as plan
from lab.commands.dry_run import Plan
from lab.commands.try_patches import Subject, Tried
from lab.inputs import series, workload
from lab.inputs.series import Series
from lab.inputs.terms import Engine
from lab.judge import well_formed
from lab.measure import matrix
from lab.measure.cell import PlannedCell
from lab.measure.matrix import Selection
from lab.measure.session import Session
from lab.report.run_builder import RunBuilder
from lab.report.run_record import Mail, StepRecord, TableRecord

# Options of `lab try` that do nothing with claims, or without.
_USELESS = {
    "selection": "the claims say which cells are measured: leave out --topology and the like",
    "each": "--each goes without --claims: a claim is about the whole series",
    "claim": "--claim names one of --claims: give that, too",
}


@click.command("try", cls=Verb, example="lab try 0001-mine.patch")
@ending.as_json
@click.argument("source")
@options.tree
@options.measuring
@cell_options.selection
@click.option(
    "--claims",
    "claims_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Judge the claims of this series.toml, in place of reporting what changes.",
)
@options.claims
@click.option("--each", is_flag=True, help="Measure after every patch, not only after the last.")
@options.deterministic
@click.option(
    "--debug/--no-debug",
    default=True,
    show_default=True,
    help="Boot the debug kernel, too. Its first build takes minutes.",
)
@click.option(
    "--base-commit/--no-base-commit",
    "based",
    default=True,
    show_default=True,
    help="Apply patches to the commit that they name, where --tree has it.",
)
@options.senders
@options.dry_run
def try_(
    session: Session,
    source: str,
    spec: str,
    selection: Selection,
    claims_file: Path | None,
    claims: tuple[str, ...],
    each: bool,
    engine: str,
    debug: bool,
    based: bool,
    senders: tuple[str, ...],
    dry_run: bool,
) -> int:
    """Report what somebody's patches change.

    SOURCE is a mailbox (as b4 writes it, cover letter and replies included), lore:MESSAGE-ID, a
    folder of patches, one patch, git:PATH@A..B, or - for a mailbox on standard input.

    The lab compares the code of both kernels, function by function. It measures cells that execute
    what differs: instructions per I/O, merging, IOPS of 16 simulated CPUs, data that is read back,
    and the debug kernel (lockdep, KASAN). The first line is the answer. With --topology and the
    like it measures the cells that they name, and nothing else.

    Exit codes: 0 nothing is clearly worse. 1 the patched kernel breaks or loses data; the block
    layer costs more than 1 % more instructions; 16 CPUs do more than 5 % fewer IOPS; more than 5 %
    more requests reach the driver; or a claim is refuted. 2 wrong usage, or no patch found. 3 a
    patch does not apply or build, or the lab failed. 4 a claim or a change is undecided.
    """
    collected = patch_mail.collect(source, senders)
    patches = _report_collected(collected, session)
    spec = _base(collected.base_commit, spec, session) if based else spec
    trust.require(spec, patches)
    mail = None
    if collected.thread:
        mail = Mail(source=source, base_commit=collected.base_commit, **asdict(collected.thread))
    chooses = selection != Selection() or engine != Engine.EXACT
    if claims_file:
        _refuse(selection=chooses, each=each)
        patch_series = _on_tree(_series(patches, claims_file), claims_file, spec)
        patch_series = patch_series.configured(session.config)
        return _judged(patch_series, claims, session, mail, dry_run=dry_run)
    _refuse(claim=bool(claims))
    subject = Subject(spec, patches)
    wanted = _cells(session, selection, Engine(engine))
    if dry_run:
        ending.planned(_planned(subject, wanted, session, each=each))
        return ExitCode.DONE
    builder = RunBuilder(session, f"What {source} changes", mail=mail)
    if chooses and all(cost_diff.has_exact_cost(planned_cell.cell) for planned_cell in wanted):
        return _measured(subject, wanted, session, builder, each=each)
    if chooses:
        tried = try_patches.examine_cells(subject, wanted, session, each=each)
    else:
        tried = try_patches.examine(subject, wanted, session, each=each, debug=debug)
    tree = ["--tree", spec] if spec else []
    said = try_tables.of_message(new_series.message_of(collected), source)
    return _answered(tried, ["lab", "try", source, *tree], session, builder, said)


def _judged(
    patch_series: Series,
    names: tuple[str, ...],
    session: Session,
    mail: Mail | None,
    *,
    dry_run: bool,
) -> int:
    """Judge the claims of a series, or say what that would build and boot."""
    session.progress.say(f"     the tree: {patch_series.tree}")
    pairs, title = chosen([patch_series], names), f"Verdicts on {patch_series.name}"
    return judged([patch_series], session, title, claims=pairs, mail=mail, dry_run=dry_run)


def _answered(
    tried: Sequence[Tried],
    command: Sequence[str],
    session: Session,
    builder: RunBuilder,
    said: tuple[TableRecord, ...],
) -> int:
    """Record and print what all engines found; command repeats it, and said is what the patches
    say of themselves.
    """
    trials = [step.trial for step in tried]
    run = builder.measured(
        [outcome for trial in trials for outcome in trial.outcomes],
        (*try_tables.of_tried(tried, command), *said),
        tuple(StepRecord(title=step.title, broken=step.broken) for step in tried),
        compared=[sides for trial in trials for sides in trial.compared],
    )
    ending.run(run, session)
    return try_answers.exit_code([answer for step in tried for answer in step.answers])


def _cells(session: Session, selection: Selection, engine: Engine) -> list[PlannedCell]:
    """The cells that were selected; without a selection all that have an exact cost."""
    planned = matrix.cells(session.profile, selection, engine)
    matrix.require_used(selection, planned)
    if engine.simulated:
        return planned
    possible = [
        planned_cell
        for planned_cell in planned
        if cost_diff.has_exact_cost(planned_cell.cell)
        or workload.get(planned_cell.cell.workload).checks_data
    ]
    return possible or cost_diff.cells(session.profile, selection)


def _measured(
    subject: Subject,
    wanted: Sequence[PlannedCell],
    session: Session,
    builder: RunBuilder,
    *,
    each: bool,
) -> int:
    """Measure exact cells that were selected, as exactly as the threshold asks."""
    steps = try_patches.run(subject, wanted, session, each=each)
    changes = [change for step in steps for change in step.changes]
    run = builder.measured(
        [side for change in changes for side in (change.before, change.after)],
        result_tables.of_steps(steps),
        tuple(
            StepRecord(title=step.title, broken=step.broken, warned=step.warned) for step in steps
        ),
        compared=cost_diff.compared(changes),
    )
    ending.run(run, session)
    worse = any(try_answers.is_clearly_worse(change) for change in changes)
    return ExitCode.REFUTED if worse or any(step.broken for step in steps) else ExitCode.DONE


def _planned(
    subject: Subject, wanted: Sequence[PlannedCell], session: Session, *, each: bool
) -> Plan:
    """What measuring the cells without and with patches would build and boot."""
    last = len(subject.patches)
    levels = range(last + 1) if each else (0, last)
    source = subject.spec or session.profile.tree
    kernels = [f"{source}, {level} patch(es)" for level in levels]
    return plan.of_cells(kernels, wanted, SEED_COUNTS[0], session.durations)


def _base(commit: str, spec: str, session: Session) -> str:
    """The source at the commit that patches say they apply to, else the one that was given."""
    if not commit:
        return spec
    if pinned := source_tree.at_commit(spec, commit):
        session.progress.say(f"     base-commit {commit[:12]}: applied there")
        return pinned
    where = spec or session.profile.tree
    session.progress.say(
        f"     base-commit {commit[:12]} is not in {where}: applied to that instead"
    )
    return spec


def _refuse(**flags: bool) -> None:
    """Raise UsageError for options that would do nothing, with --claims or without."""
    if bad := [name for name, is_given in flags.items() if is_given]:
        raise UsageError(_USELESS[bad[0]])


def _on_tree(patch_series: Series, claims: Path, spec: str) -> Series:
    """A series on the source that the user names, where he names one.

    Raises UsageError for a source of this machine that only somebody else's claims name.
    """
    if spec:
        return patch_series.model_copy(update={"tree": spec})
    if patch_series.tree.startswith(("git:", "tar:")) and patch_series.tree != os.environ.get(TREE):
        raise UsageError(
            f"the claims name a source of this machine: {patch_series.tree!r}",
            where=f"{claims}, tree",
            hint=f"if you want it read, say so: --tree {shlex.quote(patch_series.tree)}",
        )
    return patch_series


def _report_collected(collected: patch_mail.Collected, session: Session) -> tuple[Path, ...]:
    """The patches; what they are, who wrote them, and what is not among them has been said."""
    for number, patch in enumerate(collected.patches, start=1):
        author = patch_mail.author(patch)
        session.progress.say(f"{number:>3}  {patch.name}" + (f", by {author}" if author else ""))
    for title in collected.skipped:
        session.progress.say(f"     skipped: {title}")
    return collected.patches


def _series(patches: tuple[Path, ...], claims: Path) -> Series:
    """A series of these patches and claims, from a folder as those of kernel-patches.

    Raises UsageError for claims that are none, where the user has them.
    """
    folder = _folder(patches, claims)
    try:
        patch_series = series.get(str(folder))
        well_formed.check(patch_series)
    except UsageError as exc:
        copy = str(folder / "series.toml")
        exc.what, exc.where = (text.replace(copy, str(claims)) for text in (exc.what, exc.where))
        raise
    return patch_series


def _folder(patches: tuple[Path, ...], claims: Path) -> Path:
    """The folder, in the cache."""
    texts = [patch.read_text(errors="replace") for patch in patches]
    # Once, and no more than one that is too large takes: it can be a pipe.
    with claims.open("rb") as stream:
        content = stream.read(toml.MOST_BYTES + 1)
    key = cache.key("claims", content.hex(), texts)
    folder = cache.root() / "series" / key / claims.absolute().parent.name
    if not cache.whole(folder):
        with cache.building(folder) as aside:
            (aside / "series").mkdir()
            for number, patch in enumerate(patches, start=1):
                shutil.copy(patch, aside / "series" / f"{number:04}-{patch.name}")
            (aside / "series.toml").write_bytes(content)
    return folder
