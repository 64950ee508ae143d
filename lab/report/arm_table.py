# SPDX-License-Identifier: GPL-2.0-or-later
"""Grids: one metric of one workload, a row for each swept value, a column for each arm."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass, field

from lab.base.stats import Interval, paired
from lab.inputs.terms import Better
from lab.judge.seed_noise import change_of, seed_noise
from lab.measure import metrics
from lab.report.run_record import CellRecord, FindingRecord, RunRecord, SeriesRecord

_NOTHING = Interval(0.0, 0.0)
_FIRST = (0, "")


@dataclass(frozen=True)
class ArmValue:
    """An arm's value in a row: the mean over its boots, and the change against the first arm.

    change is a fraction in the metric's own direction; real tells that it is more than noise.
    published is the change that was published, where one figure was.
    """

    values: tuple[float, ...]
    change: float | None = None
    real: bool = False
    published: float | None = None

    @property
    def mean(self) -> float:
        """The mean over the boots."""
        return statistics.fmean(self.values)


@dataclass
class ArmTable:
    """Rows of entries: ``rows[label][arm]``; swept names what the labels are values of."""

    topology: str
    scheduler: str
    workload: str
    executed: str
    cpus: int
    metric: str
    unit: str
    better: Better
    arms: list[str] = field(default_factory=list)
    swept: str = ""
    rows: dict[str, dict[str, ArmValue]] = field(default_factory=dict)

    @property
    def labels(self) -> list[str]:
        """The row labels in the order of their numbers."""
        return sorted(self.rows, key=lambda label: [float(n) for n in re.findall(r"\d+", label)])

    def signed(self, change: float | None) -> float | None:
        """A change with the sign of an improvement."""
        return None if change is None else metrics.improvement(change, self.better)


def of_series(run: RunRecord, series: SeriesRecord) -> list[ArmTable]:
    """The grids of a series: arms of all claims that measured the same thing side by side."""
    grids: dict[object, ArmTable] = {}
    for claim in series.claims:
        for finding in claim.findings:
            if len(finding.cells) != 2 or finding.measured_change is None:
                continue
            cell = run.cells[finding.cells[0]]
            empty = ArmTable(
                *(claim.topology, claim.scheduler, claim.workload, finding.executed, cell.cpus),
                *(finding.metric, finding.unit, finding.better),
            )
            fixed = sorted((k, v) for k, v in cell.parameters.items() if k not in cell.swept)
            _add(grids.setdefault((repr(empty), *fixed), empty), run, finding)
    for table in grids.values():
        table.arms.sort(key=_order)
    return list(grids.values())


def real(cells: tuple[CellRecord, CellRecord], metric: str, alpha: float) -> bool:
    """Whether two cells differ by more than noise.

    Host time: the interval of paired boots, without correction, leaves out no change. The exact
    engine: the interval of its seeds does; with fewer than three seeds, the difference is larger
    than seeds of equal kernels differ.
    """
    before, after = (cell.values(metric) for cell in cells)
    if not before or not after or min(*before, *after) <= 0:
        return False
    if cells[0].engine.deterministic:
        margin = seed_noise(cells[0].workload, cells[0].engine, metric)
        return change_of(before, after, _NOTHING, margin, alpha).apart(_NOTHING)
    rounds = [{boot.round: boot.values.get(metric) for boot in cell.boots} for cell in cells]
    pairs = [(rounds[0][round], rounds[1].get(round)) for round in rounds[0] if round]
    whole = [(old, new) for old, new in pairs if old and new]
    if not whole:
        return False
    comparison = paired([old for old, _ in whole], [new for _, new in whole])
    return comparison.interval(alpha).apart(_NOTHING)


def _add(table: ArmTable, run: RunRecord, finding: FindingRecord) -> None:
    cells = tuple(run.cells[place] for place in finding.cells)
    label = ", ".join(str(cells[0].parameters[name]) for name in cells[0].swept)
    table.swept = ", ".join(cells[0].swept)
    row = table.rows.setdefault(label, {})
    for arm, cell in zip(finding.arms, cells, strict=True):
        if arm not in table.arms:
            table.arms.append(arm)
        if arm not in row:
            row[arm] = ArmValue(cell.values(finding.metric))
    base, arm = finding.arms
    if row[arm].change is None and _order(base) == _FIRST:
        row[arm] = ArmValue(
            row[arm].values,
            finding.measured_change,
            real((cells[0], cells[1]), finding.metric, run.alpha),
            finding.published.single_change if finding.published else None,
        )


def _order(arm: str) -> tuple[int, str]:
    """Before comes first, after comes last."""
    return {"before": _FIRST, "after": (2, "")}.get(arm, (1, arm))
