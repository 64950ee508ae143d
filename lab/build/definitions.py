# SPDX-License-Identifier: GPL-2.0-or-later
"""Where functions are defined in a tree: file and line, from the text of a few files."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from lab.base.errors import LabError
from lab.build.source import git

_FILE = re.compile(r"^\+\+\+ b/([^\s\"]+)$", re.MULTILINE)
# A definition begins in the first column, and its line does not end as a declaration does.
_LINE = re.compile(r"[0-9a-f]+:(?P<file>[^:]+):(?P<line>[0-9]+):(?P<text>[A-Za-z_].*)")
_CALLED = re.compile(r"([A-Za-z_]\w*)\(")


def files(patches: Sequence[Path]) -> list[str]:
    """The C files that patches touch, as the patches name them."""
    names = [name for patch in patches for name in _FILE.findall(patch.read_text(errors="replace"))]
    return [name for name in dict.fromkeys(names) if name.endswith((".c", ".h"))]


def places(tree: str, functions: Collection[str], names: Sequence[str]) -> dict[str, str]:
    """Where functions are defined in files of a tree, as ``block/bio.c:503``; none where that is
    not to be seen.
    """
    if not functions or not names:
        return {}
    try:
        listed = git("grep", "-nE", r"^[A-Za-z_].*[A-Za-z0-9_]\(", tree, "--", *names)
    except LabError:  # nothing matches
        return {}
    by_function: dict[str, str] = {}
    for line in listed.splitlines():
        match = _LINE.fullmatch(line)
        called = match and _CALLED.search(match["text"])
        if match and called and called[1] in functions and not match["text"].endswith(";"):
            by_function.setdefault(called[1], f"{match['file']}:{match['line']}")
    return by_function
