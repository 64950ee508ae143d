# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls of some functions one by one, as the plugin wrote them down: who called, and about what."""

from __future__ import annotations

import re
from typing import NamedTuple

from lab.measure import plugin_output

_CONTENT = "the calls"
_WORD = r"([0-9a-f]{1,16})"
_LINE = re.compile(rf"([0-9]{{1,9}}) {_WORD} {_WORD} {_WORD} {_WORD}")


class Call(NamedTuple):
    """A call: addresses of the function and of the block that calls it, the first two arguments."""

    function: int
    caller: int
    arguments: tuple[int, int]


def parse(output: str, phase: int | None = None) -> list[Call]:
    """The calls in one phase, in order; None means in all.

    Raises GuestError (``corrupt``) for a file that was cut off or has a line of anybody else's.
    """
    calls = []
    for number, line in plugin_output.lines(output, _CONTENT):
        call = _LINE.fullmatch(line)
        if not call:
            raise plugin_output.foreign_line(number, line, _CONTENT)
        if phase is None or int(call[1]) == phase:
            function, caller, first, second = (int(word, 16) for word in call.groups()[1:])
            calls.append(Call(function, caller, (first, second)))
    return calls
