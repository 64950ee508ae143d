# SPDX-License-Identifier: GPL-2.0-or-later
"""The record of a run: all that reports and formats need, one JSON file with a versioned schema."""

from __future__ import annotations

import statistics
from typing import Annotated, Self

from pydantic import Field, model_validator

from lab.base.toml import Model
from lab.inputs import terms
from lab.inputs.bounds import Bound
from lab.inputs.claims import KnownMiss, Published
from lab.inputs.terms import Better, Level, Miss, Verdict
from lab.inputs.workload import Value
from lab.measure.host import EngineReport, Facts

# Changes with every change of the fields below that an older lab could not read. Before 1.0 a lab
# reads records of its own version only.
SCHEMA_VERSION = 5

# The lab's words: values of their types here, plain text in JSON and for who builds a record.
AnEngine = Annotated[terms.Engine, Field(strict=False)]
ALevel = Annotated[Level, Field(strict=False)]
ABetter = Annotated[Better, Field(strict=False)]
AVerdict = Annotated[Verdict, Field(strict=False)]
AMiss = Annotated[Miss, Field(strict=False)]


class BootRecord(Model):
    """One guest run: when (seconds since 1970), how long, in which round, and its numbers."""

    id: str = Field(description="also the name of its folder in results/boots")
    started: float
    seconds: float
    round: str = Field(default="", description="equal for the boots of one round of several arms")
    kernel: str = Field(description="id of the kernel that was booted")
    values: dict[str, float] = Field(description="by metric")


class CellRecord(Model):
    """What was measured: arm, hardware, scheduler, workload, and its boots."""

    arm: str
    topology: str
    scheduler: str
    workload: str
    parameters: dict[str, Value]
    swept: tuple[str, ...] = Field(description="the parameters that differ between cells")
    engine: AnEngine
    cpus: int = Field(description="vCPUs")
    hw_queues: int = Field(description="hardware queues of the disk")
    kernel_parameters: tuple[str, ...] = Field(description="additional kernel parameters")
    counters: tuple[str, ...]
    machine: str = Field(default="", description="the machine model of a simulated guest")
    metric: str = Field(description="the number that stands for the cell")
    unit: str
    better: ABetter
    facts: dict[str, str] = Field(description="what the guest really was")
    boots: tuple[BootRecord, ...]
    error: str = ""

    @property
    def name(self) -> str:
        """Hardware, scheduler and work, such as ``raid64 bfq dbench_xfs clients=4``."""
        return f"{self.topology} {self.scheduler} {self.workload} {self.sweep}".strip()

    @property
    def executed(self) -> str:
        """What executed and timed it, such as ``exact`` or ``sim xeon16``."""
        return f"{self.engine} {self.machine}".strip()

    @property
    def sweep(self) -> str:
        """The swept parameters, such as ``clients=4``."""
        return " ".join(f"{name}={self.parameters[name]}" for name in self.swept)

    def values(self, metric: str = "") -> tuple[float, ...]:
        """A metric of every boot that has it; the cell's own without a name."""
        wanted = metric or self.metric
        return tuple(boot.values[wanted] for boot in self.boots if wanted in boot.values)

    def mean(self, metric: str = "") -> float | None:
        """The mean of a metric over the boots that have it; None without any."""
        values = self.values(metric)
        return statistics.fmean(values) if values else None


class FindingRecord(Model):
    """An expectation: what was published, expected and measured, and the verdict.

    measured_change and interval are fractions; an end of the interval is None when it is infinite.
    """

    level: ALevel
    engine: AnEngine
    metric: str
    unit: str
    better: ABetter
    conditions: dict[str, Value] = Field(description="workload parameters and vCPUs")
    published: Published | None = None
    known_miss: KnownMiss | None = None
    miss: AMiss | None = Field(default=None, description="what became of the known miss")
    bound: Bound = Field(description="what was expected of the change, or of the value")
    because: str
    verdict: AVerdict
    reason: str
    broken: bool = Field(default=False, description="whether the patched kernel itself fails")
    arms: tuple[str, ...]
    cells: tuple[int, ...] = Field(description="places in the run's cells; of arms, in order")
    values: tuple[tuple[float, ...], ...] = Field(description="one a boot, by arm")
    measured: tuple[float, ...] = Field(description="means, by arm")
    measured_change: float | None = None
    interval: tuple[float | None, float | None] | None = None
    p: float | None = None
    machine: str = Field(default="", description="the machine model, if simulated")
    sensitivity: dict[str, float] = Field(
        default={},
        description="the change, or the value, with other costs of the machine model",
    )
    rejected: int = Field(default=0, description="rounds that the host disturbed")
    unchanged: int = Field(
        default=0,
        description="functions that both arms executed, where it is proven that none differs",
    )
    group: int | None = Field(
        default=None, description="equal for findings that the same rounds answer"
    )

    @property
    def executed(self) -> str:
        """What executed and timed the boots, such as ``exact`` or ``sim xeon16``."""
        return f"{self.engine} {self.machine}".strip()

    @property
    def timed(self) -> bool:
        """Whether the boots are rounds, measured by the wall clock."""
        return self.level is Level.WALL


