# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the lab's folders are, and whether they are the user's own.

What lies in them is executed: kernels, guest roots, a plugin that QEMU loads. So nobody else may be
able to write there.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path

from lab.base.errors import UsageError

# The kernel's make and virtme-ng take these paths unquoted.
_TAKEN = re.compile(r"[\w./+@,~-]+")
# Chosen: with the longest names below it a path stays under what apt and ccache take; apt lost
# what it fetched below a folder of 439 bytes, and did not below one of 246.
_MOST_BYTES = 255
_PACKAGE = Path(__file__).resolve().parents[1]
_PRIVATE = 0o700
# The folders that were found to be the user's own.
_own: set[Path] = set()


def home() -> Path:
    """The user's home folder. Raises UsageError where none is known."""
    try:
        return Path.home()
    except RuntimeError as exc:
        raise UsageError(
            "no home folder is known", hint="set HOME, or LAB_CACHE and LAB_RESULTS"
        ) from exc


@cache
def trusted(path: Path, variable: str) -> Path:
    """The path without links, of a folder that variable names, if what lies there may be believed.

    The owner is to be the user, root, or who owns the lab's own code; nobody else may write there,
    and nobody else may read there afterwards, for a build can leave programs that run as the user.
    A folder that is not there yet is made so by make(). Raises UsageError.
    """
    with suppress(RuntimeError):  # Python raises it for a loop of links until 3.12
        path = path.resolve()
    if path.is_symlink():
        raise UsageError(f"{path} is a link to itself", hint=f"set {variable}")
    if not _TAKEN.fullmatch(str(path)):
        raise UsageError(
            f"the name of a folder has characters that the kernel's make does not take: "
            f"{str(path)!a}",
            hint=f"set {variable} to a path of letters, digits and . _ - + , @ ~",
        )
    if len(os.fsencode(path)) > _MOST_BYTES:
        raise UsageError(
            f"the path of a folder has {len(os.fsencode(path))} bytes, more than {_MOST_BYTES}: "
            f"{str(path)[:60]}...",
            hint=f"set {variable} to a shorter path",
        )
    _own.add(path)
    try:
        status = path.stat()
    except OSError:
        return path  # making it will tell what is wrong
    if status.st_uid not in (os.geteuid(), 0, _PACKAGE.stat().st_uid):
        raise UsageError(
            f"{path} belongs to another user (uid {status.st_uid}), who could change what is run",
            hint=f"set {variable} to a folder of your own",
        )
    # On many systems a user has a group to himself, which may write what he writes.
    shared_bits = stat.S_IWOTH if status.st_gid == status.st_uid else stat.S_IWOTH | stat.S_IWGRP
    if path.is_dir() and status.st_mode & shared_bits:
        raise UsageError(
            f"others may write to {path}, and so change what is run",
            hint=f"set {variable} to a folder for this alone, or take their right: chmod go-w",
        )
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != _PRIVATE and path.is_dir():
        path.chmod(_PRIVATE)
    return path


def is_own(path: Path) -> bool:
    """Whether a path lies in one of the lab's folders for what is built and measured."""
    return not _own.isdisjoint((path, *path.parents))


def make(path: Path) -> None:
    """Create a folder and its parents; one of the lab's own for the user alone. Raises OSError."""
    for folder in reversed((path, *path.parents)):
        if folder in _own:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=_PRIVATE, exist_ok=True)
    path.mkdir(parents=True, exist_ok=True)
