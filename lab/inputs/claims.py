# SPDX-License-Identifier: GPL-2.0-or-later
"""What a series claims, and what the lab checks beside it: expectations, and published figures."""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from lab.base.errors import UsageError
from lab.base.text import number, percent
from lab.base.toml import Model
from lab.inputs import workload
from lab.inputs.bounds import (
    HALF,
    Bound,
    ChangeBound,
    PublishedChange,
    ValueBound,
    WrittenBound,
    half_of,
)
from lab.inputs.names import Name, TopologyName
from lab.inputs.seeds import SeedCount
from lab.inputs.terms import Engine
from lab.inputs.workload import Value


class Published(Model):
    """A figure as somebody published it: levels, or the change where no levels are known.

    The record of a run has it as it is.
    """

    before: float | None = Field(default=None, gt=0, description="without the patches")
    after: float | None = Field(default=None, ge=0, description="with the patches")
    change: PublishedChange | None = Field(
        default=None, description="such as '+40%' or '-8% .. +20%', where levels are not known"
    )
    unit: str = Field(default="", description="of the levels, such as 'IOPS'")
    machine: str = Field(default="", description="the machine of the measurement")

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if self.before is None and self.after is None and not self.change:
            raise ValueError("a published figure has levels (before, after) or a change")
        if self.change and self.before is not None and self.after is not None:
            raise ValueError("two levels give the change: leave out the key change")
        return self

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels that are known."""
        return tuple(level for level in (self.before, self.after) if level is not None)

    @property
    def changes(self) -> tuple[float, ...]:
        """The published change as a fraction, or both ends of a range; nothing for one level."""
        if self.before is not None and self.after is not None:
            return (self.after / self.before - 1,)
        return self.change.ends if self.change else ()

    @property
    def single_change(self) -> float | None:
        """The published change as a fraction; None for a range and a single level."""
        return self.changes[0] if len(self.changes) == 1 else None

    @property
    def text(self) -> str:
        """Levels and change: ``256,000 -> 594,000 IOPS, +132.0 %``."""
        shown = f"{' -> '.join(map(number, self.levels))} {self.unit}" if self.levels else ""
        change = str(self.change or "").removeprefix("== ").replace("%", " %")
        if not change and self.changes:
            change = percent(self.changes[0], exact=True)
        return ", ".join(filter(None, (shown.strip(), change)))


class KnownMiss(Model):
    """An expectation that does not hold here, with the measured interval and the reason.

    It is printed as known and does not change an exit code. When what is measured leaves the
    recorded interval the record is wrong, and that is red. An interval that reaches into the bound
    says that the question is open.
    """

    measured: WrittenBound = Field(description="the measured interval, such as '-0.7% .. +0.3%'")
    date: datetime.date = Field(description="date of the measurement")
    reason: str = Field(min_length=1, description="why it is missed")


Metric = Annotated[Name, Field(description="a metric or a counter")]


class ExpectationKeys(Model):
    """The keys of an expectation; those that a table of rows has need not be repeated."""

    metric: Metric = ""
    change: ChangeBound | None = Field(
        default=None,
        description="a bound on the change, such as '>= +20%'; 'half of published', as a "
        "logarithm; or 'no change', 5 % either way",
    )
    value: ValueBound | None = Field(
        default=None, description="a bound on the value, such as '== 9'"
    )
    arm: Name = Field(
        default="", description="the arm whose value is bounded; default: the second of compare"
    )
    because: str = Field(default="", description="the reason for the bound")
    published: Published | None = Field(
        default=None, description="the published figure; claims only"
    )
    known_miss: KnownMiss | None = Field(
        default=None, description="records that the expectation does not hold here"
    )
    engine: tuple[Annotated[Engine, Field(strict=False)], ...] = Field(
        default=(),
        description="engines, of which the first that works is used; default: exact for costs and "
        "counters, else kvm, tcg",
    )
    machine: Name = Field(default="", description="machine model, for the engine sim")
    cpus: int = Field(
        default=0, ge=0, le=64, description="vCPUs; default: the claim's, or the machine's"
    )
    parameters: dict[Name, Value] = Field(default={}, description="parameters of the workload")
    compare: tuple[Name, Name] | None = Field(
        default=None, description="two arms; default: the claim's"
    )
    subtract: Name = Field(
        default="", description="an arm whose value is subtracted from both that are compared"
    )
    needs_cpus: int = Field(
        default=0,
        ge=0,
        le=64,
        description="host CPUs; with fewer the verdict is INCONCLUSIVE; also the default of cpus",
    )
    seeds: SeedCount = Field(default=0, description="least number of seeds")
    may_be_zero: bool = Field(default=False, description="the counter may be zero with the patches")

    @field_validator("published", mode="before")
    @classmethod
    def _has_its_parts(cls, written: Any) -> Any:
        if isinstance(written, str):
            raise ValueError(
                'write levels, { before = 263e3, after = 475e3, unit = "IOPS" }, or '
                '{ change = "+40%" }'
            )
        return written


class Expectation(ExpectationKeys):
    """A bound on a change from the first to the second arm, or on a value of one arm."""

    metric: Metric

    @model_validator(mode="before")
    @classmethod
    def _because_of_the_rule(cls, written: Any) -> Any:
        """Half of what was published is the lab's rule: it needs no other reason."""
        if isinstance(written, dict) and written.get("change") == HALF:
            return {"because": "half of the published change, as a logarithm", **written}
        return written

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if bool(self.change) == bool(self.value):
            raise ValueError("an expectation has either change or value")
        if not self.because:
            raise ValueError("an expectation has because, the reason of its bound")
        if self.change == HALF and not (self.published and self.published.single_change):
            raise ValueError(
                f"{HALF} needs published = {{ before = ..., after = ... }}, or one change"
            )
        if self.change and self.arm:
            raise ValueError("arm goes with value; a change has compare")
        if self.subtract and not self.change:
            raise ValueError("subtract goes with change")
        if self.machine and {*self.engine} - {Engine.SIM}:
            raise ValueError(f"a machine model is for the engine {Engine.SIM} alone")
        if self.machine and self.needs_cpus:
            raise ValueError("needs_cpus is about the host, which a simulated machine is not")
        if self.known_miss:
            self.known_miss.measured.of(self.bound.unit, str(self.known_miss.measured))
        return self

    @property
    def bound(self) -> Bound:
        """What it allows of the change, or of the value."""
        if isinstance(self.change, str):
            figure = self.published.single_change if self.published else None
            assert figure
            return half_of(figure)
        bound = self.change or self.value
        assert bound is not None
        return bound

    @property
    def bounded_number(self) -> tuple[object, ...]:
        """What is bounded, whatever the limits and the words are."""
        said = {"change", "value", "because", "published", "needs_cpus"}
        said |= {"may_be_zero", "seeds", "known_miss"}
        conditions = self.model_dump(exclude={*said, "parameters"}).values()
        return (self.bound.unit, frozenset(self.parameters.items()), *conditions)


