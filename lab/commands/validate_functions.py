# SPDX-License-Identifier: GPL-2.0-or-later
"""How long functions of the kernel take in a job, beside what perf measured on the real machine.

A curve whose errors cancel shows them here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.commands import validate
from lab.commands.validate_curves import ComparedCurve
from lab.measure.boot_store import BootStore
from lab.report.run_record import TableRecord
from lab.report.tables import columns

# Times of an I/O in ns below which no factor is stated: perf has few samples of them.
_LEAST_NS = 20.0
# What takes less in the simulation is not executed for each I/O there: the kernels differ.
_EXECUTED_NS = 2.0


@dataclass(frozen=True)
class FunctionTime:
    """What a function takes of an I/O in ns, as measured and as simulated."""

    scheduler: str
    name: str
    label: str
    hardware: float
    simulated: float

    @property
    def factor(self) -> float:
        """Simulated over measured."""
        return self.simulated / self.hardware


def compare(compared: ComparedCurve, store: BootStore) -> list[FunctionTime]:
    """Each function that perf measured for a curve and the simulated kernel executes, too."""
    times = []
    for point, outcome in zip(compared.points, compared.outcomes, strict=True):
        cost = store.cost(outcome.boots[-1].id) if outcome.boots else None
        executed = cost.by_function() if cost else {}
        times += [
            FunctionTime(point.scheduler, name, point.label, by_label[point.label], executed[name])
            for name, by_label in compared.curve.functions.get(point.scheduler, {}).items()
            if point.label in by_label and executed.get(name, 0.0) >= _EXECUTED_NS
        ]
    return times


def tables(machine: str, by: str, times: Sequence[FunctionTime]) -> list[TableRecord]:
    """For each scheduler the ns of its functions, and their error; by is what the labels are."""
    return [
        _table(
            f"{machine}, {scheduler}: ns of an I/O by function and {by}, measured / simulated",
            [time for time in times if time.scheduler == scheduler],
        )
        for scheduler in dict.fromkeys(time.scheduler for time in times)
    ]


def _table(title: str, times: Sequence[FunctionTime]) -> TableRecord:
    labels = sorted({time.label for time in times}, key=int)
    cells = {
        (time.name, time.label): f"{time.hardware:,.0f} / {time.simulated:,.0f}" for time in times
    }
    return TableRecord(
        title=title,
        columns=columns("function", *labels),
        rows=tuple(
            (name, *(cells.get((name, label), "") for label in labels))
            for name in dict.fromkeys(time.name for time in times)
        ),
        notes=(_error_text([time for time in times if time.hardware >= _LEAST_NS]),),
    )


def _error_text(times: Sequence[FunctionTime]) -> str:
    if not times:
        return f"No function was measured with {_LEAST_NS:g} ns or more."
    error = validate.error(times)
    return (
        f"{error.points} times of {_LEAST_NS:g} ns and more: mean factor {error.mean:.2f}, "
        f"worst {error.worst:.2f}, with sign {error.bias:.2f}."
    )
