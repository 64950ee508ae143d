# SPDX-License-Identifier: GPL-2.0-or-later
"""What the simulation says of a machine, beside what was measured on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean, median
from typing import Protocol

from lab.base import toml
from lab.base.progress import Progress
from lab.base.system import data
from lab.commands.calibrate import used
from lab.inputs.machine_model import MachineModel
from lab.measure import loop_disk, primitives
from lab.measure.job import Testbed
from lab.measure.primitives import Measured, Primitive, undisturbed
from lab.report.run_record import TableRecord
from lab.report.tables import columns

FOLDER = data("configs") / "validation"
# Times in ns below which no factor is stated: a tick of the simulated clock is one.
_LEAST_NS = 3.0
# A transfer's time is that beyond the same without lines.
_TRANSFERS = ("modified-", "read-", "shared-", "clean-")
# Not simulated: the one is a cost of the model itself, and memory is free.
_LEFT_OUT = frozenset({"pause", "clock", "clean-chain"})
_GROUPS = {
    "add": "contended word",
    "compare": "contended word",
    "ping": "transfer",
    "modified": "transfer",
    "read": "transfer",
    "shared": "transfer",
    "ticket": "ticket lock",
    "test": "test-and-set lock",
    "mcs": "MCS lock",
    "qspin": "qspinlock",
}


class Compared(Protocol):
    """A time as measured on a machine and as simulated."""

    @property
    def factor(self) -> float:
        """Simulated over measured."""


@dataclass(frozen=True)
class Point:
    """A time in ns as measured on a machine and as simulated.

    used says that the machine's model was made of it, so it does not count.
    """

    primitive: Primitive
    hardware: float
    simulated: float
    used: bool

    @property
    def factor(self) -> float:
        """Simulated over measured."""
        return self.simulated / self.hardware

    @property
    def group(self) -> str:
        """What it is a kind of."""
        if self.primitive.threads == 1:
            return "one thread"
        return _GROUPS[self.primitive.name.partition("-")[0]]


@dataclass(frozen=True)
class Error:
    """How far off points are: mean and worst factor (1 is exact), and the mean with its sign."""

    points: int
    mean: float
    bias: float
    worst: float


def recorded_machines() -> list[str]:
    """The machine models of machines on which the primitives were measured."""
    return toml.names(FOLDER, ".tsv")


def hardware(machine: str) -> Measured:
    """What was measured on a machine; it needs a record (recorded_machines())."""
    return primitives.recorded(FOLDER / f"{machine}.tsv")


def points(
    measured: Measured, model: MachineModel, testbed: Testbed, progress: Progress
) -> list[Point]:
    """Each primitive that was measured, and simulated on that machine."""
    measured = {k: values for k, values in measured.items() if not loop_disk.is_disk(k.name)}
    threads = sorted({key.threads for key in measured})
    with progress.step(f"simulating {max(threads)} CPUs"):
        simulated = _net(primitives.simulated(testbed, model, threads, progress))
    real = _net(undisturbed(measured))
    made_of = used(measured)
    return [
        Point(key, real[key], simulated[key], key in made_of)
        for key in real
        if key.name not in _LEFT_OUT and key in simulated and real[key] >= _LEAST_NS
    ]


def _net(measured: Measured) -> dict[Primitive, float]:
    """The medians; of transfers what the lines took beyond the same without lines."""
    medians = {
        key: median(each.ns for each in repetitions)
        for key, repetitions in measured.items()
        if repetitions
    }
    net = {}
    for key, ns in medians.items():
        if not key.name.startswith(_TRANSFERS):
            net[key] = ns
        elif key.lines and (empty := key._replace(lines=0)) in medians:
            net[key] = ns - medians[empty]
    return net


def error(of: Iterable[Compared]) -> Error:
    """The error of points, by factors: x2 too much is as far off as half of it."""
    logs = [log(max(point.factor, 1e-3)) for point in of]
    sizes = [abs(logarithm) for logarithm in logs]
    return Error(len(logs), exp(fmean(sizes)), exp(fmean(logs)), exp(max(sizes)))


def summary(machine: str, model: MachineModel, points: Sequence[Point]) -> TableRecord:
    """The errors of a machine's primitives by group."""
    judged = [point for point in points if not point.used]
    groups = dict.fromkeys(point.group for point in judged)
    rows = [_row(name, error(point for point in judged if point.group == name)) for name in groups]
    return TableRecord(
        title=f"Primitives of {machine}: simulated over measured",
        columns=columns("primitive", "rows", "mean factor", "with sign", "worst"),
        rows=tuple(rows),
        totals=(_row("all", error(judged)),),
        notes=(
            f"{model.title}. {len(points) - len(judged)} rows that the model is made of, and those "
            f"below {_LEAST_NS:g} ns, are left out.",
        ),
    )


def _row(name: str, errors: Error) -> tuple[str, ...]:
    factors = (errors.mean, errors.bias, errors.worst)
    return name, str(errors.points), *(f"{factor:.2f}" for factor in factors)


def details(machine: str, points: Sequence[Point]) -> TableRecord:
    """Every primitive of a machine."""
    return TableRecord(
        title=f"Every primitive of {machine}, ns",
        columns=columns("primitive", "measured", "simulated", "factor", "model"),
        rows=tuple(
            (
                str(point.primitive),
                f"{point.hardware:.1f}",
                f"{point.simulated:.1f}",
                f"{point.factor:.2f}",
                "yes" if point.used else "",
            )
            for point in points
        ),
    )