class ExpectationTable(ExpectationKeys):
    """Several expectations, one for each row."""

    rows: tuple[ExpectationKeys, ...] = Field(
        min_length=1,
        description="one expectation each; its keys override the table's, parameters are merged",
    )


class _Expanded(Model):
    """The rows of a table with the table's keys put in; a mistake is found at its row."""

    rows: tuple[Expectation, ...]


def _expectations(written: Any) -> tuple[Expectation, ...]:
    """What one ``[[claims.NAME.expect]]`` expects: an expectation, or one for each row."""
    if not (isinstance(written, dict) and "rows" in written):
        return (Expectation.model_validate(written),)
    table = ExpectationTable.model_validate(written)
    full = tuple(
        {**_keys(table), **_keys(row), "parameters": {**table.parameters, **row.parameters}}
        for row in table.rows
    )
    expectations = _Expanded.model_validate({"rows": full}).rows
    places: dict[tuple[object, ...], int] = {}
    for place, expectation in enumerate(expectations):
        earlier = places.setdefault(expectation.bounded_number, place)
        if earlier != place:
            raise wrong(f"bounds the same number as rows.{earlier}", "rows", place)
    return expectations


def _keys(row: ExpectationKeys) -> dict[str, Any]:
    """The keys that are written of an expectation, as they were parsed."""
    return {name: getattr(row, name) for name in row.model_fields_set - {"rows"}}


