# SPDX-License-Identifier: GPL-2.0-or-later
"""Attributes of a disk's queue/ in sysfs that a user sets, and what the kernel made of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lab.base.errors import GuestError, UsageError

# How a parameter of a cell is called that is an attribute of the disk's queue.
PREFIX = "queue/"
_NAME = re.compile(r"(iosched/)?[a-z][a-z0-9_]*")
_VALUE = re.compile(r"[A-Za-z0-9_.,:/+-]+( [A-Za-z0-9_.,:/+-]+)*")
# Choosing a scheduler sets these anew: blk_mq_init_sched() in block/blk-mq-sched.c, and
# wbt_disable_default() and wbt_enable_default() in block/blk-wbt.c.
_AFTER_SCHEDULER = frozenset({"nr_requests", "async_depth", "wbt_lat_usec"})

Settings = Sequence[tuple[str, str]]


def parse(text: str) -> tuple[str, str]:
    """ATTRIBUTE=VALUE as name and value. Raises UsageError for anything else."""
    name, _, value = text.partition("=")
    name = name.removeprefix(PREFIX)
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        raise UsageError(
            f"not an attribute of the disk's queue: {text[:80]!r}",
            hint="write --queue nr_requests=64 or --queue iosched/low_latency=0",
        )
    if name == "scheduler":
        raise UsageError("the scheduler is part of a cell", hint=f"write --scheduler {value}")
    return name, value


def steps(settings: Settings, *, after_scheduler: bool) -> list[str]:
    """The agent's steps that write settings in order, before or after a scheduler is chosen."""
    return [
        f"queue {name}={value}"
        for name, value in settings
        if (name in _AFTER_SCHEDULER or name.startswith("iosched/")) == after_scheduler
    ]


def require_taken(settings: Settings, facts: Mapping[str, str]) -> None:
    """Raise GuestError unless the guest's disk has the settings; the last of one name counts."""
    wrong = [
        f"{name}={value}, of which the kernel made {facts.get(PREFIX + name, 'nothing')}"
        for name, value in dict(settings).items()
        if facts.get(PREFIX + name) != value
    ]
    if wrong:
        raise GuestError(
            "mismatch",
            f"the disk's queue did not take {'; '.join(wrong)}",
            hint="write --queue with a value that the kernel keeps",
        )
