# SPDX-License-Identifier: GPL-2.0-or-later
"""The command for a series of one's own: new."""

from __future__ import annotations

import os
from pathlib import Path

import click

from lab.base.errors import ExitCode, UsageError
from lab.base.progress import Progress
from lab.base.system import kernel_source
from lab.build import patch_mail
from lab.cli import options
from lab.cli.verb import Verb
from lab.commands import new_series
from lab.inputs import profile, series

# Whose defaults --check shows: those of lab run.
_PROFILE = "quick"


@click.command("new", cls=Verb, example="lab new my_change 0001-mine.patch")
@click.argument("name")
@click.argument("source", required=False)
@options.tree
@options.senders
@click.option(
    "--check",
    is_flag=True,
    help="Print what the series NAME still lacks, or what will be measured.",
)
def new_command(
    name: str, source: str | None, spec: str, senders: tuple[str, ...], check: bool
) -> int:
    """Make a series of a mailbox, patches or commits.

    SOURCE is a mailbox, lore:MESSAGE-ID, a folder of patches, one patch, git:PATH@A..B,
    git:PATH@COMMIT, or - for a mailbox on standard input.

    NAME becomes a folder of kernel-patches, or is a path. The lab copies the patches. Where --tree
    has them already, it makes base/, which takes them out. series.toml has a check that works, and
    each figure of the message as a claim in comments, with the message's disk and job. --check says
    what is still missing; where nothing is, what lab run will measure, with all defaults.

    Exit codes: 0 done; with --check, nothing is missing. 2 wrong usage, or --check found something.
    3 the patches neither apply to the tree nor are in it.
    """
    progress = Progress()
    if check:
        if source:
            raise UsageError("--check looks at a series that is there", hint="leave SOURCE out")
        return _checked(name, progress)
    if not source:
        raise UsageError("SOURCE is missing", hint="a mailbox, a patch or git:PATH@COMMIT")
    folder = Path(name) if os.sep in name else series.FOLDER / name
    tree = spec or kernel_source(series.USUAL_TREE)
    collected = patch_mail.collect(source, senders)
    message = new_series.create(folder, collected, tree, source, progress)
    click.echo(f"{folder}: {len(collected.patches)} patch(es) for {tree}")
    for figure in message.figures:
        click.echo(f"  figure: {figure.line}")
    for job in message.jobs:
        click.echo(f"  job: {' '.join(job.split())}")
    for device in message.devices:
        click.echo(f"  disk: {device}")
    click.echo(f"Next: edit {folder / 'series.toml'}, then lab new {name} --check")
    return ExitCode.DONE


def _checked(name: str, progress: Progress) -> int:
    judged = series.get(name)
    missing = list(new_series.lacks(judged, progress))
    for sentence in missing:
        click.echo(sentence)
    if missing:
        return ExitCode.USAGE
    for line in new_series.explained(judged, profile.get(_PROFILE)):
        click.echo(line)
    click.echo(f"Nothing is missing. Next: lab run {name}")
    return ExitCode.DONE
