# SPDX-License-Identifier: GPL-2.0-or-later
"""What names and words in a file of the lab may be made of: no path, no markup, no second line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}")
_TOPOLOGY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ .,:=+-]{0,399}")
_WORD = re.compile(r"[A-Za-z0-9_.,:=/@%+-]{1,200}")


def is_word(text: str) -> bool:
    """Whether a text may be the value of a parameter, of a workload or of a kernel."""
    return bool(_WORD.fullmatch(text))


def _only(pattern: re.Pattern[str], meaning: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"{text[:80]!r} is {meaning}")
        return text

    return check


Name = Annotated[
    str,
    AfterValidator(_only(_NAME, "no name: letters, digits and _ . + -, at most 64, no sign first")),
]
TopologyName = Annotated[
    str,
    AfterValidator(
        _only(_TOPOLOGY, "no topology: a name, or a line such as null_blk submit_queues=8")
    ),
]
Word = Annotated[
    str,
    AfterValidator(
        _only(_WORD, "no parameter: letters, digits and _ . , : = / @ % + -, at most 200")
    ),
]
