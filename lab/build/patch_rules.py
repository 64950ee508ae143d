# SPDX-License-Identifier: GPL-2.0-or-later
"""What patches may do to a kernel source: change ordinary files, and not too many.

Git applies more than that: links that lead out of the tree, submodules, attributes that start
programs when files are checked out, binary content that nobody can read. No patch to the kernel's
code needs it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from lab.base.errors import BuildError, LabError
from lab.base.process import CommandError
from lab.build.source import git

# Chosen: a hundred times what large series have, all patches together.
MOST_BYTES = 64 << 20
MOST_FILES = 10_000
_LONGEST_NAME, _LONGEST_PATH = 255, 1000
_KINDS = {"120000": "a symbolic link", "160000": "a submodule"}
_FILES = ("100644", "100755", "000000")  # the last is no file any more
_BINARY = re.compile(rb"^GIT binary patch", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_OBEYED = (".git", ".gitattributes", ".gitmodules")


def check(patches: Sequence[Path]) -> None:
    """Raise BuildError with the patch, the file in it, and why, where a patch may not be applied,
    whatever it would be applied to. What is no patch at all passes: git has a message for it.
    """
    size = count = 0
    for patch in patches:
        try:
            size += patch.stat().st_size
            content = patch.read_bytes() if size <= MOST_BYTES else b""
        except OSError as exc:
            raise LabError(f"cannot read {patch}: {exc.strerror}") from exc
        if size > MOST_BYTES:
            raise _refused(patch, f"with it the patches have more than {MOST_BYTES >> 20} MiB")
        # Before git sees it: a few bytes of that can be unpacked to as many as it likes.
        if _BINARY.search(content):
            raise _refused(patch, "it has binary content")
        for name in _changed(patch):
            count += 1
            if count > MOST_FILES:
                raise _refused(patch, f"with it more than {MOST_FILES:,} files are changed")
            if reason := _wrong_name(name):
                raise _refused(patch, f"{name!r}: {reason}")


def check_result(before: str, after: str, patches: Sequence[Path]) -> None:
    """Raise BuildError with the patch where patches made one tree another with new or changed files
    that are not ordinary ones. Only here is seen what a patch does to a link that is there already.
    """
    fields = git("diff-tree", "-r", "-z", "--raw", "--no-renames", before, after).split("\0")
    for facts, name in zip(fields[::2], fields[1::2], strict=False):
        mode = facts.split()[1]
        if mode not in _FILES:
            makers = [patch for patch in patches if name in _changed(patch)]
            what = _KINDS.get(mode, f"a file of mode {mode}")
            raise _refused((makers or patches)[-1], f"{name!r}: it is {what}")


def _changed(patch: Path) -> list[str]:
    """The files that a patch changes."""
    try:
        listed = git("apply", "--numstat", "-z", str(patch.absolute()))
    except CommandError:
        return []  # git will say why when it is applied
    return [record.split("\t", 2)[2] for record in listed.split("\0") if record.count("\t") >= 2]


def _wrong_name(name: str) -> str:
    parts = name.split("/")
    if _CONTROL.search(name):
        return "its name has control characters"
    if "" in parts or ".." in parts:
        return "it is not in the tree"
    if any(part.lower() in _OBEYED for part in parts):
        return "git would obey it"
    if len(name) > _LONGEST_PATH or any(len(part.encode()) > _LONGEST_NAME for part in parts):
        return "its name is too long"
    return ""


def _refused(patch: Path, why: str) -> BuildError:
    return BuildError(
        f"{patch.name} is not applied: {why}",
        where=str(patch),
        hint="patches change ordinary files of the kernel's source, as text",
    )
