# SPDX-License-Identifier: GPL-2.0-or-later
"""What a kernel's console says about how the kernel died."""

from __future__ import annotations

import re

_STAMP = re.compile(r"^\[\s*\d+\.\d+\](?:\[[^\]]*\])?\s?")
# In the order of how much they explain: an oops before the panic that it causes. The texts are
# those of v6.12: kernel/watchdog.c, kernel/hung_task.c, kernel/rcu/tree_stall.h, kernel/panic.c.
_DEATHS = (
    re.compile(r"\bBUG: .+"),
    re.compile(r"kernel BUG at .+"),
    re.compile(r"Oops: .+"),
    re.compile(r"general protection fault.*"),
    re.compile(r"watchdog: BUG: soft lockup.+"),
    re.compile(r"INFO: task .+ blocked for more than \d+ seconds.*"),
    re.compile(r"INFO: rcu_\w+ (?:self-)?detected stall.*"),
    re.compile(r"Kernel panic - not syncing: .+"),
)
# The kernel lives, but something of it makes no progress.
_STUCK = re.compile(r"soft lockup|INFO: task .+ blocked for more than|detected stall")


def death(console: str) -> str | None:
    """The line that best says why the kernel died, without its time stamp; None if it did not."""
    lines = [_STAMP.sub("", line.rstrip()) for line in console.splitlines()]
    for pattern in _DEATHS:
        for line in lines:
            if found := pattern.search(line):
                return found[0]
    return None


def is_hang(cause: str) -> bool:
    """Whether what death() found is a kernel that is stuck, not one that did what it must not."""
    return bool(_STUCK.search(cause))


def last_line(console: str) -> str:
    """The last line that is not empty."""
    lines = [line.strip() for line in console.splitlines() if line.strip()]
    return lines[-1] if lines else ""
