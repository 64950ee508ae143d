# SPDX-License-Identifier: GPL-2.0-or-later
"""Patch series and what they claim: one folder each in kernel-patches, its series.toml strict."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from lab.base.errors import UsageError, nearest
from lab.base.stats import Interval
from lab.base.system import data
from lab.base.toml import Model, load
from lab.inputs.workload import Value

FOLDER = data("kernel-patches")
_NUMBER = r"([+-]?\d+(?:\.\d+)?)\s*(%?)"
_ONE_SIDED = re.compile(rf"\s*(>=|<=|==)\s*{_NUMBER}\s*")
_RANGE = re.compile(rf"\s*{_NUMBER}\s*\.\.\s*{_NUMBER}\s*")

EngineName = Literal["icount", "tcg", "kvm"]


def bound(text: str, *, percent: bool) -> Interval:
    """What a bound allows: ``>= X``, ``<= X``, ``== X`` or ``X .. Y``.

    percent tells whether the numbers must carry a percent sign; ``20%`` becomes 0.2.
    Raises ValueError saying what is wrong.
    """
    if found := _ONE_SIDED.fullmatch(text):
        numbers, signs = [float(found[2])], {found[3]}
    elif found := _RANGE.fullmatch(text):
        numbers, signs = [float(found[1]), float(found[3])], {found[2], found[4]}
    else:
        example = "'>= +20%' or '-1% .. +1%'" if percent else "'== 9' or '0 .. 0.1'"
        raise ValueError(f"not a bound: {text!r}; write for example {example}")
    if signs != {"%" if percent else ""}:
        raise ValueError(f"{text!r}: a change is in percent, a value is not")
    scale = 100 if percent else 1
    ends = [number / scale for number in numbers]
    if len(ends) == 1:
        low = -math.inf if found[1] == "<=" else ends[0]
        high = math.inf if found[1] == ">=" else ends[0]
    else:
        low, high = ends
    if low > high:
        raise ValueError(f"{text!r}: the first number is the larger one")
    return Interval(low, high)


class Arm(Model):
    """One side of a comparison: how much of the series is applied, on which hardware."""

    patches: Literal["base", "series"] = Field(
        description="base: only base/ is applied; series: base/, then series/"
    )
    topology: str = Field(default="", description="another topology than the claim's")
    hw_queues: int = Field(default=0, ge=0, le=128, description="another number of queues")
    kernel_parameters: tuple[str, ...] = Field(default=(), description="more of them")


class Expectation(Model):
    """A bound on a change from the first to the second arm, or on a value of one arm."""

    metric: str = Field(description="a number of fio, dbench, the exact engine, or a counter")
    change: str = Field(default="", description="a bound on the change, such as '>= +20%'")
    value: str = Field(default="", description="a bound on the value, such as '== 9'")
    arm: str = Field(default="", description="whose value; default: the second compared")
    because: str = Field(description="where the bound comes from")
    published: str = Field(default="", description="the figure that was published")
    engine: tuple[EngineName, ...] = Field(
        default=(),
        description="the first that works is taken; default: icount for costs and counters, "
        "else kvm, tcg",
    )
    cpus: int = Field(default=0, ge=0, le=64, description="vCPUs, when not the claim's")
    parameters: dict[str, Value] = Field(default={}, description="of the workload")
    compare: tuple[str, str] | None = Field(default=None, description="when not the claim's")
    needs: str = Field(
        default="",
        description="what it takes and no emulated machine has: the figures are shown, the verdict "
        "is inconclusive",
    )
    needs_cpus: int = Field(default=0, description="with fewer host CPUs it is inconclusive")

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if bool(self.change) == bool(self.value):
            raise ValueError("an expectation has either change or value")
        if self.change and self.arm:
            raise ValueError("arm goes with value; a change has compare")
        self.bound  # noqa: B018 - raises for what is not a bound
        return self

    @cached_property
    def bound(self) -> Interval:
        """What the bound allows; a change as a fraction."""
        return bound(self.change or self.value, percent=bool(self.change))


class Claim(Model):
    """One sentence that can be checked, and what it is checked by."""

    published: str = Field(description="what was claimed, where")
    topology: str
    scheduler: str
    workload: str
    compare: tuple[str, str] = ("before", "after")
    cpus: int = Field(default=0, ge=0, le=64, description="vCPUs, when not the topology's")
    parameters: dict[str, Value] = {}
    rounds: int = Field(default=0, ge=0, description="at least so many rounds of timed boots")
    draws: int = Field(default=0, ge=0, description="at least so many draws of the exact engine")
    expect: tuple[Expectation, ...] = Field(min_length=1)


_ARMS = {"before": Arm(patches="base"), "after": Arm(patches="series")}


class Series(Model):
    """A patch series under judgement."""

    title: str
    origin: str = Field(description="where the series comes from")
    tree: str = Field(default="debian:6.12", description="the kernel source it applies to")
    kernel: tuple[str, ...] = ("base", "block", "filesystems")
    arms: dict[str, Arm] = Field(default={}, description="beside before and after")
    claims: dict[str, Claim] = Field(min_length=1)

    @property
    def all_arms(self) -> Mapping[str, Arm]:
        """The arms by name, before and after among them."""
        return {**_ARMS, **self.arms}


def get(name: str) -> Series:
    """The series called name. Raises UsageError for an unknown name or a wrong key."""
    return load(file(name), Series)


def turned_round(judged: Series) -> Series:
    """The series with its patches where they were not and gone where they were: a control.

    What holds of the series must be refuted of this one. An arm on other hardware is a yardstick,
    not a side of the patches: it stays.
    """
    turned = {"base": "series", "series": "base"}

    def level(arm: Arm) -> str:
        yardstick = arm.topology or arm.hw_queues
        return arm.patches if yardstick else turned[arm.patches]

    return _with_patches(judged, level)


def emptied(judged: Series) -> Series:
    """The series without its patches, base/ in all arms: a control, nothing of it may hold."""
    return _with_patches(judged, lambda arm: "base")


def _with_patches(judged: Series, level: Callable[[Arm], str]) -> Series:
    arms = {
        name: arm.model_copy(update={"patches": level(arm)})
        for name, arm in judged.all_arms.items()
    }
    return judged.model_copy(update={"arms": arms})


def file(name: str) -> Path:
    """Where the series.toml of a series lies: a name of kernel-patches, or the path of a folder.

    Raises UsageError naming the nearest series.
    """
    path = (Path(name) if os.sep in name else FOLDER / name) / "series.toml"
    if not path.is_file():
        raise UsageError(
            f"no series is called {name!r}", where=str(FOLDER), hint=nearest(name, known())
        )
    return path


def known() -> list[str]:
    """The names of all series, sorted."""
    return sorted(path.parent.name for path in FOLDER.glob("*/series.toml"))


def patches(name: str, level: str) -> tuple[Path, ...]:
    """The patch files of a level in order: base alone, or base and then series."""
    folders = ("base",) if level == "base" else ("base", "series")
    top = file(name).parent
    return tuple(path for part in folders for path in sorted((top / part).glob("*.patch")))
