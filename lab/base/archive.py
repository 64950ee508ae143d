# SPDX-License-Identifier: GPL-2.0-or-later
"""Tar archives that somebody else may have made: nothing of them lands outside their folder.

Python's own `filter="data"` does the same, but Debian 12's Python 3.11.2 is older than it.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path
from typing import IO

from lab.base.errors import LabError

# Of all files together, sparse ones as large as they pretend to be. Chosen: a kernel with debugging
# information has 1 GiB.
MOST_BYTES = 4 * 2**30


def unpack(packed: IO[bytes], folder: Path) -> None:
    """Write a tar archive's files, folders and links into an empty folder, as this process's own.

    Raises LabError at a name or a link that leads out of the folder, at a name that comes twice,
    at more than MOST_BYTES, at anything else, such as a device, and when it is no archive.
    """
    total = 0
    try:
        with tarfile.open(fileobj=packed) as archive:
            for member in archive:
                total += member.size
                if total > MOST_BYTES:
                    raise LabError(f"an archive of more than {MOST_BYTES:,} bytes: not unpacked")
                _unpack_one(archive, member, folder)
    except (tarfile.TarError, EOFError, FileExistsError, KeyError, UnicodeError) as error:
        raise LabError(f"not an archive to be unpacked: {error}") from error


def _unpack_one(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    place = folder / member.name
    _must_lie_in(folder, place if member.isdir() else place.parent, member)
    place.parent.mkdir(parents=True, exist_ok=True)
    if member.isdir():
        place.mkdir(exist_ok=True)
    elif member.issym():
        _must_lie_in(folder, place.parent / member.linkname, member)
        place.symlink_to(member.linkname)
    elif content := archive.extractfile(member):
        # Made anew: what is there already may be a link, which would be written through.
        with content, place.open("xb") as file:
            shutil.copyfileobj(content, file)
        place.chmod(member.mode & 0o755 | 0o600)
    else:
        raise LabError(f"{member.name} in an archive is no file, folder or link: not unpacked")


def _must_lie_in(folder: Path, place: Path, member: tarfile.TarInfo) -> None:
    """Raise LabError unless a place lies in the folder once all links are followed."""
    whole = os.path.realpath(folder)
    if os.path.commonpath((whole, os.path.realpath(place))) != whole:
        raise LabError(f"{member.name} in an archive leads out of its folder: not unpacked")
