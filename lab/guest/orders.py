# SPDX-License-Identifier: GPL-2.0-or-later
"""What the agent (lab/guest/agent) is told to do, and what it sends of that."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.base.errors import GuestError
from lab.base.text import visible

# What the agent sends of a step; {} are the step's words.
_SENT = {
    "facts": ("facts.tsv",),
    "fio": ("fio.log", "{}.json"),
    "command": ("{}.log",),
    **{verb: (f"{verb}.log",) for verb in ("dm", "loop", "mkfs", "mount", "dbench", "primitives")},
}
# How many facts a guest may report of itself, and how long one is; a disk has some 150.
_MAX_FACTS = 2000
_MAX_FACT = 4096


@dataclass(frozen=True)
class Orders:
    """What the agent has to do: the plan's steps, files they need, and seconds for each phase.

    deadlines_s must hold ``boot`` and every phase that a step ``phase NAME`` enters. A guest begins
    each of them once, so all together are the deadline of the boot.
    """

    steps: tuple[str, ...]
    deadlines_s: Mapping[str, float]
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def outputs(self) -> frozenset[str]:
        """The names of all files that the agent can send while it takes these steps."""
        names = set[str]()
        for step in self.steps:
            verb, _, words = step.partition(" ")
            names.update(name.format(words) for name in _SENT.get(verb, ()))
        return frozenset(names)

    def archive(self) -> bytes:
        """The orders as the tar archive that the agent unpacks; equal orders, equal bytes."""
        buffer = io.BytesIO()
        content = {**self.files, "plan": "\n".join(self.steps) + "\n"}
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name in sorted(content):
                data = content[name].encode()
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return buffer.getvalue()


def facts(outputs: Mapping[str, str]) -> dict[str, str]:
    """What a guest reports of its disk, queues and kernel: the lines ``path<TAB>value`` of
    facts.tsv. Raises GuestError for what are no facts.
    """
    lines = outputs.get("facts.tsv", "").split("\n")
    if len(lines) > _MAX_FACTS or any(len(line) > _MAX_FACT for line in lines):
        raise GuestError("corrupt", "the guest reports facts that no disk has: they are too long")
    rows = (visible(line).partition("\t") for line in lines if "\t" in line)
    return {path: value for path, _, value in rows}
