# SPDX-License-Identifier: GPL-2.0-or-later
"""Patches applied to a source inside the object store: a new tree hash, or nothing at all."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab.base import cache
from lab.base.errors import BuildError, UsageError
from lab.base.process import CommandError
from lab.base.system import CHECKOUT, data
from lab.build import patch_rules, repository
from lab.build.source import Source, git

_FAILED_AT = re.compile(r"patch failed: (?P<file>\S+):(?P<line>\d+)")
_MISSING = re.compile(r"error: (?P<file>\S+): (?P<why>No such file|does not exist|already exists)")
# The folders with patches that the lab ships (lab/base/system.py).
_OWN = ("kernel-patches", "configs")
_HUNK = re.compile(r"^@@ -(?P<start>\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Tree:
    """A source with patches: its git tree hash is its identity. It is foreign when one of the
    patches is none that the lab ships.
    """

    source: Source
    hash: str
    foreign: bool = False


def patched(source: Source, patches: Sequence[Path]) -> Tree:
    """Apply patches in order and return the resulting tree.

    Raises BuildError naming the patch, the file and the hunk that does not apply, or what it is
    that no patch may do; no tree of the attempt is used.
    """
    if not patches:
        return Tree(source, source.tree)
    patch_rules.check(patches)
    with cache.scratch() as folder:
        index = {"GIT_INDEX_FILE": str(folder / "index")}
        git("read-tree", source.tree, env=index)
        for patch in patches:
            try:
                git("apply", "--cached", "--whitespace=nowarn", str(patch.absolute()), env=index)
            except CommandError as exc:
                if exc.status < 0:
                    raise  # killed: nothing is known of the patch
                raise BuildError(
                    f"{patch.name} does not apply to {source.spec}: {_reason(patch, exc.output)}",
                    where=str(patch),
                    hint=f"rebase the patch onto {source.spec} ({source.version})",
                ) from exc
        tree = git("write-tree", env=index)
    patch_rules.check_result(source.tree, tree, patches)
    return Tree(source, tree, foreign=tree != source.tree and any(map(is_foreign, patches)))


def is_foreign(patch: Path) -> bool:
    """Whether a patch is none that the lab ships: none of a wheel, or of its checkout's last commit
    with the content that it has there.
    """
    path = patch.resolve()
    if CHECKOUT is None:
        return not any(path.is_relative_to(data(name).resolve()) for name in _OWN)
    try:
        content = path.read_bytes()
    except OSError:
        return True
    # As git names a file's content.
    name = hashlib.sha1(b"blob %d\0%b" % (len(content), content), usedforsecurity=False)
    return _committed(CHECKOUT).get(path) != name.hexdigest()


@functools.cache
def _committed(checkout: Path) -> dict[Path, str]:
    """The names of the contents of what the lab's last commit has in its folders of patches."""
    with suppress(CommandError, UsageError), repository.opened(checkout) as repo:
        top = checkout.resolve()
        entries = repo.git("ls-tree", "-r", "-z", "HEAD", "--", *_OWN).split("\0")
        facts = (entry.partition("\t") for entry in entries if entry)
        return {top / path: columns.split(" ")[2] for columns, _, path in facts}
    return {}


def _reason(patch: Path, output: str) -> str:
    """File and hunk from git apply's error output, else git's own words."""
    if match := _FAILED_AT.search(output):
        file, line = match["file"], match["line"]
        return f"hunk {_hunk_number(patch, file, line)} of {file} (at line {line})"
    if match := _MISSING.search(output):
        return f"{match['file']}: {match['why'].lower()}"
    return output.strip().splitlines()[-1] if output.strip() else "git apply gave no reason"


def _hunk_number(patch: Path, file: str, line: str) -> str:
    """Which of the patch's hunks for file starts at line of the old file, counted from 1."""
    text = patch.read_text(errors="replace")
    start = re.search(rf"^--- [ab]/{re.escape(file)}(\t.*)?$", text, re.MULTILINE)
    diff = re.split(r"^--- \S", text[start.end() :], flags=re.MULTILINE)[0] if start else ""
    for number, hunk in enumerate(_HUNK.finditer(diff), start=1):
        if hunk["start"] == line:
            return str(number)
    return "?"
