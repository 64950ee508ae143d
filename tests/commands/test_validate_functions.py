# SPDX-License-Identifier: GPL-2.0-or-later
"""The time of kernel functions beside perf's: what is compared, and how the error is stated."""

from __future__ import annotations

import pytest
from guests import FakeSession, Guests

from lab.base.errors import GuestError
from lab.commands import validate_curves, validate_functions
from lab.commands.validate_functions import FunctionTime
from lab.inputs import hardware_curve, profile
from lab.inputs.hardware_curve import HardwareCurve
from lab.inputs.terms import Engine
from lab.measure.cost import Cost

CURVE = HardwareCurve(
    title="a title",
    source="a source",
    topology="nullb_timer",
    workload="randread_uring",
    by="numjobs",
    engine="sim",
    metric="iops",
    cpus=10,
    values={"none": {"1": 100.0}, "bfq": {"1": 60.0, "2": 50.0}},
    functions={
        "bfq": {
            "bfq_insert_requests": {"1": 5.0, "2": 200.0, "4": 300.0},
            "put_io_context": {"2": 50.0},
            "is_inlined_here": {"2": 70.0},
            "is_seldom_called_here": {"2": 70.0},
        }
    },
)


def measured(session: FakeSession) -> list[FunctionTime]:
    compared = validate_curves.compare(CURVE, "xeon10", session)
    return validate_functions.compare(compared, session.store)


@pytest.fixture
def session(guests: Guests) -> FakeSession:
    functions = {"bfq_insert_requests.isra.0": 100.0, "put_io_context": 100.0}
    guests.cost_of = lambda kernel: Cost(10.0, {**functions, "is_seldom_called_here": 1.0})
    return FakeSession(profile.get("quick"), engines=(Engine.SIM,))


def test_functions_of_both_kernels_are_compared_where_a_point_was_measured(
    session: FakeSession,
) -> None:
    assert [(t.name, t.label, t.hardware, t.simulated) for t in measured(session)] == [
        ("bfq_insert_requests", "1", 5.0, 100.0),
        ("bfq_insert_requests", "2", 200.0, 100.0),
        ("put_io_context", "2", 50.0, 100.0),
    ]


def test_a_table_has_a_function_in_a_row_and_no_factor_of_a_few_ns(session: FakeSession) -> None:
    (shown,) = validate_functions.tables("xeon10", "numjobs", measured(session))
    assert shown.title.startswith("xeon10, bfq: ns of an I/O by function and numjobs")
    assert shown.rows == (
        ("bfq_insert_requests", "5 / 100", "200 / 100"),
        ("put_io_context", "", "50 / 100"),
    )
    assert shown.notes == (
        "2 times of 20 ns and more: mean factor 2.00, worst 2.00, with sign 1.00.",
    )


def test_a_guest_that_failed_has_no_functions(session: FakeSession, guests: Guests) -> None:
    guests.answers = {number: GuestError("panic", "BUG: x") for number in range(9)}
    assert measured(session) == []


def test_recorded_functions_belong_to_points_of_their_curve() -> None:
    for machine in hardware_curve.known():
        for curve in hardware_curve.get(machine):
            for scheduler, functions in curve.functions.items():
                for by_label in functions.values():
                    assert by_label.keys() <= curve.values[scheduler].keys()
