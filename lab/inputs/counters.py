# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters: what a kernel did, one TOML file each in configs/counter.

An instrumented kernel itself adds up: a counter of events is a histogram trigger, so that nothing
is lost however many events there are; lock acquisitions come from lock_stat. Only the order of
requests needs every single event, from a trace.

What is the number of calls of a function needs no such kernel with the exact engine: QEMU counts
them on the kernel that is judged (lab/measure/call_counts.py).
"""

from __future__ import annotations

import re
from collections import Counter as Counted
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from lab.base import cache
from lab.base.errors import GuestError, UsageError
from lab.base.system import data
from lab.base.toml import Model, load, named, names
from lab.inputs.terms import Better

FOLDER = data("configs") / "counter"
# Locks that are named when the one that was asked for is not there.
_MOST = 8
# Of what a guest sent, in a message.
_SHOWN = 100
# The denominator of most counters; every boot with counters has it.
REQUESTS = "requests"

# What the guest sends: numbers have as many digits as 64 bits take, and no pattern looks further
# than the kernel writes.
_NUMBER = r"[0-9]{1,20}"
_ENTRY = re.compile(
    rf"^\{{ (?P<keys>.{{1,300}}?) \}} hitcount:[ ]{{0,40}}(?P<hits>{_NUMBER})", re.MULTILINE
)
_DROPPED = re.compile(rf"^[ \t]{{0,40}}Dropped: ({_NUMBER})", re.MULTILINE)
_BLOCK = re.compile(r"^# trigger info: hist:name=(\w{1,60}):", re.MULTILINE)
_BUFFERED = re.compile(rf"entries-in-buffer/entries-written: ({_NUMBER})/({_NUMBER})")
_ISSUE = "block/block_rq_issue"
_ISSUED = re.compile(
    rf": block_rq_issue: (?P<dev>{_NUMBER},{_NUMBER}) \w{{1,20}} {_NUMBER} "
    rf"\(.{{0,100}}?\) (?P<sector>{_NUMBER}) \+ (?P<sectors>{_NUMBER}) "
)
_TRACED = re.compile(r": (?P<event>chosen|issued)\d?: .{0,200}?rq=(?P<request>0x[0-9a-f]{1,16})")


class Given(Model):
    """Calls of functions, and which of their arguments is the object."""

    calls: tuple[str, ...] = Field(default=(), description="functions; default: the counter's")
    callers: str = Field(
        default="", description="count only calls by functions that match this pattern"
    )
    argument: Literal[1, 2] = Field(default=1, description="which argument is the object")


class Counter(Model):
    """One number that an instrumented kernel gives, of one of three kinds; some of them as calls
    of functions, too.

    Events: hits of an event (a tracepoint ``system/name``, or a probe ``p:function`` or
    ``r:function`` with arguments), how many distinct keys it had, or how many were of requests
    right behind the one before. Locks: acquisitions of lock
    classes. Order: how many requests were issued after a request that had been chosen later.
    """

    title: str = Field(description="what it counts, in one line")
    unit: str = Field(description="unit of the value")
    better: Better = Field(
        default=Better.LOWER, strict=False, description="direction of an improvement"
    )
    event: str = Field(default="", description="a tracepoint, or p:FUNCTION ARG=... or r:FUNCTION")
    key: str = Field(default="common_pid", description="the field that the histogram is over")
    filter: str = Field(
        default="", description="filter of the trigger; {dev} is the disk's device number"
    )
    take: Literal["hits", "distinct", "behind"] = Field(
        default="hits",
        description="hits: events; distinct: different keys, or objects of calls; behind: requests "
        "that begin where the one before ended (block/block_rq_issue)",
    )
    match: str = Field(default="", description="count only keys that match this pattern")
    locks: tuple[str, ...] = Field(default=(), description="lock classes, as lock_stat names them")
    chosen: tuple[str, ...] = Field(
        default=(), description="probes with rq= where a scheduler chooses a request"
    )
    issued: str = Field(default="", description="probe with rq= where the driver gets the request")
    calls: tuple[str, ...] = Field(
        default=(), description="functions whose calls QEMU counts as the same number"
    )
    callers: str = Field(
        default="",
        description="count only calls by functions that match this pattern; {driver} is the prefix "
        "of the disk driver's functions",
    )
    less: str = Field(default="", description="counter whose calls are subtracted")
    argument: Literal[0, 1, 2] = Field(
        default=0, description="which argument of the calls is the object"
    )
    objects: tuple[Given, ...] = Field(
        default=(), description="count only objects that each of these calls had, too"
    )
    after: Given | None = Field(
        default=None,
        description="count only objects that another one with a later call of these has overtaken",
    )
    disks: tuple[str, ...] = Field(
        default=(), description="disks for which calls can count it; empty: all"
    )
    per: str = Field(default="", description="counter to divide by")

    @property
    def functions(self) -> tuple[str, ...]:
        """All functions whose calls tell it."""
        others = (*self.objects, *((self.after,) if self.after else ()))
        return (*self.calls, *(name for one in others for name in one.calls))

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if bool(self.event) + bool(self.locks) + bool(self.chosen) != 1:
            raise ValueError("a counter has either event, locks or chosen")
        if bool(self.chosen) != bool(self.issued):
            raise ValueError("chosen and issued go together")
        if (self.callers or self.less) and not self.calls:
            raise ValueError("callers and less are of calls")
        if (self.objects or self.after) and not self.argument:
            raise ValueError("objects and after want the argument that is the object")
        if self.argument and not self.calls:
            raise ValueError("an argument is of calls")
        if self.take == "behind" and self.event != _ISSUE:
            raise ValueError(f"what lies behind another is told by {_ISSUE}")
        return self


@dataclass(frozen=True)
class Probes:
    """What the agent sets up: lines of its file probes, and the counters they are for."""

    text: str
    counters: Mapping[str, Counter]


def get(name: str) -> Counter:
    """The counter called name; UsageError names the nearest one."""
    return load(named(FOLDER, name, ".toml", "counter"), Counter)


def known() -> list[str]:
    """The names of all counters, sorted."""
    return names(FOLDER)


def by_calls(wanted: Sequence[str], disk: str = "") -> dict[str, Counter] | None:
    """Counters of a disk of that name with those that they are divided by and less by, each told by
    calls of some functions; None where one is not.

    Raises UsageError as probes does.
    """
    found = _with_denominators(wanted)
    for name in [one.less for one in found.values() if one.less]:
        found[name] = get(name)
    told = (one.calls and (not one.disks or disk in one.disks) for one in found.values())
    return found if all(told) else None


def probes(wanted: Sequence[str]) -> Probes:
    """What has to be set up for counters, those they are divided by included.

    A line is ``kprobe DEFINITION``, ``hist EVENT TRIGGER``, ``trace EVENT`` or ``locks``.
    Raises UsageError for a counter that does not exist or is divided by itself.
    """
    found = _with_denominators(wanted)
    lines: dict[str, None] = {}
    for _, counter in sorted(found.items()):
        if counter.locks:
            lines["locks"] = None
        elif counter.chosen:
            for number, probe in enumerate(counter.chosen):
                lines[f"kprobe {_probe(probe, f'chosen{number}')}"] = None
                lines[f"trace lab/chosen{number}"] = None
            lines[f"kprobe {_probe(counter.issued, 'issued')}"] = None
            lines["trace lab/issued"] = None
        elif counter.take == "behind":
            lines[f"trace {_ISSUE}"] = None
        else:
            event, name = counter.event, _histogram(counter)
            if event[:2] in ("p:", "r:"):
                lines[f"kprobe {_probe(event, name)}"] = None
                event = f"lab/{name}"
            condition = f" if {counter.filter}" if counter.filter else ""
            lines[f"hist {event} hist:name={name}:keys={counter.key}:size=4096{condition}"] = None
    return Probes("".join(f"{line}\n" for line in lines), found)


def _with_denominators(wanted: Sequence[str]) -> dict[str, Counter]:
    found: dict[str, Counter] = {}
    left = [*wanted, REQUESTS]
    while left:
        name = left.pop()
        if name not in found:
            found[name] = get(name)
            left += [found[name].per] if found[name].per else []
    for name, counter in found.items():
        if counter.per and found[counter.per].per:
            raise UsageError(
                f"{counter.per} is itself divided", where=str(FOLDER / f"{name}.toml: per")
            )
    return found


def _histogram(counter: Counter) -> str:
    """The name of a counter's histogram: one for all that count the same, as the kernel wants."""
    return "h" + cache.key(counter.event, counter.key, counter.filter)


