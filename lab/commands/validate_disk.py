# SPDX-License-Identifier: GPL-2.0-or-later
"""What a kernel reads per second from a disk that takes no time: simulated beside measured."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from lab.base.text import number, percent
from lab.build.kernel import Kernel
from lab.commands.validate_curves import CurvePoint, error_text
from lab.inputs.machine_model import MachineModel
from lab.measure import loop_disk
from lab.measure.primitives import Measured, Primitive
from lab.measure.session import Session
from lab.report.run_record import Curves, TableRecord
from lab.report.tables import columns

# People run such a kernel, and what reads cost depends on it (docs/validity.md).
FRAGMENT = "distro"


def tables(
    machine: str, measured: Measured, model: MachineModel, session: Session
) -> list[TableRecord]:
    """A table, if such reads were measured. Raises GuestError when the guest fails."""
    of_disk = {key: values for key, values in measured.items() if loop_disk.is_disk(key.name)}
    if not of_disk:
        return []
    kernel = session.kernel("", (), (*session.fragments, FRAGMENT))
    processes = sorted({key.threads for key in of_disk})
    simulated = loop_disk.simulated(session.testbed, kernel, model, processes, session.progress)
    points = [
        CurvePoint(key.name.partition("-")[2], str(key.threads), *_iops(key, of_disk, simulated))
        for key in of_disk
    ]
    return [_table(machine, kernel, points)]


def _iops(key: Primitive, *several: Measured) -> list[float]:
    return [1e9 / median(repetition.ns for repetition in measured[key]) for measured in several]


def _table(machine: str, kernel: Kernel, points: Sequence[CurvePoint]) -> TableRecord:
    drawn: dict[str, tuple[float | None, ...]] = {}
    for scheduler in dict.fromkeys(point.scheduler for point in points):
        of_scheduler = [point for point in points if point.scheduler == scheduler]
        drawn[f"{scheduler} (measured)"] = tuple(point.hardware for point in of_scheduler)
        drawn[f"{scheduler} (simulated)"] = tuple(point.lab for point in of_scheduler)
    return TableRecord(
        title=f"{machine}, a loop disk whose driver fails each read at once: reads per second",
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
        notes=(f"{error_text(points)} Linux {kernel.release}.",),
        curves=Curves(
            labels=tuple(dict.fromkeys(point.label for point in points)),
            values=drawn,
            dashed=tuple(name for name in drawn if name.endswith("(measured)")),
        ),
    )
