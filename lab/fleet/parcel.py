# SPDX-License-Identifier: GPL-2.0-or-later
"""Entries of the cache as they travel to other hosts: kernels and guest roots, by their ids."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

from lab.base import archive, cache
from lab.base.errors import LabError
from lab.guest.qemu_command import Machine

# What makes the sums of an entry anew where it arrives.
_KINDS = ("kernels", "guests")


@dataclass(frozen=True)
class Entry:
    """An entry of the cache: its kind, which is a folder of the cache, and its id."""

    kind: str
    id: str

    @property
    def folder(self) -> Path:
        """Where it lies on this host."""
        if self.kind not in _KINDS or "/" in self.id or self.id.startswith("."):
            raise LabError(f"no entry of a cache: {self.kind}/{self.id}")
        return cache.root() / self.kind / self.id


def booted_by(machine: Machine) -> tuple[Entry, Entry]:
    """The kernel and the guest root of a machine."""
    return Entry("kernels", machine.kernel.id), Entry("guests", machine.guest.id)


@dataclass(frozen=True)
class Parcel:
    """An entry's files as a tar archive, and the SHA-256 of that."""

    entry: Entry
    archive: bytes
    sha256: str


def packed(entry: Entry) -> Parcel:
    """An entry of this host's cache, to be sent."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in sorted(entry.folder.iterdir()):
            tar.add(path, path.name)
    data = buffer.getvalue()
    return Parcel(entry, data, hashlib.sha256(data).hexdigest())


def unpack(parcel: Parcel) -> None:
    """Put an entry into this host's cache. Raises LabError when it is not what was sent."""
    if hashlib.sha256(parcel.archive).hexdigest() != parcel.sha256:
        raise LabError(f"{parcel.entry.kind} {parcel.entry.id} was damaged on its way")
    with cache.building(parcel.entry.folder) as folder:
        archive.unpack(io.BytesIO(parcel.archive), folder)
