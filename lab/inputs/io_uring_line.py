# SPDX-License-Identifier: GPL-2.0-or-later
"""A command line of t/io_uring made fit for a guest that is counted."""

from __future__ import annotations

import re

from lab.base.errors import UsageError

_TOOL = re.compile(r"\s*((?:\./|[\w./-]*/)?t/io_uring|io_uring)(?=\s|$)")
_SECONDS = re.compile(r"(?<=\s)-r\s?(\d+)")
# The program's own default is to poll.
_UNPOLLED = re.compile(r"(?<=\s)-p\s?0\b")
_PASSTHROUGH = re.compile(r"(?<=\s)-u\s?1\b")
_NO_OPERATION = re.compile(r"(?<=\s)-N\s?1\b")


def tool(text: str) -> str:
    """How a command calls t/io_uring; empty when it does not begin with it."""
    match = _TOOL.match(text)
    return match[1] if match else ""


def polls(text: str) -> bool:
    """Whether a command of t/io_uring needs queues to poll."""
    return bool(tool(text)) and not _UNPOLLED.search(text)


def fitted(text: str) -> tuple[str, list[str]]:
    """A command for a guest, and what was changed. It runs for one second of the guest's: an I/O
    costs as much in the next.

    Raises UsageError for what no guest can run.
    """
    name = tool(text)
    if not name:
        return text, []
    if _PASSTHROUGH.search(text):
        raise UsageError(
            "t/io_uring -u1 needs an NVMe character device, which no counted guest has",
            hint="leave -u1 out",
        )
    if _NO_OPERATION.search(text):
        raise UsageError("t/io_uring -N1 does no I/O", hint="leave it out")
    changes = []
    if seconds := _SECONDS.search(text):
        fit = _SECONDS.sub("-r1", text)
        changes += ["-r is 1"] if seconds[1] != "1" else []
    else:
        start = text.index(name) + len(name)
        fit = f"{text[:start]} -r1{text[start:]}"
        changes.append("-r1 added: it would not end")
    if "$DISK" not in fit and "${DISK}" not in fit:
        fit += " $DISK"
        changes.append("the disk added")
    return fit, changes
