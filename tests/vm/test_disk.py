# SPDX-License-Identifier: GPL-2.0-or-later
"""The disk with an arm takes the time of a real one, and keeps what is written to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from lab.build.kernel import Kernel
from lab.inputs import profile
from lab.inputs.terms import Engine
from lab.measure import matrix, sampling
from lab.measure.job import Testbed, resolve
from lab.measure.matrix import Selection
from lab.measure.session import Session

QUICK = profile.get("quick")
# A mean seek and half a revolution, in ms; MiB/s. Both as data sheets of 7,200-rpm disks have them.
MEAN_ACCESS_MS = 8.5 + 60_000 / 7200 / 2
MEDIUM_MIB = 120.0


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return Session(QUICK).kernel("", (), (*QUICK.kernel, "armdisk"))


def values(
    testbed: Testbed,
    kernel: Kernel,
    folder: Path,
    work: str = "disk_reads",
    machine: str = "disk7200",
    scheduler: str = "none",
    engine: Engine = Engine.ICOUNT,
    **parameters: int | str,
) -> Mapping[str, float]:
    settings = tuple((name, (value,)) for name, value in parameters.items())
    block = profile.Block(topologies=(machine,), schedulers=(scheduler,), workloads=(work,))
    own = QUICK.model_copy(update={"matrix": (block,)})
    selection = Selection((machine,), (scheduler,), (work,), settings)
    (found,) = matrix.cells(own, selection, engine)
    return sampling.measure(resolve(found.on(kernel), testbed), folder).values


def test_reads_at_random_take_a_seek_and_half_a_revolution(
    testbed: Testbed, kernel: Kernel, tmp_path: Path
) -> None:
    found = values(testbed, kernel, tmp_path)
    assert found["iops"] == pytest.approx(1000 / MEAN_ACCESS_MS, rel=0.05)


def test_reads_in_order_come_as_fast_as_sectors_pass(
    testbed: Testbed, kernel: Kernel, tmp_path: Path
) -> None:
    found = values(testbed, kernel, tmp_path, pattern="read", block_kib=128)
    assert found["iops"] * 128 / 1024 == pytest.approx(MEDIUM_MIB, rel=0.05)


def test_a_scheduler_beats_none_where_it_has_requests_to_sort(
    testbed: Testbed, kernel: Kernel, tmp_path: Path
) -> None:
    none, sorted_ = (
        values(testbed, kernel, tmp_path / name, scheduler=name, depth=128)["iops"]
        for name in ("none", "mq-deadline")
    )
    assert sorted_ > 1.5 * none


def test_it_keeps_what_is_written(testbed: Testbed, kernel: Kernel, tmp_path: Path) -> None:
    found = values(testbed, kernel, tmp_path, "verify_crc", "raid64_disk", "bfq", Engine.TCG, mib=1)
    assert found["ios"] > 100
