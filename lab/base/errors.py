# SPDX-License-Identifier: GPL-2.0-or-later
"""Every error a user can meet: what happened, where, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from enum import IntEnum

from lab.base.text import visible


class ExitCode(IntEnum):
    """How the lab ends, for scripts and CI; ``lab --help`` promises it."""

    DONE = 0
    REFUTED = 1
    USAGE = 2
    FAILED = 3
    INCONCLUSIVE = 4
    SKIP = 125  # what `git bisect run` takes for "cannot be judged"
    NO_VERDICT = 128  # added to what is no answer to `git bisect run`, which takes less for "bad"
    SIGNAL = 128  # added to the number of the signal that ended the lab, as a shell does
    INTERRUPTED = 130
    CLOSED_PIPE = 141  # as the shell calls a program that SIGPIPE ended


class LabError(Exception):
    """Something failed that the lab cannot repair by itself; ends a command with exit code 3.

    what:  one sentence saying what happened.
    where: the file, key, line or command concerned.
    hint:  what the user can do about it.

    All three may quote what a guest, a patch or a compiler wrote: a terminal only shows it.
    """

    exit_code = ExitCode.FAILED

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = visible(what)
        self.where = visible(where)
        self.hint = visible(hint)

    @property
    def brief(self) -> str:
        """What happened and where, without the hint."""
        return f"{self.what} ({self.where})" if self.where else self.what

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.hint:
            lines.append(f"  hint:  {self.hint}")
        return "\n".join(lines)


class UsageError(LabError):
    """A wrong option, name or configuration file; exit code 2."""

    exit_code = ExitCode.USAGE


class BuildError(LabError):
    """A patch that does not apply, a kernel that does not build: the fault is the source's own."""


# Ends of a guest that say nothing of its kernel: it is not what was asked for, or what it sent says
# nothing.
LABS_FAILURES = ("mismatch", "garbled")
# What a guest does when its kernel is broken, or lies.
KERNEL_FAILURES = ("panic", "hang", "failed", "corrupt", "flooded", "endless")


class GuestError(LabError):
    """A guest that did not do its work.

    outcome is one word for reports: of the kernel's ``panic``, ``hang``, ``failed`` (a step),
    ``corrupt`` (what came is not what the lab's programs write), ``flooded`` (too much came) and
    ``endless`` (it begins again and again); of nobody's yet ``died`` (QEMU ended);
    of the host's or QEMU's ``killed`` and ``lost`` (an interrupt); of the lab's ``mismatch`` and
    ``garbled`` (what was counted says nothing).
    """

    def __init__(self, outcome: str, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what, where=where, hint=hint)
        self.outcome = outcome
        self.args = (outcome, what)  # what pickle makes it anew from: hosts of a fleet send it


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a mistyped name: the closest known one, and all of them."""
    choices = sorted(known)
    close = get_close_matches(name, choices, n=1)
    listing = f"known: {', '.join(choices)}" if choices else "none is known"
    return f"did you mean {close[0]!r}? {listing}" if close else listing
