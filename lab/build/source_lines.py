# SPDX-License-Identifier: GPL-2.0-or-later
"""From which source line a kernel's instructions are, as its debug information tells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base import sandbox
from lab.base.process import run
from lab.base.sandbox import View

# The kernel fragment that a kernel needs for that.
FRAGMENT = "source_lines"
_INSTRUCTION = re.compile(r"^ *([0-9a-f]{1,16}):\t", re.MULTILINE)
# Objects lie below their sources (lab/build/workbench.py).
_PLACE = re.compile(r"(?:.*/obj-[0-9a-f]+/\.\./)?(?P<file>[^:]+):(?P<line>[0-9]+)(?: \(.*)?")
_PATIENCE_S = 600.0  # chosen: it takes seconds


@dataclass(frozen=True, order=True)
class LinePlace:
    """A line of a file of the kernel's source; line 0 where nothing is known."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else "?"


UNKNOWN = LinePlace("", 0)


def places(image: Path, ranges: Sequence[tuple[int, int]]) -> dict[int, LinePlace]:
    """Where the instructions of a vmlinux between addresses are from, in their order: in a function
    that was inlined, the line in that function.

    They are those of the image: what a kernel writes over them when it boots has other lengths now
    and then. Raises CommandError for what is no program.
    """
    addresses = [address for start, end in ranges for address in _instructions(image, start, end)]
    queries = "".join(f"{address:x}\n" for address in addresses)
    lines = _confined(["addr2line", "-e", str(image)], image, queries)
    return dict(zip(addresses, map(_place, lines.splitlines()), strict=True))


def _instructions(image: Path, start: int, end: int) -> list[int]:
    argv = ["objdump", "-d", "--no-show-raw-insn"]
    argv += [f"--start-address={start:#x}", f"--stop-address={end:#x}", str(image)]
    return [int(address, 16) for address in _INSTRUCTION.findall(_confined(argv, image))]


def _confined(argv: Sequence[str], image: Path, stdin: str = "") -> str:
    """What a program says of an image: its makefiles were somebody else's."""
    view = View(read=(image, *sandbox.installation(argv[0])))
    return run(sandbox.confined(argv, view), stdin=stdin, timeout_s=_PATIENCE_S).output


def _place(text: str) -> LinePlace:
    match = _PLACE.fullmatch(text)
    return LinePlace(match["file"], int(match["line"])) if match and int(match["line"]) else UNKNOWN
