# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a host gives the same exact numbers as this one: by what it is, then by a boot there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from lab.base import cache
from lab.fleet import parcel, remote
from lab.fleet.identity import Identity
from lab.fleet.parcel import Entry
from lab.fleet.remote import Booted
from lab.measure import determinism, sampling
from lab.measure.cell import Task
from lab.measure.job import Testbed, resolve


class Candidate(Protocol):
    """A host that can be asked."""

    def ask(self, call: Callable[..., Any], *args: Any, observe: Callable[[], None]) -> Any:
        """What a function returns there."""

    def provide(self, entries: tuple[Entry, ...], observe: Callable[[], None]) -> None:
        """Send what the host does not have."""


class SelfCheck:
    """What a host has to be, and what it has to find, to join: what this host is, and finds."""

    def __init__(self, testbed: Testbed, this_host: Identity) -> None:
        self._this_host = this_host
        cell = determinism.probe_cell(cpus=4)
        self._job = resolve(Task(cell=cell, kernel=testbed.probe_kernel), testbed)
        with cache.scratch() as folder:
            sampling.measure(self._job, folder)
            paths = [folder / name for name in determinism.COMPARED]
            self._expected = {path.name: path.read_bytes() for path in paths if path.exists()}

    def refusal(self, host: Candidate) -> str:
        """Why a host may not join; empty when it may."""
        its: Identity = host.ask(remote.who, observe=lambda: None)
        if difference := self._this_host.difference(its):
            return difference
        machine = self._job.machine
        host.provide(parcel.booted_by(machine), lambda: None)
        code, token = machine.kernel.code, "self-check"
        booted: Booted = host.ask(remote.boot, self._job, code, token, observe=lambda: None)
        if booted.failure:
            return f"its guest failed: {booted.failure.what}"
        differing = [
            name for name, content in self._expected.items() if booted.files.get(name) != content
        ]
        return f"its self-check gives another {', '.join(differing)}" if differing else ""
