# SPDX-License-Identifier: GPL-2.0-or-later
"""Patch series and what they claim: one folder each in kernel-patches, its series.toml strict."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    Field,
    PlainValidator,
    PrivateAttr,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from lab.base.errors import UsageError, nearest
from lab.base.stats import Interval
from lab.base.system import data, kernel_source
from lab.base.toml import Model, load
from lab.inputs.names import Name, Word
from lab.inputs.terms import Engine
from lab.inputs.workload import Value

FOLDER = data("kernel-patches")
_NUMBER = r"([+-]?\d+(?:\.\d+)?)\s*(%?)"
_ONE_SIDED = re.compile(rf"\s*(>=|<=|==)\s*{_NUMBER}\s*")
_RANGE = re.compile(rf"\s*{_NUMBER}\s*\.\.\s*{_NUMBER}\s*")

EngineName = Annotated[Engine, Field(strict=False)]
PatchLevel = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
BASE, SERIES = "base", "series"


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

    patches: PatchLevel = Field(
        description="base: only base/ is applied; series, or any other folder: base/, then that"
    )
    topology: Name = Field(default="", description="another topology than the claim's")
    scheduler: Name = Field(default="", description="another I/O scheduler than the claim's")
    hw_queues: int = Field(default=0, ge=0, le=128, description="another number of queues")
    kernel_parameters: tuple[Word, ...] = Field(default=(), description="more of them")


Metric = Annotated[
    Name, Field(description="a number of fio, dbench, the exact engine, or a counter")
]
Because = Annotated[str, Field(description="where the bound comes from")]


class Row(Model):
    """The keys of an expectation. None is needed here: the rest may stand in the row's table."""

    metric: Metric = ""
    change: str = Field(default="", description="a bound on the change, such as '>= +20%'")
    value: str = Field(default="", description="a bound on the value, such as '== 9'")
    arm: Name = Field(default="", description="whose value; default: the second compared")
    because: Because = ""
    published: str = Field(default="", description="the figure that was published")
    engine: tuple[EngineName, ...] = Field(
        default=(),
        description="the first that works is taken; default: icount for costs and counters, "
        "else kvm, tcg",
    )
    machine: Name = Field(
        default="",
        description="a machine model: the number is simulated, on that machine",
    )
    cpus: int = Field(
        default=0, ge=0, le=64, description="vCPUs, when not the claim's or the machine's"
    )
    parameters: dict[Name, Value] = Field(default={}, description="of the workload")
    compare: tuple[Name, Name] | None = Field(default=None, description="when not the claim's")
    over: Name = Field(
        default="",
        description="an arm whose value is taken off those that are compared: how much more they "
        "take than that one",
    )
    needs: str = Field(
        default="",
        description="what it takes and no emulated machine has: the figures are shown, the verdict "
        "is inconclusive",
    )
    needs_cpus: int = Field(
        default=0,
        ge=0,
        le=64,
        description="with fewer host CPUs it is inconclusive; as many vCPUs, when not told",
    )
    seeds: int = Field(
        default=0,
        ge=0,
        description="of the exact engine, when the profile and the claim have fewer",
    )
    may_be_zero: bool = Field(
        default=False, description="the counter may rightly find nothing with the patches"
    )

    @field_validator("change", "value")
    @classmethod
    def _is_a_bound(cls, text: str, key: ValidationInfo) -> str:
        if text:
            bound(text, percent=key.field_name == "change")
        return text


class Expectation(Row):
    """A bound on a change from the first to the second arm, or on a value of one arm."""

    metric: Metric
    because: Because

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if bool(self.change) == bool(self.value):
            raise ValueError("an expectation has either change or value")
        if self.change and self.arm:
            raise ValueError("arm goes with value; a change has compare")
        if self.over and not self.change:
            raise ValueError("over goes with change")
        if self.machine and {*self.engine} - {Engine.SIM}:
            raise ValueError(f"a machine model is for the engine {Engine.SIM} alone")
        if self.machine and self.needs_cpus:
            raise ValueError("needs_cpus is about the host, which a simulated machine is not")
        return self

    @cached_property
    def bound(self) -> Interval:
        """What the bound allows; a change as a fraction."""
        return bound(self.change or self.value, percent=bool(self.change))

    def repeats(self, other: Expectation) -> bool:
        """Whether both bound the same number, be it in other words or by other limits."""
        said = {"change", "value", "because", "published", "needs", "needs_cpus"}
        said |= {"may_be_zero", "seeds"}
        same = self.model_dump(exclude=said) == other.model_dump(exclude=said)
        return same and bool(self.change) == bool(other.change)


class Table(Row):
    """Several expectations that have keys in common: an expectation for each row."""

    rows: tuple[Row, ...] = Field(
        min_length=1,
        description="the keys in which an expectation differs from the table's; those of a row "
        "win, and its parameters are added",
    )


class _Expanded(Model):
    """The rows of a table with the table's keys put in; a mistake is found at its row."""

    rows: tuple[Expectation, ...]


def _expectations(written: Any) -> tuple[Expectation, ...]:
    """What one ``[[claims.NAME.expect]]`` expects: an expectation, or one for each row."""
    if not (isinstance(written, dict) and "rows" in written):
        return (Expectation.model_validate(written),)
    table = Table.model_validate(written)
    common = table.model_dump(exclude={"rows"}, exclude_unset=True)
    full = [{**common, **row.model_dump(exclude_unset=True)} for row in table.rows]
    for row, keys in zip(table.rows, full, strict=True):
        if "parameters" in keys:
            keys["parameters"] = {**table.parameters, **row.parameters}
    found = _Expanded.model_validate({"rows": tuple(full)}).rows
    for number, row in enumerate(found):
        for earlier in range(number):
            if row.repeats(found[earlier]):
                raise _wrong(f"bounds the same number as rows.{earlier}", "rows", number)
    return found


