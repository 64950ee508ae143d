# SPDX-License-Identifier: GPL-2.0-or-later
"""A record's cells side by side: topologies by schedulers, and the guests as they were."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lab.base.text import number
from lab.measure import cost, metrics
from lab.report.run_record import CellRecord, Column, RunRecord, TableRecord
from lab.report.tables import columns

_NOTHING = "-"
# What the exact engine gives beside a workload's own metric.
_EXACT = {
    cost.KERNEL: "kernel instructions per I/O, lower is better",
    "guest_ns_per_io": "guest nanoseconds per I/O, idle time included, lower is better",
}
# Facts of a guest that tell at a glance what it was, with their titles in a terminal.
_FACTS = {
    "hw_queues": "hw queues",
    "online_cpus": "CPUs online",
    "possible_cpus": "CPUs possible",
    "queue/rotational": "rotating",
    "release": "kernel",
}


@dataclass(frozen=True)
class Matrix:
    """A workload measured on several disks: rows of cells, a column for each scheduler.

    metric is what its cells were measured by; rows have places in the run's cells.
    """

    workload: str
    metric: str
    cells: tuple[CellRecord, ...]
    schedulers: tuple[str, ...]
    rows: dict[str, tuple[int | None, ...]]

    @property
    def top(self) -> float:
        """The largest value of all its boots."""
        return max((value for cell in self.cells for value in cell.values()), default=0.0)


def of_run(run: RunRecord) -> Iterator[Matrix]:
    """The cells of a run without a claim, by workload."""
    for workload in dict.fromkeys(cell.workload for cell in run.cells):
        cells_by_place = {n: cell for n, cell in enumerate(run.cells) if cell.workload == workload}
        schedulers = tuple(dict.fromkeys(cell.scheduler for cell in cells_by_place.values()))
        rows: dict[str, dict[str, int]] = {}
        for place, cell in cells_by_place.items():
            rows.setdefault(f"{cell.topology} {cell.sweep}".strip(), {})[cell.scheduler] = place
        cells = tuple(cells_by_place.values())
        yield Matrix(
            workload,
            next((cell.metric for cell in cells if cell.boots), cells[0].metric),
            cells,
            schedulers,
            {label: tuple(map(places.get, schedulers)) for label, places in rows.items()},
        )


def tables(run: RunRecord) -> list[TableRecord]:
    """A table for each workload and metric: what was measured, and the workload's own."""
    records = []
    for matrix in of_run(run):
        work = run.workloads.get(matrix.workload)
        for metric in dict.fromkeys((matrix.metric, work.metric if work else matrix.metric)):
            records.append(_table(run, matrix, metric))
    return records


def guests(run: RunRecord) -> TableRecord:
    """The hardware as the guests reported it; without rows where none did."""
    seen = {cell.topology: cell.facts for cell in run.cells[::-1] if cell.boots}
    right = (Column(title=title, right=fact != "release") for fact, title in _FACTS.items())
    return TableRecord(
        title="Hardware as the guests reported it",
        columns=(Column(title="topology"), *right),
        rows=tuple(
            (name, *(seen[name].get(fact, _NOTHING) for fact in _FACTS))
            for name in dict.fromkeys(cell.topology for cell in run.cells)
            if name in seen
        ),
    )


def failures(run: RunRecord) -> str:
    """One line a cell that has no result."""
    return "\n".join(f"  {cell.name}: {cell.error}" for cell in run.cells if cell.error)


def _table(run: RunRecord, matrix: Matrix, metric: str) -> TableRecord:
    first, work = matrix.cells[0], run.workloads.get(matrix.workload)
    boots = max(len(cell.boots) for cell in matrix.cells)
    unit = metrics.with_clock(work.unit, first.engine) if work else first.unit
    usual = f"{unit}, {work.better} is better" if work else unit
    meaning = _EXACT.get(metric, usual)
    title = work.title if work else first.workload
    return TableRecord(
        title=f"{title}\n{meaning}, {first.executed}, {boots} boot(s)",
        columns=columns("topology", *matrix.schedulers),
        rows=tuple(
            (label, *(_shown(run, place, metric) for place in places))
            for label, places in matrix.rows.items()
        ),
    )


def _shown(run: RunRecord, place: int | None, metric: str) -> str:
    if place is None:
        return _NOTHING
    return "failed" if run.cells[place].error else number(run.cells[place].mean(metric))
