# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest reports of itself: the disk, the queues, the kernel that it really has."""

from __future__ import annotations

from collections.abc import Mapping

from lab.base.errors import GuestError
from lab.base.text import visible

# How many facts there may be, and how long one is; a disk has some 150.
_MAX_FACTS = 2000
_MAX_FACT = 4096


def facts(outputs: Mapping[str, str]) -> dict[str, str]:
    """The lines ``path<TAB>value`` of facts.tsv. Raises GuestError for what are no facts."""
    lines = outputs.get("facts.tsv", "").split("\n")
    if len(lines) > _MAX_FACTS or any(len(line) > _MAX_FACT for line in lines):
        raise GuestError("corrupt", "the guest reports facts that no disk has: they are too long")
    rows = (visible(line).partition("\t") for line in lines if "\t" in line)
    return {path: value for path, _, value in rows}
