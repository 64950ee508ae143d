# SPDX-License-Identifier: GPL-2.0-or-later
"""What a kernel's console says: how the kernel died, or what it complained of while it lived."""

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
_STUCK = re.compile(
    r"soft lockup|workqueue lockup|INFO: task .+ blocked for more than|detected stall"
)
# What a kernel says when something is wrong and it goes on: __warn() in kernel/panic.c, lockdep and
# suspicious RCU usage (WARNING as well), UBSAN in lib/ubsan.c, blk_print_req_error() in
# block/blk-mq.c, buffer_io_error() in fs/buffer.c, nvme_timeout() in drivers/nvme/host/pci.c and
# xfs_do_force_shutdown() in fs/xfs/xfs_fsops.c.
_COMPLAINTS = re.compile(
    r"\bWARNING: .+|\bBUG: .+|\bUBSAN: .+|\bINFO: (?:task .+ blocked for more than"
    r"|rcu_\w+ (?:self-)?detected (?:expedited )?stall|trying to register non-static key).*"
    r"|\b[\w/ ]+ error, dev \w+(?=, sector)|Buffer I/O error on dev .+"
    r"|\bnvme\w*: .+ timeout, .+|\bXFS \(.+\): .*(?:[Cc]orruption|shut down|I/O error).*"
)
_FUNCTION = re.compile(r"\b(\w+)\+0x[0-9a-f]+/0x")
_NUMBER = re.compile(r"\b(?:0x)?[0-9a-f]*\d[0-9a-f]*\b")
# A kernel that complains of everything is told enough by the first few.
_KINDS = 8


def death(console: str) -> str | None:
    """The line that best says why the kernel died, without its time stamp; None if it did not."""
    lines = _unstamped(console)
    for pattern in _DEATHS:
        for line in lines:
            if found := pattern.search(line):
                return found[0]
    return None


def complaints(console: str) -> tuple[str, ...]:
    """What the kernel complained of, each kind once, in order.

    Two boots that complain of the same say the same here, whatever the process, the place in the
    file or the sector: a warning by the function that it is in, all else without its numbers.
    """
    found = (match[0] for line in _unstamped(console) if (match := _COMPLAINTS.search(line)))
    return tuple(dict.fromkeys(map(_kind, found)))[:_KINDS]


def _kind(line: str) -> str:
    kind, _, _ = line.partition(": ")
    if function := _FUNCTION.search(line):
        return f"{kind} in {function[1]}()"
    return _NUMBER.sub("N", line)


def _unstamped(console: str) -> list[str]:
    return [_STAMP.sub("", line.rstrip()) for line in console.splitlines()]


def is_hang(cause: str) -> bool:
    """Whether what death() or complaints() found is a kernel that is stuck, not one that did what
    it must not.
    """
    return bool(_STUCK.search(cause))


def last_line(console: str) -> str:
    """The last line that is not empty."""
    lines = [line.strip() for line in console.splitlines() if line.strip()]
    return lines[-1] if lines else ""
