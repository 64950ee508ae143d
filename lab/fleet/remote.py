# SPDX-License-Identifier: GPL-2.0-or-later
"""What a host of the fleet does when it is asked: say what it is, take kernels, boot guests.

Dask calls these functions in the host's worker. They stand in one process with others that boot
guests, and share its CPUs and memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from functools import cache as once
from pathlib import Path

from lab.base import cache
from lab.base.errors import GuestError, LabError
from lab.build import tcg_plugin
from lab.fleet import identity
from lab.fleet.identity import Identity
from lab.fleet.parcel import Entry
from lab.measure import host
from lab.measure.job import Job
from lab.measure.place import ThisHost
from lab.measure.sampling import Sample

# Boots that nobody waits for any more.
_given_up: set[str] = set()


@dataclass(frozen=True)
class Booted:
    """What came of a boot: its files by name, and its numbers, or why there are none."""

    files: Mapping[str, bytes]
    sample: Sample | None
    failure: GuestError | None = None


@once
def _facts() -> host.Facts:
    return host.facts()


@once
def _place() -> ThisHost:
    return ThisHost(_facts().memory_gib)


def slots() -> int:
    """How many deterministic guests this host runs side by side."""
    return _place().slots


def who() -> Identity:
    """The identity of the host that is asked."""
    return identity.of_host(_facts().emulator, _plugin())


def lacking(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Those of some entries that this host's cache does not have."""
    return tuple(entry for entry in entries if not cache.whole(entry.folder))


def give_up(token: str) -> None:
    """End the boot of that token at its next look."""
    _given_up.add(token)


def boot(job: Job, code: str, token: str) -> Booted:
    """Boot a job once, on the kernel of that code.

    Raises LabError when the kernel of its id is another one here.
    """
    local_job = replace(job, machine=replace(job.machine, plugin=_plugin()))
    kernel = local_job.machine.kernel
    if cache.file_hash(kernel.vmlinux) != code:
        raise LabError(f"the kernel {kernel.id} executes something else on this host")

    def observe(phase: str) -> None:
        if token in _given_up:
            _given_up.discard(token)
            raise CancelledError

    with cache.scratch() as folder:
        sample, failure = None, None
        try:
            with _place().slot(local_job) as measure:
                sample = measure(folder, observe)
        except GuestError as exc:
            failure = exc
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        return Booted(files, sample, failure)


def _plugin() -> Path | None:
    facts = _facts()
    return tcg_plugin.compiled(facts.qemu_version, facts.emulator) if facts.plugins else None
