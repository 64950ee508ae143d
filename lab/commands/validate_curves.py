# SPDX-License-Identifier: GPL-2.0-or-later
"""What the lab says of jobs that were measured on real machines, beside what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from lab.base.text import number, percent
from lab.inputs.hardware_curve import HardwareCurve
from lab.measure import matrix
from lab.measure.matrix import Selection
from lab.measure.runner import Outcome
from lab.measure.session import Session
from lab.report.run_record import Curves, TableRecord
from lab.report.tables import columns

_MEASURED = "measured"


@dataclass(frozen=True)
class CurvePoint:
    """A value as measured on a machine and as the lab gives it; None where the guest failed."""

    scheduler: str
    label: str
    hardware: float
    lab: float | None

    @property
    def error(self) -> float | None:
        """How much too high the lab's value is, as a fraction."""
        return None if self.lab is None else self.lab / self.hardware - 1


@dataclass(frozen=True)
class ComparedCurve:
    """A curve with all its points, and the cells that were measured for it."""

    curve: HardwareCurve
    points: tuple[CurvePoint, ...]
    outcomes: tuple[Outcome, ...]


def compare(curve: HardwareCurve, machine: str, session: Session) -> ComparedCurve:
    """Measure each point of a curve on a machine's model, or by the exact engine.

    Raises UsageError for names that do not exist, LabError where the engine does not work.
    """
    fragments = (*session.fragments, *curve.config)
    engine = curve.compared_engine
    session.testbed.host.require(engine)
    kernel = session.kernel(curve.tree, (), fragments)
    wanted = [(name, label) for name, by_label in curve.values.items() for label in by_label]
    tasks = []
    for scheduler, label in wanted:
        settings = {**curve.parameters, curve.by: int(label)}
        selection = Selection(
            (curve.topology,),
            (scheduler,),
            (curve.workload,),
            tuple((name, (value,)) for name, value in settings.items()),
            curve.cpus,
            machine if engine.simulated else "",
        )
        (planned,) = matrix.cells(session.profile, selection, engine)
        tasks.append(planned.on(kernel))
    outcomes = tuple(session.outcomes(tasks))
    points = tuple(
        CurvePoint(scheduler, label, curve.values[scheduler][label], outcome.value(curve.metric))
        for (scheduler, label), outcome in zip(wanted, outcomes, strict=True)
    )
    return ComparedCurve(curve, points, outcomes)


def table(machine: str, compared: ComparedCurve) -> TableRecord:
    """A row for each point: measured, the lab's, and the error; both are drawn, too."""
    curve = compared.curve
    reasons = dict.fromkeys(outcome.error for outcome in compared.outcomes if outcome.error)
    return points_table(
        f"{machine}, {curve.title}: {curve.metric}",
        curve.by,
        "simulated" if curve.compared_engine.simulated else "exact",
        compared.points,
        f"{curve.workload} on {curve.topology}, kernel with "
        f"{' and '.join(curve.config) or 'no further options'}. Measured: {curve.source}.",
        *(f"Failed: {reason}." for reason in reasons),
    )


def by_machine(curves: Sequence[tuple[str, ComparedCurve]]) -> TableRecord:
    """The errors of each machine's curves, and of all its points of one metric together."""
    of_machine: dict[tuple[str, str], list[CurvePoint]] = {}
    rows = []
    for machine, compared in curves:
        curve = compared.curve
        rows.append((machine, curve.title, *_errors(compared.points)))
        of_machine.setdefault((machine, curve.metric), []).extend(compared.points)
    return TableRecord(
        title="All curves by machine",
        columns=columns("machine", "measured", "points", "mean error", "worst", "with sign"),
        rows=tuple(rows),
        totals=tuple(
            (machine, f"all {metric}", *_errors(points))
            for (machine, metric), points in of_machine.items()
        ),
    )


def points_table(
    title: str, by: str, ours: str, points: Sequence[CurvePoint], note: str, *more: str
) -> TableRecord:
    """A row and two points of a plot for each point: measured, and ours, which names the lab's
    values. by is what the labels are, note follows the errors, and more notes follow it.
    """
    labels = sorted({point.label for point in points}, key=int)
    drawn = {}
    for scheduler in dict.fromkeys(point.scheduler for point in points):
        by_label = {point.label: point for point in points if point.scheduler == scheduler}
        line = [by_label.get(label) for label in labels]
        drawn[f"{scheduler} ({_MEASURED})"] = tuple(
            point.hardware if point else None for point in line
        )
        drawn[f"{scheduler} ({ours})"] = tuple(point.lab if point else None for point in line)
    return TableRecord(
        title=title,
        columns=columns("scheduler", by, _MEASURED, ours, "error"),
        rows=tuple(_row(point) for point in points),
        notes=(f"{error_text(points)} {note}", *more),
        curves=Curves(
            labels=tuple(labels),
            values=drawn,
            dashed=tuple(name for name in drawn if name.endswith(f"({_MEASURED})")),
        ),
    )


def error_text(points: Iterable[CurvePoint]) -> str:
    """Mean, worst and mean signed error of points, in a sentence."""
    count, mean, worst, bias = _errors(points)
    if not mean:
        return "No point was measured."
    return f"{count} points: mean error {mean}, worst {worst}, with sign {bias}."


def _errors(points: Iterable[CurvePoint]) -> tuple[str, str, str, str]:
    """How many points were measured, and their mean, worst and mean signed error."""
    errors = [point.error for point in points if point.error is not None]
    if not errors:
        return "0", "", "", ""
    bias = exp(fmean(log(1 + max(error, -0.999)) for error in errors)) - 1
    return (
        str(len(errors)),
        f"{100 * fmean(map(abs, errors)):.1f} %",
        f"{100 * max(map(abs, errors)):.0f} %",
        f"{100 * bias:+.1f} %",
    )


def _row(point: CurvePoint) -> tuple[str, ...]:
    shown = ("failed", "")
    if point.lab is not None and point.error is not None:
        shown = (number(point.lab), percent(point.error, exact=False))
    return (point.scheduler, point.label, number(point.hardware), *shown)


def failures(curves: Sequence[ComparedCurve]) -> int:
    """How many guests failed."""
    return sum(bool(outcome.error) for curve in curves for outcome in curve.outcomes)