_WRITTEN = TypeAdapter(tuple[Annotated[Any, PlainValidator(_expectations)], ...])


def _expanded(written: Any) -> Any:
    """All that a claim expects, row by row, in the order in which it is written."""
    if not isinstance(written, tuple):
        return written
    return tuple(
        expectation for block in _WRITTEN.validate_python(written) for expectation in block
    )


def wrong(what: str, *place: int | str) -> ValidationError:
    """A mistake below the value that is being checked."""
    # "{what}", so that braces in it stay what they are.
    error = PydanticCustomError("wrong", "{what}", {"what": what})
    details = InitErrorDetails(type=error, loc=place, input=None)
    return ValidationError.from_exception_data("series", [details])


class Claim(Model, ABC):
    """One sentence that can be checked, and what it is checked by."""

    topology: TopologyName = Field(description="a file of configs/guest, or a device line")
    scheduler: Name = Field(description="the I/O scheduler")
    workload: Name = Field(default="", description="a file of workloads")
    fio: str = Field(
        default="", description="in place of workload: any fio command line or job file, as text"
    )
    compare: tuple[Name, Name] = Field(
        default=("before", "after"), description="the two arms whose change is bounded"
    )
    cpus: int = Field(default=0, ge=0, le=64, description="vCPUs; default: the topology's")
    parameters: dict[Name, Value] = Field(default={}, description="parameters of the workload")
    seeds: SeedCount = Field(default=0, description="least number of seeds")
    expect: Annotated[
        tuple[Expectation, ...],
        Field(
            min_length=1,
            description="expectations and tables of them; or the name of a claim above that "
            "expects the same",
        ),
        BeforeValidator(
            _expanded,
            json_schema_input_type=Annotated[
                tuple[Expectation | ExpectationTable, ...], Field(min_length=1)
            ]
            | str,
        ),
    ]

    @model_validator(mode="before")
    @classmethod
    def _has_its_job(cls, written: Any) -> Any:
        """Name the workload that a claim's own fio job makes."""
        if isinstance(written, dict) and "workload" not in written and "fio" not in written:
            raise ValueError("a claim has a workload, or a job as fio")
        if not isinstance(written, dict) or not isinstance(written.get("fio"), str):
            return written
        if "workload" in written:
            raise ValueError("a claim has either workload or fio")
        try:
            return {**written, "workload": workload.give(written["fio"], "fio")}
        except UsageError as exc:
            raise ValueError(exc.brief + (f"; {exc.hint}" if exc.hint else "")) from exc

    @property
    @abstractmethod
    def statement(self) -> str:
        """The sentence."""

    @property
    def is_check(self) -> bool:
        """Whether the lab supposes it: then it informs, and does not decide."""
        return isinstance(self, Check)


class PublishedClaim(Claim):
    """What somebody published about a series. It decides the verdict."""

    published: str = Field(description="the claim, in the words of its author")
    source: str = Field(default="", description="who published it where; default: origin")
    problem: Name = Field(
        default="",
        description="the claim that shows the problem which this one solves: where that does not "
        "hold under the same conditions, this one cannot be refuted",
    )

    @property
    def statement(self) -> str:
        """What was published."""
        return self.published


class Check(Claim):
    """What the lab itself expects of a series. It informs and does not decide."""

    title: str = Field(description="what the lab expects, in one line")

    @field_validator("expect")
    @classmethod
    def _is_ours(cls, expect: tuple[Expectation, ...]) -> tuple[Expectation, ...]:
        if any(expectation.published for expectation in expect):
            raise ValueError("a check has no published figure: what was published is a claim")
        return expect

    @property
    def statement(self) -> str:
        """What is supposed."""
        return self.title
