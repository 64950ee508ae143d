# SPDX-License-Identifier: GPL-2.0-or-later
"""Simulated beside measured: what is compared, what counts, and how far off it is."""

from __future__ import annotations

import pytest
from examples import HOST, KERNEL

from lab.base.progress import Progress
from lab.build.guest_root import GuestRoot
from lab.commands import validate
from lab.commands.calibrate import FAILED, USED
from lab.commands.validate import Point
from lab.inputs import machine_model
from lab.measure import primitives
from lab.measure.job import Testbed
from lab.measure.primitives import Measured, Primitive, Repetition
from lab.report import tables

LOCK = Primitive("qspin-50-50", 0, 4)
CHAIN = Primitive("modified-chain", 1, 2)


def point(factor: float, primitive: Primitive = LOCK, *, used: bool = False) -> Point:
    return Point(primitive, 100.0, 100.0 * factor, used)


def test_twice_too_much_is_as_far_off_as_half() -> None:
    error = validate.error([point(2.0), point(0.5)])
    assert (error.points, error.mean, error.bias, error.worst) == pytest.approx((2, 2.0, 1.0, 2.0))


def test_what_a_model_is_made_of_does_not_count_for_it() -> None:
    model = machine_model.get("emr16")
    table = validate.summary("emr16", model, [point(1.1), point(9.0, used=True)])
    assert table.totals == (("all", "1", "1.10", "1.10", "1.10"),)
    assert "1 rows that the model is made of" in tables.text(table).replace("\n", " ")


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Measured:
    """What a simulation gives, to be filled in."""
    measurements: Measured = {}
    monkeypatch.setattr(primitives, "simulated", lambda *_: measurements)
    return measurements


def compared(hardware: Measured) -> list[Point]:
    testbed = Testbed(KERNEL, GuestRoot("guest"), HOST)
    return validate.points(hardware, machine_model.get("emr16"), testbed, Progress())


def test_a_transfer_is_what_its_lines_take_beyond_none(simulated: Measured) -> None:
    empty = CHAIN._replace(lines=0)
    simulated |= {empty: [Repetition(10.0)], CHAIN: [Repetition(110.0)]}
    (transfer,) = compared({empty: [Repetition(30.0)], CHAIN: [Repetition(110.0)]})
    assert (transfer.hardware, transfer.simulated, transfer.used) == (80.0, 100.0, False)


def test_what_the_clock_cannot_tell_is_left_out(simulated: Measured) -> None:
    store = Primitive("read-stores", 1, 2)
    simulated |= {store: [Repetition(12.0)], store._replace(lines=0): [Repetition(10.0)]}
    assert not compared({store: [Repetition(12.9)], store._replace(lines=0): [Repetition(10.0)]})


def test_a_disturbed_repetition_is_left_out(simulated: Measured) -> None:
    two = LOCK._replace(threads=2)
    simulated[two] = [Repetition(200.0)]
    hardware = [*[Repetition(200.0, 60, 60)] * 3, *[Repetition(900.0, 60, 160)] * 4]
    assert compared({two: hardware})[0].hardware == 200.0


def test_every_machine_that_was_measured_has_a_model_and_all_that_one_is_made_of() -> None:
    for name in validate.recorded_machines():
        measured = validate.hardware(name).keys()
        assert machine_model.get(name).memory
        assert measured - USED
        # What others published is less than what lab calibrate needs.
        assert measured >= USED - {FAILED} or name in {"icelake4", "skylake4"}