def _probe(text: str, name: str) -> str:
    """``p:function args`` as the definition of a probe of the group lab."""
    kind, _, rest = text.partition(":")
    return f"{kind}:lab/{name} {rest}"


def values(set_up: Probes, outputs: Mapping[str, str]) -> dict[str, float]:
    """The counters' values out of what the agent sent: ``hist``, ``lock_stat`` and ``trace``.

    Raises GuestError for a histogram that lost events, a missing file, or locks that are not there.
    """
    histograms = _histograms(outputs.get("hist", ""))
    raw = {
        name: _raw(name, counter, histograms, outputs) for name, counter in set_up.counters.items()
    }
    found = {}
    for name, counter in set_up.counters.items():
        below = raw[counter.per] if counter.per else 1.0
        if below == 0:
            raise GuestError("garbled", f"{name}: no {counter.per} were counted")
        found[name] = raw[name] / below
    return found


def _raw(
    name: str,
    counter: Counter,
    histograms: Mapping[str, Mapping[str, int]],
    outputs: Mapping[str, str],
) -> float:
    if counter.locks:
        return float(_acquisitions(outputs.get("lock_stat", ""), counter.locks))
    if counter.chosen:
        return float(inversions(outputs.get("trace", "")))
    if counter.take == "behind":
        return float(behind(outputs.get("trace", "")))
    histogram = histograms.get(_histogram(counter))
    if histogram is None:
        raise GuestError("garbled", f"the guest sent no histogram for the counter {name}")
    pattern = re.compile(counter.match)
    hits = [count for key, count in histogram.items() if pattern.search(key)]
    return float(len(hits) if counter.take == "distinct" else sum(hits))


