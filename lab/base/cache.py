# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache: what a stage makes lies under a hash of its inputs, whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from lab.base import durable, places
from lab.base.durable import file_hash as file_hash
from lab.base.errors import LabError, UsageError
from lab.base.progress import Progress

T = TypeVar("T")

_ID_LENGTH = 16
_FULL = (errno.ENOSPC, errno.EDQUOT)
_ELSEWHERE = (
    "free some space, or name a folder on another disk: LAB_CACHE for what is built, LAB_RESULTS "
    "for what is measured"
)
# Chosen: more than any file system keeps in a file's own entry.
_PROBE_BYTES = 1 << 16
# The entries that this process uses, each with what keeps it from `lab gc`.
_held: dict[Path, int] = {}


def root() -> Path:
    """The cache folder: $LAB_CACHE, or blocklab under $XDG_CACHE_HOME or ~/.cache.

    Raises UsageError for one that others may write to.
    """
    if named := os.environ.get("LAB_CACHE"):
        return places.trusted(Path(named).absolute(), "LAB_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or places.home() / ".cache"
    return places.trusted(Path(base).absolute() / "blocklab", "LAB_CACHE")


def key(*parts: Any) -> str:
    """A short id for inputs that JSON can express; equal inputs, equal id."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]


@contextmanager
def building(target: Path, *, summed: bool = True) -> Iterator[Path]:
    """Yield an empty folder that becomes target when the block succeeds, and vanishes else.

    A target that appears meanwhile stays: equal ids have equal content, and it may be in use. With
    sums of its files, for whole(), unless they are going to change.
    """
    make_folder(target.parent)
    with durable.folder_aside(target) as aside:
        with disk_space_matters(aside):
            yield aside
            if summed:
                durable.write_sums(aside)
            durable.sync(aside)
        try:
            aside.rename(target)
        except OSError:
            if not target.exists():
                raise
        durable.sync_name(target)
    if summed:
        _hold(target)


def whole(folder: Path, sound: Callable[[Path], bool] = lambda folder: True) -> bool:
    """Whether the cache has an entry and its files are what they were; what is damaged is deleted.

    That is looked at when a process first uses the entry, which then is safe from `lab gc` until
    the process ends. Entries of before there were sums get them, if they are sound.
    """
    if folder in _held and folder.exists():
        return True
    try:
        _hold(folder)
    except FileNotFoundError:
        return False
    if why := _damage(folder, sound):
        _discard(folder, why, sound)
        return False
    return True


def _hold(folder: Path) -> None:
    """Keep an entry from `lab gc` while this process runs, and for some time after it."""
    held = durable.hold(folder)
    if folder in _held:
        os.close(_held[folder])
    _held[folder] = held
    with suppress(OSError):
        os.utime(folder)


def _damage(folder: Path, sound: Callable[[Path], bool]) -> str:
    """What is wrong with an entry; empty for nothing."""
    if (folder / durable.SUMS).exists():
        return durable.damaged(folder)
    if not sound(folder):
        return "it is not complete"
    with suppress(OSError):
        durable.write_sums(folder)
    return ""


def _discard(folder: Path, why: str, sound: Callable[[Path], bool]) -> None:
    """Delete a damaged entry, unless another lab made it anew in the meantime."""
    os.close(_held.pop(folder))
    with lock(root() / "damaged", Progress(), "looking at a damaged entry of the cache"):
        if folder.exists() and _damage(folder, sound):
            Progress().say(f"    damaged, and made again: {folder} ({why})")
            durable.discard(folder)


def sweep() -> None:
    """Delete what killed labs left half made in the cache."""
    for folder in (root(), *root().glob("*/")):
        durable.sweep(folder)


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield an empty folder of the cache that is gone after the block."""
    make_folder(root())
    with durable.folder_aside(root() / "scratch") as folder, disk_space_matters(folder):
        yield folder


def read(path: Path, parse: Callable[[Any], T]) -> T | None:
    """What a JSON file of the cache holds, parsed; None where there is none, or a damaged one."""
    try:
        return parse(json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        Progress().say(f"    damaged, and asked again: {path}")
        return None


def make_folder(path: Path) -> Path:
    """Create a folder and its parents; a UsageError says why it cannot be."""
    try:
        places.make(path)
    except OSError as exc:
        raise UsageError(f"cannot create {path}: {exc.strerror}", hint=_ELSEWHERE) from exc
    return path


def write_atomically(path: Path, text: str) -> None:
    """Replace a file by text, never leaving half of it. A link stays one, and so does a device.

    Raises UsageError where nothing can be written.
    """
    path = path if path.is_char_device() or path.is_fifo() else path.resolve()
    make_folder(path.parent)
    with disk_space_matters(path):
        try:
            if path.exists() and not path.is_file():
                path.write_text(text)
                return
            durable.replace(path, text.encode())
        except OSError as exc:
            if exc.errno in _FULL:
                raise
            raise UsageError(f"cannot write {path}: {exc.strerror}") from exc


@contextmanager
def disk_space_matters(path: Path) -> Iterator[None]:
    """Turn a full disk met in the block into one clear message."""
    try:
        yield
    except OSError as exc:
        if exc.errno not in _FULL:
            raise
        raise full_disk(path) from exc
    except LabError as exc:
        if "No space left on device" not in str(exc):
            raise
        raise full_disk(path) from exc


def full_disk(path: Path) -> LabError:
    """The error for a full disk at path."""
    free = shutil.disk_usage(path if path.exists() else path.parent).free
    return LabError(
        "no space left on the disk",
        where=f"{path} ({free / 2**20:.0f} MiB free)",
        hint=f"{_ELSEWHERE}; nothing is lost, the next run continues where this one stopped",
    )


def require_free(path: Path, least: int) -> None:
    """Raise the error of a full disk where fewer bytes than that are free at path."""
    if shutil.disk_usage(path).free < least:
        raise full_disk(path)


def require_writable(folder: Path) -> None:
    """Raise the error of a full disk where a folder takes no more, such as by a quota."""
    with disk_space_matters(folder), durable.folder_aside(folder / "probe") as aside:
        (aside / "probe").write_bytes(bytes(_PROBE_BYTES))
        durable.sync(aside)


def require_space(path: Path, gib: float, purpose: str) -> None:
    """Raise LabError unless the disk of path has gib GiB left for a purpose."""
    free = shutil.disk_usage(make_folder(path)).free / 2**30
    if free < gib:
        raise LabError(
            f"{purpose} needs {gib:g} GiB of disk, {free:.1f} GiB are free",
            where=str(path),
            hint="free some space, or set LAB_CACHE to a folder on another disk",
        )


@contextmanager
def lock(path: Path, progress: Progress, what: str) -> Iterator[None]:
    """Hold a lock file for the block; when another lab holds it, say so and wait."""
    make_folder(path.parent)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.step(f"waiting for another lab that is {what}"):
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def remove(folder: Path) -> None:
    """Delete a folder of the cache if it is there."""
    shutil.rmtree(folder, ignore_errors=True)
