# SPDX-License-Identifier: GPL-2.0-or-later
"""What a kernel reads per second from a disk that takes no time: simulated beside measured."""

from __future__ import annotations

from statistics import median

from lab.commands import validate_curves
from lab.commands.validate_curves import CurvePoint
from lab.inputs.machine_model import MachineModel
from lab.measure import loop_disk
from lab.measure.primitives import Measured, Primitive
from lab.measure.session import Session
from lab.report.run_record import TableRecord

# People run such a kernel, and what reads cost depends on it (docs/validity.md).
_FRAGMENT = "distro"


def tables(
    machine: str, measured: Measured, model: MachineModel, session: Session
) -> list[TableRecord]:
    """A table, if such reads were measured. Raises GuestError when the guest fails."""
    of_disk = {key: values for key, values in measured.items() if loop_disk.is_disk(key.name)}
    if not of_disk:
        return []
    kernel = session.kernel("", (), (*session.fragments, _FRAGMENT))
    processes = sorted({key.threads for key in of_disk})
    simulated = loop_disk.simulated(session.testbed, kernel, model, processes, session.progress)
    points = [
        CurvePoint(key.name.partition("-")[2], str(key.threads), *_iops(key, of_disk, simulated))
        for key in of_disk
    ]
    title = f"{machine}, a loop disk whose driver fails each read at once: reads per second"
    note = f"Linux {kernel.release}."
    return [validate_curves.points_table(title, "processes", "simulated", points, note)]


def _iops(key: Primitive, *several: Measured) -> list[float]:
    return [1e9 / median(repetition.ns for repetition in measured[key]) for measured in several]