def _histograms(text: str) -> dict[str, dict[str, int]]:
    """Hits by key of every named histogram in the contents of hist files."""
    found = {}
    starts = [*_BLOCK.finditer(text)]
    ends = [*(start.start() for start in starts), len(text)][1:]
    for start, end in zip(starts, ends, strict=True):
        block = text[start.end() : end]
        dropped = _DROPPED.search(block)
        if dropped and int(dropped[1]):
            raise GuestError("garbled", f"the histogram {start[1]} lost {dropped[1]} events")
        found[start[1]] = {entry["keys"]: int(entry["hits"]) for entry in _ENTRY.finditer(block)}
    return found


def _acquisitions(text: str, classes: Sequence[str]) -> int:
    """How often locks of the classes were taken, for reading or writing, as lock_stat counts."""
    if "class name" not in text:
        raise GuestError("garbled", "the guest sent no lock statistics")
    seen = Counted[str]()
    for line in text.splitlines():
        label, colon, numbers = line.rpartition(":")
        name = label.strip().removesuffix("-R").removesuffix("-W")
        columns = numbers.split()
        # con-bounces contentions, four waiting times, acq-bounces acquisitions, four holding times
        if colon and len(columns) == 12:
            if not re.fullmatch(_NUMBER, columns[7]):
                raise GuestError("corrupt", f"these are no lock statistics: {line[:_SHOWN]!r}")
            seen[name[:_SHOWN]] += int(columns[7])
    if seen.keys().isdisjoint(classes):
        most = ", ".join(f"{name} {count:,}" for name, count in seen.most_common(_MOST))
        raise GuestError(
            "garbled",
            f"no lock of the classes {', '.join(classes)} was ever taken; most often were {most}",
            hint="name the lock's class in the counter's file",
        )
    return sum(seen[name] for name in set(classes))


def inversions(trace: str) -> int:
    """How many requests were issued after one that a scheduler had chosen later.

    The trace has a line for each request chosen and each one issued, in order of time. A request
    that was issued without having been chosen (it bypassed the scheduler) does not count.
    Raises GuestError for a trace that lost events or is none.
    """
    _require_complete(trace)
    places: dict[str, int] = {}
    latest, overtaken = -1, 0
    for number, found in enumerate(_TRACED.finditer(trace)):
        if found["event"] == "chosen":
            places[found["request"]] = number
        elif found["request"] in places:
            place = places.pop(found["request"])
            overtaken += place < latest
            latest = max(latest, place)
    return overtaken


def behind(trace: str) -> int:
    """How many requests begin at the sector at which the one issued before them ended.

    Raises GuestError for a trace that lost events or is none.
    """
    _require_complete(trace)
    ends: dict[str, int] = {}
    found = 0
    for issued in _ISSUED.finditer(trace):
        begin = int(issued["sector"])
        found += ends.get(issued["dev"]) == begin
        ends[issued["dev"]] = begin + int(issued["sectors"])
    return found


def _require_complete(trace: str) -> None:
    buffered = _BUFFERED.search(trace)
    if not buffered or buffered[1] != buffered[2]:
        raise GuestError("garbled", "the trace is not complete", hint="let the workload do less")
