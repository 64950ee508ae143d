# SPDX-License-Identifier: GPL-2.0-or-later
"""A loop disk's reads: what is asked of a guest, and who may do them."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples import HOST, KERNEL

from lab.base.errors import LabError
from lab.base.progress import Progress
from lab.build.guest_root import GuestRoot
from lab.inputs import machine_model
from lab.measure import loop_disk, primitives
from lab.measure.job import Testbed
from lab.measure.primitives import Measured, Primitive, Repetition


def test_all_processes_together_ask_for_no_more_than_a_loop_disk_takes() -> None:
    assert loop_disk._DEPTH * 16 <= 128


def test_a_guest_reads_with_as_many_processes_as_the_machine_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def in_guest(*arguments: object) -> Measured:
        asked.append(arguments[3:5])
        return {Primitive("disk-bfq", 0, 4): [Repetition(2000.0)]}

    monkeypatch.setattr(primitives, "in_guest", in_guest)
    model = machine_model.get("emr16")
    testbed = Testbed(KERNEL, GuestRoot("guest"), HOST)
    simulated = loop_disk.simulated(testbed, KERNEL, model, (4, 16), Progress())
    assert asked == [(16, "disk none,mq-deadline,bfq,kyber 4,16 4 400 1")]
    assert simulated == {Primitive("disk-bfq", 0, 4): [Repetition(2000.0)]}


def test_who_may_not_make_a_loop_disk_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_disk, "_CONTROL", tmp_path / "loop-control")
    with pytest.raises(LabError, match="a loop disk cannot be made here"):
        loop_disk.natively((0, 1))
