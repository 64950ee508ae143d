# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that a power cut, a kill or a second lab cannot spoil: whole or not there, and summed.

What is not complete lies aside, under a name of its own and with a lock on it that ends with its
process: so everybody can tell what a killed one left from what is being written.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

# In a folder whose files do not change: what `sha256sum` prints of each.
SUMS = "sums"
# Not summed: they, and what vng lays into the folder that it boots while it runs.
_NOT_SUMMED = re.compile(rf"{SUMS}\Z|(.*/)?virtme-init-[^/]*\Z", re.DOTALL)
# A network file system may know no locks.
_ATTEMPTS = 3
_ASIDE = re.compile(r"\..+\.[0-9a-f]{12}", re.DOTALL)


def file_hash(path: Path) -> str:
    """SHA-256 of a file's content, in hex."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Return when a file, or a folder with all that is in it, is on the disk."""
    inside = path.rglob("*") if path.is_dir() else ()
    for entry in (*inside, path):
        if not entry.is_symlink() and (entry.is_dir() or entry.is_file()):
            _sync_one(entry)


def sync_name(path: Path) -> None:
    """Return when the disk has a file's name; what is in a folder beside it is not waited for."""
    _sync_one(path.parent)


def _sync_one(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def folder_aside(target: Path) -> AbstractContextManager[Path]:
    """An empty folder beside target for a block; what is not moved away vanishes."""
    return _made_aside(target, Path.mkdir)


def replace(path: Path, content: bytes) -> None:
    """Make content that of a file; whoever reads finds the old or the new, also after a crash."""
    with _made_aside(path, Path.touch) as aside:
        aside.write_bytes(content)
        sync(aside)
        aside.replace(path)
    sync_name(path)


def replace_by_link(path: Path, target: Path) -> None:
    """Make a file a hard link to another one."""
    aside = _aside(path)
    try:
        aside.hardlink_to(target)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)  # there still when both were one file already


def sweep(folder: Path) -> None:
    """Delete what killed processes left aside in a folder."""
    left = [path for path in folder.glob(".*") if _ASIDE.fullmatch(path.name)]
    for path in left:
        if (opened := claim(path)) is not None:
            delete(path)
            _close(opened)


def delete(path: Path) -> None:
    """Delete a file or a folder, however deep, whatever rights it has; what cannot be stays."""
    if not _is_folder(path):
        with suppress(OSError):
            path.unlink()
        return
    with suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        if path.exists():
            _delete_from_above(path)


def _delete_from_above(folder: Path) -> None:
    """Delete a folder without going down in it: what it holds comes up first."""
    folder.chmod(0o700)
    while inside := list(folder.iterdir()):
        for path in inside:
            if not _is_folder(path):
                path.unlink()
                continue
            path.chmod(0o700)
            for below in path.iterdir():
                below.rename(folder / uuid.uuid4().hex)
            path.rmdir()
    folder.rmdir()


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def discard(folder: Path) -> None:
    """Delete a folder so that its name is free at once."""
    aside = _aside(folder)
    folder.rename(aside)
    delete(aside)


def hold(path: Path) -> int:
    """Keep a file or folder from being claimed until the descriptor returned here is closed."""
    opened = os.open(path, os.O_RDONLY)
    with suppress(OSError):
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return opened


def claim(path: Path) -> int | None:
    """A descriptor that has a file or folder to itself; None where somebody holds it."""
    try:
        opened = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        return None
    return opened


def in_use(path: Path) -> bool:
    """Whether a running process holds a file or folder."""
    opened = claim(path)
    _close(opened)
    return opened is None


def write_sums(folder: Path) -> None:
    """Write down the hashes of all files of a folder, for damaged() and for `sha256sum -c`."""
    lines = (f"{digest}  {name}\n" for name, digest in _sums(folder).items())
    replace(folder / SUMS, os.fsencode("".join(lines)))


def damaged(folder: Path) -> str:
    """The first file of a folder that is not what was written down of it; empty for none."""
    try:
        lines = os.fsdecode((folder / SUMS).read_bytes()).splitlines()
        known = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
        sums = _sums(folder)
    except OSError as exc:
        return Path(exc.filename).name if exc.filename else SUMS
    names = sorted(known.keys() | sums.keys())
    return next((name or SUMS for name in names if known.get(name) != sums.get(name)), "")


def _sums(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file by its name within a folder; links are no files."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    named = {str(path.relative_to(folder)): path for path in files}
    return {name: file_hash(named[name]) for name in sorted(named) if not _NOT_SUMMED.match(name)}


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}")


@contextmanager
def _made_aside(target: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """Yield something new beside target, locked if that can be; swept before it was, it is made
    again. What is still there after the block is deleted.
    """
    for left in reversed(range(_ATTEMPTS)):
        path = _aside(target)
        make(path)
        opened = claim(path)
        if not left or (opened is not None and path.exists()):
            break
        delete(path)
        _close(opened)
    try:
        yield path
    finally:
        if _is_folder(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        _close(opened)


def _close(opened: int | None) -> None:
    if opened is not None:
        os.close(opened)
