# SPDX-License-Identifier: GPL-2.0-or-later
"""Sizes as fio writes them, and where the I/O of a job lies on its disk."""

from __future__ import annotations

import re
from collections.abc import Mapping

# What a direct I/O begins and ends at, and what offsets are rounded to.
SECTOR = 512
PAGE = 4096
_SIZE = re.compile(r"(\d{1,19}|0x[0-9a-f]{1,16})([kmgtp]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {unit: 1 << 10 * power for power, unit in enumerate(("", "k", "m", "g", "t", "p"))}
# Their sizes are of the disk; fio counts zones, too, as in 4z.
ON_DISK = ("size", "offset", "offset_increment", "zonesize", "zonerange", "zoneskip")
_BLOCKS = ("bs", "bsrange", "bssplit")


def of(text: str) -> int | None:
    """A size in bytes; None for a percentage, for zones, and for what is no size."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        return None
    number = int(match[1], 16) if match[1][:2].lower() == "0x" else int(match[1])
    return number * _UNITS[match[2].lower()]


def shown(size: int) -> str:
    """A size with the largest unit of which it is a whole number."""
    unit = next(u for u in reversed(_UNITS) if not size % _UNITS[u])
    return f"{size // _UNITS[unit]}{unit}" if size else "0"


def blocks(options: Mapping[str, str]) -> tuple[int, int]:
    """The smallest and the largest block of a job, in bytes."""
    words = (re.split("[,:-]", options[name]) for name in _BLOCKS if name in options)
    sizes = [of(word.partition("/")[0]) for parts in words for word in parts]
    block_sizes = [size for size in sizes if size] or [PAGE]
    return min(block_sizes), max(block_sizes)


def block_pages(options: Mapping[str, str]) -> int:
    """The bytes of the pages that the largest block of a job takes."""
    return -(-blocks(options)[1] // PAGE) * PAGE


def end(options: Mapping[str, str], jobs: int, disk: int) -> int:
    """Where the last of a section's jobs ends on a disk of so many bytes."""
    offset = _bytes(options.get("offset", ""), disk)
    increment = _bytes(options.get("offset_increment", ""), disk)
    size = _bytes(options.get("size", ""), disk)
    return offset + increment * (jobs - 1) + (size or increment or block_pages(options))


def _bytes(text: str, disk: int) -> int:
    """A size, of which a percentage is one of the disk; 0 for what is none."""
    if re.fullmatch(r"\d{1,3}%", text):
        return disk * int(text[:-1]) // 100
    return of(text) or 0
