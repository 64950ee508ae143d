# SPDX-License-Identifier: GPL-2.0-or-later
"""A loop disk's reads: how many processes are tried, what is asked of a guest, and who may."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples import HOST, KERNEL

from lab.base.errors import LabError
from lab.base.progress import Progress
from lab.build.guest_root import GuestRoot
from lab.build.kernel import Kernel
from lab.inputs import machine_model
from lab.inputs.machine_model import MachineModel
from lab.measure import loop_disk, primitives
from lab.measure.job import Testbed
from lab.measure.primitives import Measured, Primitive, Repetition


@pytest.mark.parametrize(
    ("kind", "cpus", "counts"),
    [
        ("failing", 16, (1, 2, 4, 8, 16)),
        ("memory", 16, (1, 2, 4, 8, 14)),
        ("failing", 2, (1, 2)),
        ("memory", 2, (1,)),
    ],
)
def test_the_thread_that_serves_a_disk_has_cpus_for_itself(
    kind: str, cpus: int, counts: tuple[int, ...]
) -> None:
    assert loop_disk.process_counts(kind, cpus) == counts


def test_all_processes_together_ask_for_no_more_than_a_loop_disk_takes() -> None:
    assert all(depth * 16 <= 128 for depth in loop_disk._DEPTHS.values())


def test_a_guest_reads_with_as_many_processes_as_the_machine_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def in_guest(
        testbed: Testbed,
        kernel: Kernel,
        model: MachineModel,
        cpus: int,
        words: str,
        progress: Progress,
    ) -> Measured:
        asked.append((cpus, words))
        return {Primitive("memory-bfq", 0, 4): [Repetition(2000.0)]}

    monkeypatch.setattr(primitives, "in_guest", in_guest)
    model = machine_model.get("emr16")
    wanted = {Primitive("memory-bfq", 0, count): [Repetition(1.0)] for count in (4, 14)}
    testbed = Testbed(KERNEL, GuestRoot("guest"), HOST)
    simulated = loop_disk.simulated(testbed, KERNEL, model, wanted, Progress())
    assert asked == [(16, "disk memory none,mq-deadline,bfq,kyber 4,14 8 400 1")]
    assert simulated == {Primitive("memory-bfq", 0, 4): [Repetition(2000.0)]}


def test_who_may_not_make_a_loop_disk_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_disk, "_CONTROL", tmp_path / "loop-control")
    with pytest.raises(LabError, match="a loop disk cannot be made here"):
        loop_disk.natively((0, 1))
