# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters: what a kernel did, one TOML file each in configs/counter.

A counter is a number of calls of functions. QEMU counts them in a deterministic guest, on the
kernel that is judged (lab/measure/call_counts.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self

from pydantic import Field, model_validator

from lab.base.errors import UsageError
from lab.base.system import data
from lab.base.toml import Model, load, named, names
from lab.inputs.terms import Better

FOLDER = data("configs") / "counter"
# The denominator of most counters; every boot with counters has it.
REQUESTS = "requests"


class Given(Model):
    """Calls of functions, and which of their arguments is the object."""

    calls: tuple[str, ...] = Field(default=(), description="functions; default: the counter's")
    callers: str = Field(
        default="", description="count only calls by functions that match this pattern"
    )
    argument: Literal[1, 2] = Field(default=1, description="which argument is the object")


class Counter(Model):
    """A number of calls of functions, or of the objects that they are about."""

    title: str = Field(description="what it counts, in one line")
    unit: str = Field(description="unit of the value")
    better: Better = Field(
        default=Better.LOWER, strict=False, description="direction of an improvement"
    )
    calls: tuple[str, ...] = Field(min_length=1, description="functions whose calls QEMU counts")
    callers: str = Field(
        default="",
        description="count only calls by functions that match this pattern; {driver} is the prefix "
        "of the disk driver's functions",
    )
    less: str = Field(default="", description="counter whose calls are subtracted")
    argument: Literal[0, 1, 2] = Field(
        default=0, description="which argument of the calls is the object"
    )
    distinct: bool = Field(default=False, description="count different objects, not calls")
    objects: tuple[Given, ...] = Field(
        default=(), description="count only objects that each of these calls had, too"
    )
    after: Given | None = Field(
        default=None,
        description="count only objects that another one with a later call of these has overtaken",
    )
    disks: tuple[str, ...] = Field(default=(), description="disks that it counts on; empty: all")
    per: str = Field(default="", description="counter to divide by")

    @property
    def functions(self) -> tuple[str, ...]:
        """All functions whose calls tell it."""
        object_calls = (*self.objects, *((self.after,) if self.after else ()))
        return (*self.calls, *(name for calls in object_calls for name in calls.calls))

    @model_validator(mode="after")
    def _has_object(self) -> Self:
        if (self.distinct or self.objects or self.after) and not self.argument:
            raise ValueError("distinct, objects and after want the argument that is the object")
        return self


def get(name: str) -> Counter:
    """The counter called name; UsageError names the nearest one."""
    return load(named(FOLDER, name, ".toml", "counter"), Counter)


def known() -> list[str]:
    """The names of all counters, sorted."""
    return names(FOLDER)


def with_operands(wanted: Iterable[str]) -> dict[str, Counter]:
    """Counters by name, with those that they are divided by or lessened by, and the requests.

    Raises UsageError for a counter that does not exist, or that divides and is itself divided.
    """
    counters: dict[str, Counter] = {}
    left = [*wanted, REQUESTS]
    while left:
        name = left.pop()
        if name not in counters:
            counters[name] = get(name)
            left += filter(None, (counters[name].per, counters[name].less))
    for name, counter in counters.items():
        if counter.per and counters[counter.per].per:
            raise UsageError(
                f"{counter.per} is itself divided", where=str(FOLDER / f"{name}.toml: per")
            )
    return counters
