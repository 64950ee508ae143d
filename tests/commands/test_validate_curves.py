# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs that were measured on real machines: what is booted for a point, and how errors are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from guests import FakeSession, Guests

from lab.base.errors import GuestError, UsageError
from lab.commands import validate_curves
from lab.commands.validate_curves import CurvePoint
from lab.inputs import hardware_curve, machine_model, profile, topology
from lab.inputs.hardware_curve import HardwareCurve
from lab.inputs.terms import Engine
from lab.report import tables

CURVE = HardwareCurve(
    title="a title",
    source="a source",
    config=("distro",),
    topology="nullb_timer",
    workload="randread_uring",
    parameters={"depth": 128},
    by="numjobs",
    engine="sim",
    metric="iops",
    cpus=10,
    values={"none": {"1": 100.0, "2": 200.0}, "bfq": {"2": 50.0}},
)


@pytest.fixture
def session(guests: Guests) -> FakeSession:
    """A session in which every point of the curve is booted."""
    guests.says = lambda job: {"iops": 110.0 if job.cell.scheduler == "none" else 40.0}
    return FakeSession(profile.get("quick"), engines=(Engine.SIM,))


def test_a_point_is_a_cell_on_the_machine_and_kernel_of_its_curve(
    session: FakeSession, guests: Guests
) -> None:
    comparison = validate_curves.compare(CURVE, "xeon10", session)
    cells = [job.cell for job in guests.booted]
    assert {(cell.machine, cell.cpus, cell.number("depth")) for cell in cells} == {
        ("xeon10", 10, 128)
    }
    assert {job.task.kernel.fragments[-1] for job in guests.booted} == {"distro"}
    errors = [round(point.error, 3) for point in comparison.points if point.error is not None]
    assert errors == [0.1, -0.45, -0.2]
    assert [point.scheduler for point in comparison.points] == ["none", "none", "bfq"]


def test_a_table_has_measured_and_simulated_and_both_are_drawn(session: FakeSession) -> None:
    shown = validate_curves.table("xeon10", validate_curves.compare(CURVE, "xeon10", session))
    assert shown.rows == (
        ("none", "1", "100.0", "110.0", "+10.0 %"),
        ("none", "2", "200.0", "110.0", "-45.0 %"),
        ("bfq", "2", "50.0", "40.0", "-20.0 %"),
    )
    assert "3 points: mean error 25.0 %, worst 45 %" in tables.text(shown)
    assert shown.curves
    assert shown.curves.dashed == ("none (measured)", "bfq (measured)")


def test_a_guest_that_failed_is_no_point(session: FakeSession, guests: Guests) -> None:
    guests.answers = {0: GuestError("panic", "BUG: x")}
    comparison = validate_curves.compare(CURVE, "xeon10", session)
    assert validate_curves.failures([comparison]) == 1
    points, why = validate_curves.table("xeon10", comparison).notes
    assert points.startswith("2 points")
    assert "BUG: x" in why


def test_signs_cancel_in_the_bias_alone() -> None:
    points = [CurvePoint("none", "1", 100.0, 200.0), CurvePoint("none", "2", 100.0, 50.0)]
    assert validate_curves.error_text(points) == (
        "2 points: mean error 75.0 %, worst 100 %, with sign +0.0 %."
    )


def test_shipped_curves_name_what_there_is() -> None:
    for machine in hardware_curve.known():
        machine_model.get(machine)
        for curve in hardware_curve.get(machine):
            assert topology.is_known(curve.topology)
            assert all(len(points) for points in curve.values.values())


@pytest.mark.parametrize(
    ("values", "error"),
    [("none = { x = 1.0 }", "x = 1.0 is no positive"), ("none = { 1 = 0.0 }", "no positive")],
)
def test_a_value_is_a_positive_number_of_a_number(
    values: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"""[[curve]]
title = "t"
source = "s"
topology = "nullb_mq"
workload = "randread_burst"
by = "numjobs"
engine = "sim"
metric = "iops"
cpus = 1
values.{values}
"""
    (tmp_path / "mine.toml").write_text(text)
    monkeypatch.setattr(hardware_curve, "FOLDER", tmp_path)
    with pytest.raises(UsageError, match=error):
        hardware_curve.get("mine")


def test_errors_by_machine_are_of_all_its_points_of_one_metric(session: FakeSession) -> None:
    compared = validate_curves.compare(CURVE, "xeon10", session)
    shown = validate_curves.by_machine([("xeon10", compared), ("xeon10", compared)])
    one = ("3", "25.0 %", "45 %", "-21.5 %")
    assert shown.rows == (("xeon10", "a title", *one), ("xeon10", "a title", *one))
    assert shown.totals == (("xeon10", "all iops", "6", *one[1:]),)
