# SPDX-License-Identifier: GPL-2.0-or-later
"""What make printed when it failed: a mistake in the source, or a compiler that did not get far."""

from __future__ import annotations

import re

# What compiler, linker, kconfig and make itself say of a source.
_MISTAKE = re.compile(
    r"error:|undefined reference|multiple definition|syntax error|\*\*\* [^\[].*Stop\."
)
_FAILED = re.compile(r"No space left on device|\*\*\* ")
# What is said, with the same words, when the host took a tool its memory, its disk or itself.
_HOST = re.compile(
    r"internal compiler error|Killed|terminated program|out of memory|memory exhausted"
    r"|Cannot allocate memory|No space left|Input/output error|cannot execute|not found"
    r"|Bus error|Segmentation fault|Text file busy"
)


def failures(output: str) -> str:
    """The lines that tell why make failed."""
    lines = (line for line in output.splitlines() if _MISTAKE.search(line) or _FAILED.search(line))
    return "\n".join(lines)


def blames_source(output: str) -> bool:
    """Whether a tool named a mistake in the source; else the host is at fault, or nobody knows."""
    return any(_MISTAKE.search(line) and not _HOST.search(line) for line in output.splitlines())
