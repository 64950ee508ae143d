# SPDX-License-Identifier: GPL-2.0-or-later
"""The disk with an arm takes the time of a real one, and keeps what is written to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from real import QUICK, job

from lab.inputs.terms import Engine
from lab.measure import sampling
from lab.measure.job import Testbed
from lab.measure.session import Session

# A mean seek and half a revolution, in ms; MiB/s. Both as data sheets of 7,200-rpm disks have them.
MEAN_ACCESS_MS = 8.5 + 60_000 / 7200 / 2
MEDIUM_MIB = 120.0


@pytest.fixture(scope="module")
def disk(testbed: Testbed) -> Testbed:
    """The testbed with a kernel that has the driver."""
    kernel = Session(QUICK).kernel("", (), (*QUICK.kernel, "armdisk"))
    return replace(testbed, probe_kernel=kernel)


def reads(disk: Testbed, folder: Path, scheduler: str = "none", **parameters: int | str) -> float:
    """IOPS of a process that reads the whole disk."""
    wanted = job(disk, "disk7200", scheduler, "disk_reads", Engine.EXACT, **parameters)
    return sampling.measure(wanted, folder).values["iops"]


def test_reads_at_random_take_a_seek_and_half_a_revolution(disk: Testbed, tmp_path: Path) -> None:
    assert reads(disk, tmp_path) == pytest.approx(1000 / MEAN_ACCESS_MS, rel=0.05)


def test_reads_in_order_come_as_fast_as_sectors_pass(disk: Testbed, tmp_path: Path) -> None:
    iops = reads(disk, tmp_path, pattern="read", block_kib=128)
    assert iops * 128 / 1024 == pytest.approx(MEDIUM_MIB, rel=0.05)


def test_a_scheduler_beats_none_where_it_has_requests_to_sort(
    disk: Testbed, tmp_path: Path
) -> None:
    none, sorted_ = (
        reads(disk, tmp_path / name, name, depth=128) for name in ("none", "mq-deadline")
    )
    assert sorted_ > 1.5 * none


def test_it_keeps_what_is_written(disk: Testbed, tmp_path: Path) -> None:
    wanted = job(disk, "raid64_disk", "bfq", "verify_crc", Engine.TCG, mib=1)
    assert sampling.measure(wanted, tmp_path).values["ios"] > 100
