# SPDX-License-Identifier: GPL-2.0-or-later
"""Patches that a source has already, taken out of it: what a series needs as base/ and series/."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base import cache
from lab.base.errors import BuildError
from lab.base.process import CommandError, run
from lab.build import patch_mail, patch_rules
from lab.build.repository import ISOLATED
from lab.build.source import Source, git

_APPLYING = re.compile(r"Applying patch (\S+) with \d+ reject")
_REJECTED = re.compile(r"Rejected hunk #(\d+)")
_LONGEST_SUBJECT = 60


@dataclass(frozen=True)
class Reverted:
    """Patch files by name: those that take a series out of a source, and those that bring it back,
    which apply to what the first leave.
    """

    base: dict[str, str]
    series: dict[str, str]


def reverted(source: Source, patches: Sequence[Path]) -> Reverted:
    """Take patches out of a source that has them, the last first; three-way where the lines around
    them have changed. Raises BuildError with the patch and its hunks that cannot be taken out.
    """
    patch_rules.check(patches)
    trees = [source.tree]
    with cache.scratch() as folder:
        index = {"GIT_INDEX_FILE": str(folder / "index")}
        git("read-tree", source.tree, env=index)
        for patch in reversed(patches):
            _take_out(source, patch, index, trees[-1])
            trees.append(git("write-tree", env=index))
    base, series = {}, {}
    steps = zip(reversed(patches), itertools.pairwise(trees), strict=True)
    for number, (patch, (before, after)) in enumerate(steps, start=1):
        text = patch.read_text(errors="replace")
        title = patch_mail.title(text)
        name = f"{number:04}-Revert-{patch_mail.slug(title)}.patch"
        base[name] = _message_of_revert(title, source) + _diff(before, after)
        series[patch.name] = (
            text.partition("\n---\n")[0].rstrip() + "\n---\n" + _diff(after, before)
        )
    return Reverted(base, dict(sorted(series.items())))


def _take_out(source: Source, patch: Path, index: dict[str, str], tree: str) -> None:
    options = ("--cached", "--reverse", "--whitespace=nowarn")
    try:
        git("apply", *options, str(patch.absolute()), env=index)
    except CommandError:
        try:
            git("apply", "--3way", *options, str(patch.absolute()), env=index)
        except CommandError as exc:
            raise BuildError(
                f"{patch.name} cannot be taken out of {source.spec}: "
                f"{', '.join(_conflicts(patch, tree)) or exc.output.strip()}",
                where=str(patch),
                hint="write the patches of base/ by hand, and those of series/ on top of them",
            ) from exc


def _conflicts(patch: Path, tree: str) -> list[str]:
    """The hunks of a patch that cannot be taken out of a tree, by file."""
    files = re.findall(r"^--- [ab]/(\S+)", patch.read_text(errors="replace"), re.MULTILINE)
    with cache.scratch() as folder:
        index = {"GIT_INDEX_FILE": str(folder / "index"), "GIT_WORK_TREE": str(folder / "tree")}
        (folder / "tree").mkdir()
        git("read-tree", tree, env=index)
        for file in files:
            try:
                git("checkout-index", "--", file, env=index)
            except CommandError:
                continue  # git apply reports it as missing
        argv = ["git", "apply", "--reverse", "--reject", "--whitespace=nowarn"]
        try:
            run([*argv, str(patch.absolute())], cwd=folder / "tree", env=ISOLATED)
        except CommandError as exc:
            return _rejected(exc.output)
    return []


def _rejected(output: str) -> list[str]:
    """The rejected hunks in what `git apply --reject` says."""
    conflicts, file = [], ""
    for line in output.splitlines():
        if applying := _APPLYING.search(line):
            file = applying[1]
        elif rejected := _REJECTED.search(line):
            conflicts.append(f"hunk {rejected[1]} of {file}")
        elif "No such file" in line:
            conflicts.append(line.removeprefix("error: "))
    return conflicts


def _diff(before: str, after: str) -> str:
    return git("diff", "--no-ext-diff", "--no-textconv", "--stat", "-p", before, after) + "\n-- \n"


def _message_of_revert(title: str, source: Source) -> str:
    return (
        f'Subject: [PATCH] Revert "{title[:_LONGEST_SUBJECT]}"\n\n'
        f"{source.spec} has this change. Take it out, so that kernels without and with\n"
        "it can be compared.\n---\n"
    )
