# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache: what a stage makes lies under a hash of its inputs, whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.base.errors import LabError, UsageError
from lab.base.progress import Progress

_ID_LENGTH = 16
_FULL = (errno.ENOSPC, errno.EDQUOT)
_ELSEWHERE = (
    "free some space, or name a folder on another disk: LAB_CACHE for what is built, LAB_RESULTS "
    "for what is measured"
)


def root() -> Path:
    """The cache folder: $LAB_CACHE, or blocklab under $XDG_CACHE_HOME or ~/.cache."""
    if own := os.environ.get("LAB_CACHE"):
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "blocklab"


def key(*parts: Any) -> str:
    """A short id for inputs that JSON can express; equal inputs, equal id."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]


def file_hash(path: Path) -> str:
    """SHA-256 of a file's content, in hex."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@contextmanager
def building(target: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes target when the block succeeds, and vanishes else.

    A target that appears meanwhile stays: equal ids have equal content, and it may be in use.
    """
    aside = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    make_folder(aside)
    try:
        with disk_space_matters(aside):
            yield aside
        if not target.exists():  # else another lab was faster, with the same inputs
            aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def make_folder(path: Path) -> Path:
    """Create a folder and its parents; a UsageError says why it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise UsageError(
            f"cannot create {path}: {exc.strerror}",
            hint=_ELSEWHERE,
        ) from exc
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
            aside = path.with_name(f".{path.name}.{os.getpid()}")
            aside.write_text(text)
            aside.replace(path)
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