class ClaimRecord(Model):
    """A published claim of a series, or a check of the lab's, and what its expectations came to."""

    name: str
    is_check: bool = Field(default=False, description="supposed by the lab, published by nobody")
    verdict: AVerdict
    counts_as: AVerdict = Field(description="the verdict with known misses taken as expected")
    statement: str = Field(description="what was published, or what the lab supposes")
    source: str = Field(default="", description="who published it where, if not the origin")
    topology: str
    scheduler: str
    workload: str
    setup: str = Field(default="", description="driver, queues, scheduler and kernel, in words")
    job: str = Field(default="", description="what ran, as a command line")
    findings: tuple[FindingRecord, ...]

    @property
    def breaks(self) -> bool:
        """Whether the patched kernel itself fails in it."""
        return any(finding.broken for finding in self.findings)


class SeriesRecord(Model):
    """A series under judgement; error says why it could not be judged."""

    name: str
    title: str
    origin: str
    tree: str
    verdict: AVerdict = Field(description="of the published claims together")
    counts_as: AVerdict = Field(description="what decides the exit code")
    error: str
    claims: tuple[ClaimRecord, ...]
    configuration: dict[str, tuple[str, ...]] = Field(
        default={},
        description="options that differ from the kernel without the patches, such as "
        "'CONFIG_X: n -> y', by the folder of the patches",
    )


class WorkloadRecord(Model):
    """What a workload does, and what its own number means."""

    title: str
    metric: str
    unit: str
    better: ABetter


class Column(Model):
    """A column of a table; right for numbers."""

    title: str
    right: bool = False


class Curves(Model):
    """Numbers to be drawn: a value for each label, None where there is none."""

    labels: tuple[str, ...]
    values: dict[str, tuple[float | None, ...]] = Field(description="by the name of the curve")
    dashed: tuple[str, ...] = Field(default=(), description="the names of curves drawn as dashes")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if any(len(curve) != len(self.labels) for curve in self.values.values()):
            raise ValueError("a curve has not as many values as there are labels")
        return self


class TableRecord(Model):
    """What a command shows that judges no claims, as the text of its cells.

    totals are rows below a line; notes are paragraphs below the table; curves are drawn where
    that is possible. Without columns it is its title and its notes.
    """

    title: str
    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    totals: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    curves: Curves | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if any(len(row) != len(self.columns) for row in (*self.rows, *self.totals)):
            raise ValueError(f"a row of {self.title!r} has not as many cells as there are columns")
        return self


class MovedLine(Model):
    """A cache line: a variable or an address, and its transfers between CPUs per I/O."""

    place: str
    transfers: float
    by: dict[str, float] = Field(description="transfers by the function that causes them")


class CostDifference(Model):
    """What an I/O costs by function in two arms: what changed most first."""

    claim: str = Field(description="SERIES.CLAIM; empty for what was compared without one")
    arms: tuple[str, str]
    cells: tuple[int, int]
    unit: str = Field(default="instructions", description="simulated: ns, summed over all CPUs")
    functions: tuple[tuple[str, float, float], ...]
    totals: tuple[float, float] = Field(description="all of the kernel, per I/O")
    lines: tuple[tuple[MovedLine, ...], ...] = Field(
        default=(), description="those that move most, by arm, if simulated"
    )


class HostRecord(Model):
    """The machine that measured, and whether each engine was checked to work on it."""

    facts: Facts
    engines: tuple[EngineReport, ...]


class Mail(Model):
    """The mail that patches came in, for a reply to it: of a series its cover letter."""

    source: str = Field(description="the word of the command that named the patches")
    message_id: str
    references: tuple[str, ...]
    subject: str
    sender: str
    date: str
    to: tuple[str, ...]
    cc: tuple[str, ...]
    base_commit: str = Field(default="", description="what the series says that it applies to")


class StepRecord(Model):
    """Patches that were measured without a claim: what they break, or were warned of."""

    title: str
    broken: str = ""
    warned: str = ""


class RunRecord(Model):
    """Everything that one command measured and found."""

    schema_version: int = Field(default=SCHEMA_VERSION, ge=SCHEMA_VERSION, le=SCHEMA_VERSION)
    id: str
    command: str
    title: str
    profile: str
    skips: str
    control: str = Field(default="", description="the control that was judged in place of claims")
    alpha: float
    started: float
    finished: float
    lab: str = Field(description="version and revision of the lab")
    host: HostRecord
    series: tuple[SeriesRecord, ...] = ()
    tables: tuple[TableRecord, ...] = Field(
        default=(), description="what the command shows in place of verdicts or a matrix"
    )
    mail: Mail | None = Field(default=None, description="what somebody's patches came in")
    steps: tuple[StepRecord, ...] = Field(
        default=(), description="somebody's patches without a claim"
    )
    cells: tuple[CellRecord, ...] = ()
    workloads: dict[str, WorkloadRecord] = Field(
        default={}, description="by name, those of the cells"
    )
    costs: tuple[CostDifference, ...] = ()

    @property
    def claims(self) -> list[tuple[SeriesRecord, ClaimRecord]]:
        """All claims and checks, each with its series."""
        return [(series, claim) for series in self.series for claim in series.claims]
