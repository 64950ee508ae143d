# SPDX-License-Identifier: GPL-2.0-or-later
"""A new series out of a mailbox, patches or commits: its folder, and what it still lacks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lab.base import cache
from lab.base.errors import BuildError, LabError, UsageError
from lab.base.progress import Progress
from lab.build import mail_text, patch_mail, patching, revert
from lab.build import source as source_tree
from lab.build.patch_mail import Collected
from lab.build.source import Source
from lab.commands import new_claims
from lab.inputs import message
from lab.inputs.message import Message
from lab.inputs.profile import Profile
from lab.inputs.series import BASE, SERIES, Series
from lab.judge import well_formed
from lab.judge.experiment import experiments
from lab.measure import host
from lab.report.view import counted


def create(
    folder: Path, collected: Collected, spec: str, origin: str, progress: Progress
) -> Message:
    """Make the folder of a series: series/ with the patches, base/ where the source has them
    already, and series.toml with what their message publishes, which is returned.

    origin is where they come from, where nothing in them tells. Raises UsageError for a folder that
    is there, BuildError for patches that neither apply to the source nor are in it.
    """
    if folder.exists():
        raise UsageError(f"{folder} is there already", hint="give the series another name")
    source = source_tree.resolve(spec, progress)
    parts = _patches(source, collected, progress)
    texts = [patch.read_text(errors="replace") for patch in collected.patches]
    published = message_of(collected)
    title, origin = _title(collected, texts), _origin(collected, texts, origin)
    with cache.building(folder, summed=False) as aside:
        for part, files in parts.items():
            (aside / part).mkdir()
            for name, text in files.items():
                (aside / part / name).write_text(text)
        toml = new_claims.text(published, title=title, origin=origin, tree=spec)
        (aside / "series.toml").write_text(toml)
    return published


def message_of(collected: Collected) -> Message:
    """What a cover letter and the messages of its patches publish."""
    texts = (patch.read_text(errors="replace") for patch in collected.patches)
    return message.read("\n".join([collected.cover, *map(_words, texts)]))


def lacks(judged: Series, progress: Progress) -> Iterator[str]:
    """What a series still lacks, one sentence each; nothing when it can be judged."""
    if not judged.patches(SERIES):
        yield f"no patch lies in {judged.folder / SERIES}"
    lines = judged.file.read_text().splitlines()
    suggested = [n for n, line in enumerate(lines, start=1) if line.startswith("# [claims.")]
    if not judged.claims:
        figures = "the figures stand as comments" if suggested else "write one"
        place = f"{judged.file}:{suggested[0]}" if suggested else str(judged.file)
        yield f"no claim: {figures} ({place})"
    for name, claim in judged.claims.items():
        for expectation in claim.expect:
            if expectation.published is None:
                yield f"claims.{name}: {expectation.metric} has no published figure"
    try:
        well_formed.check(judged)
        source = source_tree.resolve(judged.tree, progress)
        for level in judged.levels:
            patching.patched(source, judged.patches(level))
    except LabError as exc:
        yield exc.brief


def explained(judged: Series, usual: Profile) -> Iterator[str]:
    """What is measured for each expectation of a series, its defaults filled in, one line each."""
    yield f"kernel: {judged.tree} with {', '.join(judged.kernel)}"
    for experiment in experiments(judged, usual, host.unchecked()):
        expectation, cell = experiment.expectation, experiment.sides[0].cell
        where = f"{experiment.engine} {cell.machine}".strip()
        published = expectation.published
        unnamed = published and published.levels and not published.machine
        yield (
            f"{experiment.claim}: {expectation.metric}, {' -> '.join(experiment.arms)}: "
            f"{expectation.bound}; {where}, {counted(cell.cpus, 'vCPU')}, "
            f"at most {counted(experiment.seeds, 'seed')}; "
            f"{cell.workload}, {cell.scheduler}, {cell.topology}"
            + ("; the published levels name no machine" if unnamed else "")
        )


def _patches(source: Source, collected: Collected, progress: Progress) -> dict[str, dict[str, str]]:
    """The patch files of a series by folder and name."""
    try:
        patching.patched(source, collected.patches)
    except BuildError as forward:
        try:
            taken = revert.reverted(source, collected.patches)
        except BuildError as backward:
            raise BuildError(
                f"{forward.what}; and {backward.what}",
                where=forward.where,
                hint="name the tree that they are for: --tree git:PATH@REV",
            ) from backward
        progress.say(f"     {source.spec} has the patches: base/ takes them out")
        return {BASE: taken.base, SERIES: taken.series}
    return {SERIES: {p.name: p.read_text(errors="replace") for p in collected.patches}}


def _words(patch: str) -> str:
    """The message of a patch."""
    return patch.partition("\n---\n")[0].partition("\n\n")[2]


def _title(collected: Collected, texts: list[str]) -> str:
    if collected.thread:
        return mail_text.tags(collected.thread.subject)[1]
    return patch_mail.title(texts[0]) or collected.patches[0].stem


def _origin(collected: Collected, texts: list[str], origin: str) -> str:
    if collected.thread:
        thread = collected.thread
        return f"{thread.sender}, {thread.date}, {thread.message_id}"
    first = texts[0].partition("\n")[0].split(" ")
    if first[0] == "From" and len(first) > 1 and len(first[1]) == 40:
        return f'commit {first[1][:12]} ("{patch_mail.title(texts[0])}")'
    return patch_mail.author(collected.patches[0]) or origin
