# SPDX-License-Identifier: GPL-2.0-or-later
"""What the files of QEMU's plugin have in common: its last line, and no line but the plugin's."""

from __future__ import annotations

from collections.abc import Iterator

from lab.base.errors import GuestError


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
