# SPDX-License-Identifier: GPL-2.0-or-later
"""What the files of QEMU's plugin have in common: its last line, and no line but the plugin's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lab.base.errors import GuestError

# As in lab/build/sim/record.c: where the kernel's image begins, and the bytes of a unit.
_IMAGE = 0xFFFFFFFF81000000
_UNIT = 16
_EXECUTED = re.compile(r"executed ([01]) ([0-9a-f]*)")


@dataclass(frozen=True)
class Executed:
    """Which code a guest executed since its kernel began, in units of 16 bytes; elsewhere: whether
    some of it lies outside of the kernel's image.
    """

    units: frozenset[int]
    elsewhere: bool

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Where each unit begins and ends, as addresses."""
        for unit in self.units:
            start = _IMAGE + unit * _UNIT
            yield start, start + _UNIT


def executed(output: str) -> Executed | None:
    """Which code a guest executed, by what the plugin wrote; None where that is not in it, as in
    boots of before the plugin told.
    """
    match = _EXECUTED.fullmatch(output.removesuffix("\nend\n").rpartition("\n")[2])
    if not match:
        return None
    digits = ((place, int(digit, 16)) for place, digit in enumerate(match[2]) if digit != "0")
    units = (4 * place + bit for place, digit in digits for bit in range(4) if digit >> bit & 1)
    return Executed(frozenset(units), match[1] == "1")


def record_lines(output: str, content: str) -> list[tuple[int, str]]:
    """The lines of a record before the one of executed(), counted from 1. Raises as lines does."""
    every = list(lines(output, content))
    return every[:-1] if every and _EXECUTED.fullmatch(every[-1][1]) else every


def lines(output: str, content: str) -> Iterator[tuple[int, str]]:
    """The lines of a file of the plugin before its last one, counted from 1.

    content says what is in the file. Raises GuestError (``corrupt``) for a file that was cut off,
    as it is when the guest says that it has ended and does not.
    """
    every = output.split("\n")
    if every[-2:] != ["end", ""]:
        raise GuestError("corrupt", f"{content} are cut off: the guest did not end")
    return enumerate(every[:-2], start=1)


def foreign_line(number: int, line: str, content: str) -> GuestError:
    """The error for a line that the plugin did not write."""
    what = f"line {number} of {content} is none of the plugin's: {line[:80]!r}"
    return GuestError("corrupt", what)
