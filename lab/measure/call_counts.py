# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters of the very kernel that is judged: calls of its functions, out of what QEMU executed.

QEMU translates a function from its first instruction on, and a block of instructions ends with its
call of another one, so how often blocks were executed tells how often a function was called, and by
whom. Nothing is built into the kernel for that, nor does it notice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lab.base.errors import GuestError
from lab.inputs.counters import Counter
from lab.measure.insn_counts import Phase, Symbols

# What gcc makes of a function beside a piece of it: clones that are called in its place.
_CLONE = re.compile(r"\.(isra|constprop)\.\d+")


def values(
    counters: Mapping[str, Counter], driver: str, phase: Phase, names: Symbols
) -> dict[str, float]:
    """Counters out of what a phase executed; driver is how functions of the disk's driver begin.

    Raises GuestError for a function that the kernel does not have, or when there is nothing to
    divide by.
    """
    raw = {name: _calls(name, one, driver, phase, names) for name, one in counters.items()}
    found = {}
    for name, one in counters.items():
        below = raw[one.per] if one.per else 1
        if below == 0:
            raise GuestError("garbled", f"{name}: no {one.per} were counted")
        found[name] = (raw[name] - (raw[one.less] if one.less else 0)) / below
    return found


def _calls(name: str, counter: Counter, driver: str, phase: Phase, names: Symbols) -> int:
    """How often a counter's functions were called, by those whose names it asks for."""
    entries = {
        address
        for address, known in zip(names.addresses, names.names, strict=True)
        if _CLONE.sub("", known) in counter.calls
    }
    if not entries:
        raise GuestError(
            "mismatch",
            f"{name}: the kernel has no function {' or '.join(counter.calls)}; the compiler may "
            "have put it into those that call it",
        )
    if not counter.callers:
        return sum(count for (block, _), count in phase.executions.items() if block in entries)
    callers = re.compile(counter.callers.replace("{driver}", re.escape(driver)))
    return sum(
        count
        for (block, target), count in phase.executions.items()
        if target in entries and callers.search(names.name(block))
    )
