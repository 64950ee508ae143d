# SPDX-License-Identifier: GPL-2.0-or-later
"""Hosts of a fleet that are none: they answer in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lab.fleet.parcel import Entry


@dataclass
class FakeHost:
    """A host that answers by function; what it is not told to answer is an error."""

    answers: dict[str, Any]
    provided: list[Entry] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def ask(self, call: Callable[..., Any], *args: Any, observe: Callable[[], None]) -> Any:
        """The answer to a function of lab.fleet.remote."""
        self.calls.append(call.__name__)
        observe()
        return self.answers[call.__name__]

    def provide(self, entries: tuple[Entry, ...], observe: Callable[[], None]) -> None:
        """Note what was sent."""
        self.provided += entries
