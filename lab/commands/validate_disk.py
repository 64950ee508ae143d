# SPDX-License-Identifier: GPL-2.0-or-later
"""A loop disk's reads per second as the simulation gives them, beside those of a real machine."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from lab.base.text import number, percent
from lab.commands.validate_curves import CurvePoint, error_text
from lab.inputs.machine_model import MachineModel
from lab.measure import loop_disk
from lab.measure.matrix import SCHEDULERS
from lab.measure.primitives import Measured, Primitive
from lab.measure.session import Session
from lab.report.run_record import Curves, TableRecord
from lab.report.tables import columns

# People run such a kernel, and what reads cost depends on it (docs/validity.md).
FRAGMENT = "distro"
_SERVED = {
    "failing": "a loop disk whose driver fails each request at once",
    "memory": "a loop disk in memory, which one thread of the kernel serves",
}


def tables(
    machine: str, measured: Measured, model: MachineModel, session: Session
) -> list[TableRecord]:
    """A table for each kind of disk that was measured. Raises GuestError when a guest fails."""
    of_disk = {key: values for key, values in measured.items() if loop_disk.is_disk(key.name)}
    if not of_disk:
        return []
    kernel = session.kernel("", (), (*session.fragments, FRAGMENT))
    simulated = loop_disk.simulated(session.testbed, kernel, model, of_disk, session.progress)
    shown = []
    for kind in loop_disk.kinds():
        points = [
            CurvePoint(scheduler, str(key.threads), _iops(of_disk, key), _iops(simulated, key))
            for scheduler in SCHEDULERS
            for key in of_disk
            if key.name == f"{kind}-{scheduler}"
        ]
        shown += [_table(machine, kind, points)] if points else []
    return shown


def _iops(measured: Measured, key: Primitive) -> float:
    return 1e9 / median(repetition.ns for repetition in measured[key])


def _table(machine: str, kind: str, points: Sequence[CurvePoint]) -> TableRecord:
    # A machine has all schedulers for each number of processes.
    counts = sorted({point.label for point in points}, key=int)
    drawn: dict[str, tuple[float | None, ...]] = {}
    for scheduler in dict.fromkeys(point.scheduler for point in points):
        of_scheduler = {point.label: point for point in points if point.scheduler == scheduler}
        there = [of_scheduler[count] for count in counts]
        drawn[f"{scheduler}, measured"] = tuple(point.hardware for point in there)
        drawn[f"{scheduler}, simulated"] = tuple(point.lab for point in there)
    return TableRecord(
        title=f"{machine}, {_SERVED[kind]}: reads per second",
        columns=columns("scheduler", "processes", "measured", "simulated", "error"),
        rows=tuple(
            (
                point.scheduler,
                point.label,
                number(point.hardware),
                number(point.lab or 0),
                percent(point.error or 0, exact=False),
            )
            for point in points
        ),
        notes=(f"{error_text(points)} Kernel with {FRAGMENT}.",),
        curves=Curves(
            labels=tuple(counts),
            values=drawn,
            dashed=tuple(name for name in drawn if name.endswith("measured")),
        ),
    )