_WRITTEN = TypeAdapter(tuple[Annotated[Any, PlainValidator(_expectations)], ...])


def _expanded(written: Any) -> Any:
    """All that a claim expects, row by row, in the order in which it is written."""
    if not isinstance(written, tuple):
        return written
    return tuple(one for block in _WRITTEN.validate_python(written) for one in block)


def _wrong(what: str, *place: int | str) -> ValidationError:
    """A mistake below the value that is being checked."""
    # "{what}", so that braces in it stay what they are.
    error = PydanticCustomError("wrong", "{what}", {"what": what})
    details = InitErrorDetails(type=error, loc=place, input=None)
    return ValidationError.from_exception_data("series", [details])


class Claim(Model):
    """One sentence that can be checked, and what it is checked by."""

    published: str = Field(description="what was claimed, where")
    topology: Name
    scheduler: Name
    workload: Name
    compare: tuple[Name, Name] = ("before", "after")
    cpus: int = Field(default=0, ge=0, le=64, description="vCPUs, when not the topology's")
    parameters: dict[Name, Value] = {}
    seeds: int = Field(
        default=0, ge=0, description="of the exact engine, when the profile has fewer"
    )
    expect: Annotated[
        tuple[Expectation, ...],
        Field(
            min_length=1,
            description="expectations and tables of them; or the name of a claim above that "
            "expects the same",
        ),
        BeforeValidator(
            _expanded,
            json_schema_input_type=Annotated[tuple[Expectation | Table, ...], Field(min_length=1)]
            | str,
        ),
    ]


_ARMS = {"before": Arm(patches=BASE), "after": Arm(patches=SERIES)}


class Series(Model):
    """A patch series under judgement."""

    title: str
    origin: str = Field(description="where the series comes from")
    tree: str = Field(default="debian:6.12", description="the kernel source it applies to")
    kernel: tuple[Name, ...] = ("base", "block", "filesystems", "buffer_heads", "armdisk")
    arms: dict[Name, Arm] = Field(default={}, description="beside before and after")
    schedulers: tuple[Name, ...] = Field(default=(), description="I/O schedulers that it adds")
    claims: dict[Name, Claim] = Field(min_length=1)
    _folder: Path = PrivateAttr()

    @field_validator("arms")
    @classmethod
    def _keeps_its_own(cls, arms: dict[str, Arm]) -> dict[str, Arm]:
        if own := sorted(arms.keys() & _ARMS.keys()):
            raise ValueError(f"the arm {own[0]} is what it is: without the patches, or with them")
        return arms

    @field_validator("claims", mode="before")
    @classmethod
    def _expect_the_same(cls, written: Any) -> Any:
        """Give a claim that names another one as what it expects that one's expectations."""
        if not isinstance(written, dict):
            return written
        found: dict[str, Any] = {}
        for title, claim in written.items():
            same = claim.get("expect") if isinstance(claim, dict) else None
            if not isinstance(same, str):
                found[title] = claim
            elif same in found:
                # A claim above that is wrong itself is told first.
                right = isinstance(found[same], dict)
                found[title] = {**claim, "expect": found[same].get("expect", ()) if right else ()}
            else:
                hint = nearest(same, found)
                raise _wrong(f"no claim above is called {same!r}; {hint}", title, "expect")
        return found

    @property
    def folder(self) -> Path:
        """Where its series.toml and its patches lie."""
        return self._folder

    @property
    def file(self) -> Path:
        """Its series.toml."""
        return self.folder / "series.toml"

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.name

    def patches(self, level: PatchLevel) -> tuple[Path, ...]:
        """The patch files of a level in order: base alone, or base and then another folder."""
        parts = dict.fromkeys((BASE, level))
        found = (sorted((self.folder / part).glob("*.patch")) for part in parts)
        return tuple(path for paths in found for path in paths)

    @property
    def levels(self) -> tuple[PatchLevel, ...]:
        """What is applied in some arm: base, series, and the folders of rivals."""
        return tuple(dict.fromkeys(arm.patches for arm in self.all_arms.values()))

    @property
    def all_arms(self) -> Mapping[str, Arm]:
        """The arms by name, before and after among them."""
        return {**_ARMS, **self.arms}


def get(name: str) -> Series:
    """The series called name, or the one in the folder name when that is a path; on the kernel
    source that this system can have.

    Raises UsageError for an unknown name or a wrong key.
    """
    path = file(name)
    written = load(path, Series)
    found = written.model_copy(update={"tree": kernel_source(written.tree)})
    found._folder = Path(os.path.normpath(path.parent.absolute()))
    return found


def reverse(judged: Series) -> Series:
    """The series with its patches where they were not and gone where they were: a control.

    A claim that holds of the series must be refuted of this one. An arm on other hardware is a
    reference arm: it shows what that hardware gives, not what the patches do, and keeps its own;
    so does one of other patches.
    """
    turned: dict[PatchLevel, PatchLevel] = {BASE: SERIES, SERIES: BASE}

    def level(arm: Arm) -> PatchLevel:
        is_reference = arm.topology or arm.scheduler or arm.hw_queues
        return arm.patches if is_reference else turned.get(arm.patches, arm.patches)

    return _with_patches(judged, level)


def no_op(judged: Series) -> Series:
    """The series without its patches, base/ in all arms: a control, nothing of it may hold."""
    return _with_patches(judged, lambda arm: BASE)


def _with_patches(judged: Series, level: Callable[[Arm], PatchLevel]) -> Series:
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
