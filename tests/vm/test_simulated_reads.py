# SPDX-License-Identifier: GPL-2.0-or-later
"""A loop disk's reads on simulated CPUs: the same in every run, and slowed by what slows them."""

from __future__ import annotations

from statistics import median

import pytest

from lab.base.progress import Progress
from lab.inputs import machine_model
from lab.measure import loop_disk
from lab.measure.job import Testbed
from lab.measure.primitives import Measured, Primitive

pytestmark = pytest.mark.vm


def simulate(testbed: Testbed) -> Measured:
    model = machine_model.get("emr16")
    return loop_disk.simulated(testbed, testbed.probe_kernel, model, (1, 4), Progress())


@pytest.fixture(scope="module")
def measured(testbed: Testbed) -> Measured:
    return simulate(testbed)


def ns(measured: Measured, name: str, processes: int) -> float:
    return median(each.ns for each in measured[Primitive(name, 0, processes)])


def test_it_is_the_same_to_the_last_digit(testbed: Testbed, measured: Measured) -> None:
    assert simulate(testbed) == measured


def test_processes_that_share_no_lock_scale_and_a_scheduler_stops_them(measured: Measured) -> None:
    assert ns(measured, "disk-none", 4) < 0.6 * ns(measured, "disk-none", 1)
    assert ns(measured, "disk-bfq", 4) > 1.5 * ns(measured, "disk-none", 4)
