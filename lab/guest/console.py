# SPDX-License-Identifier: GPL-2.0-or-later
"""What a kernel's console says: how the kernel died, or what it complained of while it lived.

Anybody's kernel may print anything: no line counts beyond its first 4 KiB, no pattern takes more
than a line's length of steps for each place of it, and what a terminal would obey is made visible.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lab.base.text import visible

_STAMP = re.compile(r"^\[\s*\d+\.\d+\](?:\[[^\]]*\])?\s?")
# In the order of how much they explain: an oops before the panic that it causes. The texts are
# those of v6.12: kernel/watchdog.c, kernel/hung_task.c, kernel/rcu/tree_stall.h, kernel/panic.c.
_DEATHS = (
    re.compile(r"\bBUG: .+"),
    re.compile(r"kernel BUG at .+"),
    re.compile(r"Oops: .+"),
    re.compile(r"general protection fault.*"),
    re.compile(r"watchdog: BUG: soft lockup.+"),
    re.compile(r"INFO: task .{1,60} blocked for more than \d+ seconds.*"),
    re.compile(r"INFO: rcu_\w+ (?:self-)?detected stall.*"),
    re.compile(r"Kernel panic - not syncing: .+"),
)
# The kernel lives, but something of it makes no progress.
_STUCK = re.compile(
    r"soft lockup|workqueue lockup|INFO: task .{1,60} blocked for more than|detected stall"
)
# What an end, or a complaint, is in a word or three: the first that fits. Out of memory is said by
# mm/oom_kill.c.
_KIND_OF = {
    "out of memory": re.compile(r"[Oo]ut of memory|deadlocked on memory|invoked oom-killer"),
    "lockup": re.compile(r"\blockup\b"),
    "hung task": re.compile(r"blocked for more than"),
    "stall": re.compile(r"detected (?:expedited )?stall"),
    "panic": re.compile(r"Kernel panic"),
    "file system shut down": re.compile(r"XFS \(|[Cc]orruption|shut down"),
    "I/O error": re.compile(r"\berror, dev |I/O error|\btimeout, "),
    "oops": re.compile(r"\bBUG\b|Oops|general protection fault"),
}
# What a kernel says when something is wrong and it goes on: __warn() in kernel/panic.c, lockdep and
# suspicious RCU usage (WARNING as well), UBSAN in lib/ubsan.c, blk_print_req_error() in
# block/blk-mq.c, buffer_io_error() in fs/buffer.c, nvme_timeout() in drivers/nvme/host/pci.c and
# xfs_do_force_shutdown() in fs/xfs/xfs_fsops.c.
_COMPLAINTS = re.compile(
    r"\bWARNING: .+|\bBUG: .+|\bUBSAN: .+|\bINFO: (?:task .{1,60} blocked for more than"
    r"|rcu_\w{1,20} (?:self-)?detected (?:expedited )?stall|trying to register non-static key).*"
    r"|\b[\w/ ]{1,60} error, dev \w+(?=, sector)|Buffer I/O error on dev .+"
    r"|\bnvme\w{0,20}: .{1,120} timeout, .+|\b(?:Out of memory: .+|\w{1,20} invoked oom-killer)"
    r"|\bXFS \([^)]{1,40}\): .{0,120}(?:[Cc]orruption|shut down|I/O error).*"
)
_FUNCTION = re.compile(r"(?<![\w.])([\w.]++)\+0x[0-9a-f]+/0x")
# What tells where it was comes after: a lock with where it was taken, the instruction, or the calls
# that led there.
_FAULT = re.compile(r"KASAN: [\w-]+")
_TAKEN = re.compile(r"\bat: ([\w.]+)\+0x|\bRIP: \d+:([\w.]+)\+0x")
_CALL = re.compile(r"^ ([\w.]+)\+0x")
_TRACE = "Call Trace:"
# How far down that is: lockdep's frame and a task's state are a few lines.
_NEAR = 16
# Functions that only wait, complain or look, whoever called them.
_ANYONES = re.compile(
    r"\w*schedule(?:_\w+)?|_*wait_(?:for|on)_\w+|_*mutex_lock\w*|_*raw_\w*lock\w*|rwsem_\w+"
    r"|_*down_(?:read|write)\w*|refcount_warn_saturate|__list_\w+|dump_stack\w*|print_\w+"
    r"|_*kasan_\w+|__asan_\w+|_*might_\w+|lock_acquire|__lock_acquire|check_\w+|mark_\w+"
    r"|native_\w*lock\w*|blk_mq_freeze_queue_wait|percpu_ref_\w+|object_err|__warn\w*|panic"
)
_NUMBER = re.compile(r"\b(?:0x)?[0-9a-f]*\d[0-9a-f]*\b")
# What a driver says when it begins, and of each disk that it makes.
_WELL = re.compile(
    r"module loaded|disk \w+ created|: version |host protection|trim poll_queues|initialised"
)
_LINES_OF_DRIVER = 3
# A kernel that complains of everything is told enough by the first few.
_KINDS = 8
# Chosen: of a line what a reader takes in, and of it what is shown; of what follows a complaint
# more than a lock's dependencies and a trace take.
_LINE = 4096
_SHOWN = 300
_BELOW = 400


def death(console: str) -> str | None:
    """The line that best says why the kernel died, without its time stamp, and the function where
    that is not in it; None if it did not.
    """
    lines = _unstamped(console)
    for pattern in _DEATHS:
        for below, line in enumerate(lines, start=1):
            if match := pattern.search(line):
                where = "" if _FUNCTION.search(line) else _place(lines[below : below + _BELOW])
                return _with_place(match[0][:_SHOWN], where)
    return None


def complaints(console: str) -> tuple[str, ...]:
    """What the kernel complained of, each kind once, in order.

    Two boots that complain of the same say the same here, whatever the process, the place in the
    file or the sector: a warning by the function that it is in, all else without its numbers.
    """
    lines = _unstamped(console)
    kinds: dict[str, None] = {}
    for below, line in enumerate(lines, start=1):
        if match := _COMPLAINTS.search(line):
            kinds[_kind(match[0][:_SHOWN], lines[below : below + _BELOW])] = None
        if len(kinds) == _KINDS:
            break
    return tuple(kinds)


def kind(cause: str) -> str:
    """What death() or one of complaints() found, in a word or three, such as ``hung task``."""
    return next((name for name, pattern in _KIND_OF.items() if pattern.search(cause)), "warning")


def _kind(line: str, below: Sequence[str]) -> str:
    function = _FUNCTION.search(line)
    if not function:
        return _with_place(_NUMBER.sub("N", line), _place(below))
    fault = _FAULT.search(line)
    kind = fault[0] if fault else line.partition(": ")[0]
    name = function[1]
    place = _place(below) if _ANYONES.fullmatch(name) else ""
    return f"{kind} in {place or name}()"


def _with_place(line: str, function: str) -> str:
    return f"{line.rstrip('.')} in {function[:_SHOWN]}()" if function else line


def _place(below: Sequence[str]) -> str:
    """The function that is meant by the lines below a complaint; empty if they tell none."""
    in_trace = False
    for number, line in enumerate(below):
        taken = _TAKEN.search(line)
        if taken and not _ANYONES.fullmatch(function := taken[1] or taken[2]):
            return function
        if in_trace and (call := _CALL.match(line)) and not _ANYONES.fullmatch(call[1]):
            return call[1]
        in_trace = in_trace or _TRACE in line
        # Another's lines follow.
        if (number > _NEAR and not in_trace) or "</TASK>" in line or _COMPLAINTS.search(line):
            return ""
    return ""


def _unstamped(console: str) -> list[str]:
    return [visible(_STAMP.sub("", line[:_LINE].rstrip())) for line in console.split("\n")]


def lines_of(console: str, drivers: Sequence[str]) -> tuple[str, ...]:
    """The last messages of some drivers, without those that report success."""
    prefixes = tuple(f"{name}:" for name in drivers)
    messages = (line[:_SHOWN] for line in _unstamped(console) if line.startswith(prefixes))
    return tuple(line for line in messages if not _WELL.search(line))[-_LINES_OF_DRIVER:]


def is_hang(cause: str) -> bool:
    """Whether what death() or complaints() found is a kernel that is stuck, not one that did what
    it must not.
    """
    return bool(_STUCK.search(cause))


def last_line(console: str) -> str:
    """The last line that is not empty."""
    last = console.rstrip()[-_LINE:].rpartition("\n")[2].strip()
    return visible(last)[:_SHOWN]
