# SPDX-License-Identifier: GPL-2.0-or-later
"""What QEMU wrote: read and kept as regular files, whatever else lies in its folder.

A guest that got out of its QEMU may write to that folder alone, and leaves there what it likes: a
link to a file of the user's, a pipe that nobody writes to. The lab never opens either.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from lab.base import durable
from lab.base.errors import GuestError


def opened(path: Path) -> IO[bytes]:
    """A regular file that QEMU has or had, open to be read.

    Raises FileNotFoundError, and GuestError (``corrupt``) for anything but a regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as exc:  # a link (ELOOP), a socket (ENXIO)
        raise _no_file(path) from exc
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _no_file(path)
    return os.fdopen(descriptor, "rb")


def size(path: Path) -> int:
    """The bytes of a regular file; 0 where there is none."""
    try:
        status = path.lstat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def keep(source: Path, target: Path, names: Iterable[str]) -> GuestError | None:
    """Move the files of these names into another folder and delete all else, once QEMU has ended.

    Returns the error of the first that is there and no regular file.
    """
    failure = None
    for name in names:
        path = source / name
        try:
            status = path.lstat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            path.rename(target / name)
        else:
            failure = failure or _no_file(path)
    durable.delete(source)
    return failure


def _no_file(path: Path) -> GuestError:
    what = f"QEMU's {path.name} is no regular file: what its guest did is not believed"
    return GuestError("corrupt", what, where=str(path))
