# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters of the very kernel that is judged: calls of its functions, out of what QEMU executed.

QEMU translates a function from its first instruction on, and a block of instructions ends with its
call of another one, so how often blocks were executed tells how often a function was called, and by
whom. What it was called about tell its arguments, which the plugin writes down, call by call: which
locks a scheduler takes, which tasks are switched to. Nothing is built into the kernel for that, nor
does it notice.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lab.base.errors import GuestError
from lab.inputs.counters import Counter, Given
from lab.inputs.terms import Engine
from lab.measure.call_log import Call
from lab.measure.insn_counts import Symbols

# What gcc makes of a function beside a piece of it: clones that are called in its place.
_CLONE = re.compile(r"\.(isra|constprop)\.\d+")


@dataclass(frozen=True)
class Executed:
    """What a kernel executed while its I/O was measured.

    executions is that of insn_counts.Phase, None where only the log is known, which has the calls
    of all functions that wants_log asks for; driver is how functions of the disk's driver begin.
    """

    names: Symbols
    driver: str
    executions: Mapping[tuple[int, int], int] | None = None
    log: Sequence[Call] = ()


def wants_log(counter: Counter, engine: Engine) -> bool:
    """Whether the plugin has to write a counter's calls down one by one."""
    return bool(counter.argument) or engine.simulated


def entries(name: str, functions: Collection[str], names: Symbols) -> list[int]:
    """Where functions and their clones begin; name is the counter that wants them.

    Raises GuestError when the kernel has none of them.
    """
    known = zip(names.addresses, names.names, strict=True)
    addresses = [address for address, symbol in known if _CLONE.sub("", symbol) in functions]
    if not addresses:
        raise GuestError(
            "mismatch",
            f"{name}: the kernel has no function {' or '.join(functions)}; the compiler may have "
            "put it into those that call it",
        )
    return addresses


def values(counters: Mapping[str, Counter], done: Executed) -> dict[str, float]:
    """Counters out of what was executed.

    Raises GuestError for a function that the kernel does not have, when nothing was called about
    what a counter is about, or when there is nothing to divide by.
    """
    raw = {name: _raw(name, counter, done) for name, counter in counters.items()}
    results = {}
    for name, counter in counters.items():
        below = raw[counter.per] if counter.per else 1
        if below == 0:
            raise GuestError(
                "garbled",
                f"the counter {name} is per {counter.per}, and none were counted",
                hint=f"choose a workload that has some, or see per in configs/counter/{name}.toml",
            )
        results[name] = (raw[name] - (raw[counter.less] if counter.less else 0)) / below
    return results


def _raw(name: str, counter: Counter, done: Executed) -> int:
    if counter.argument or done.executions is None:
        return _logged(name, counter, done)
    callees = set(entries(name, counter.calls, done.names))
    if not counter.callers:
        return sum(n for (block, _), n in done.executions.items() if block in callees)
    callers = _callers(counter.callers, done)
    return sum(
        count
        for (block, target), count in done.executions.items()
        if target in callees and callers.search(done.names.name(block))
    )


def _logged(name: str, counter: Counter, done: Executed) -> int:
    """A counter out of the calls one by one."""
    calls = _about(name, Given(calls=counter.calls, callers=counter.callers), counter, done)
    if not counter.argument:
        return len(calls)
    place = counter.argument - 1
    if counter.objects:
        object_sets = [
            {
                call.arguments[condition.argument - 1]
                for call in _about(name, condition, counter, done)
            }
            for condition in counter.objects
        ]
        if not all(object_sets):
            return 0
        objects = set.intersection(*object_sets)
        if not objects:
            raise GuestError(
                "mismatch",
                f"the counter {name} found calls, but none about one and the same object",
                hint=f"see objects in configs/counter/{name}.toml",
            )
        calls = [call for call in calls if call.arguments[place] in objects]
    if counter.after:
        earlier = _about(name, counter.after, counter, done)
        return _overtaken(done.log, earlier, counter.after.argument - 1, calls, place)
    if counter.distinct:
        return len({call.arguments[place] for call in calls})
    return len(calls)


def _about(name: str, condition: Given, counter: Counter, done: Executed) -> list[Call]:
    """The logged calls that meet a condition, in order."""
    callees = set(entries(name, condition.calls or counter.calls, done.names))
    callers = _callers(condition.callers, done)
    return [
        call
        for call in done.log
        if call.function in callees and callers.search(done.names.name(call.caller))
    ]


def _callers(pattern: str, done: Executed) -> re.Pattern[str]:
    return re.compile(pattern.replace("{driver}", re.escape(done.driver)))


def _overtaken(
    log: Sequence[Call],
    earlier: Sequence[Call],
    chosen_place: int,
    calls: Sequence[Call],
    place: int,
) -> int:
    """How many calls about an object came after the call about another one whose earlier call was
    later; an object without an earlier call does not count.
    """
    chosen, issued = set(map(id, earlier)), set(map(id, calls))
    places: dict[int, int] = {}
    latest, overtaken = -1, 0
    for number, call in enumerate(log):
        if id(call) in chosen:
            places[call.arguments[chosen_place]] = number
        elif id(call) in issued and call.arguments[place] in places:
            chosen_at = places.pop(call.arguments[place])
            overtaken += chosen_at < latest
            latest = max(latest, chosen_at)
    return overtaken
