# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's own disks take the time of real ones, and keep what is written to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from real import QUICK, job

from lab.inputs.terms import Engine
from lab.measure import sampling
from lab.measure.job import Testbed, resolve
from lab.measure.session import Session

# A mean seek and half a revolution, in ms; MiB/s. Both as data sheets of 7,200-rpm disks have them.
MEAN_ACCESS_MS = 8.5 + 60_000 / 7200 / 2
MEDIUM_MIB = 120.0


@pytest.fixture(scope="module")
def disk(testbed: Testbed) -> Testbed:
    """The testbed with a kernel that has the drivers."""
    kernel = Session(QUICK).kernel("", (), (*QUICK.kernel, "armdisk", "flashdisk"))
    return replace(testbed, probe_kernel=kernel)


def reads(disk: Testbed, folder: Path, scheduler: str = "none", **parameters: int | str) -> float:
    """IOPS of a process that reads the whole disk."""
    return iops(disk, folder, "disk7200", scheduler, **parameters)


def iops(
    disk: Testbed, folder: Path, topology: str, scheduler: str = "none", **parameters: int | str
) -> float:
    """IOPS of a process on a disk, by the guest's clock."""
    wanted = job(disk, topology, scheduler, "disk_reads", Engine.EXACT, **parameters)
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


def test_a_card_works_on_one_write_after_another(disk: Testbed, tmp_path: Path) -> None:
    measured = iops(disk, tmp_path, "raid64_disk_v1", pattern="randwrite", depth=32)
    assert measured == pytest.approx(1e6 / 187, rel=0.1)


def test_another_seed_is_another_series_of_times_of_the_card(disk: Testbed, tmp_path: Path) -> None:
    """With the same times of the card the IOPS of two seeds would be less than 0.1 % apart."""
    wanted = job(
        disk, "raid64_disk_v1", "none", "disk_reads", Engine.EXACT, pattern="randwrite", depth=1
    )
    one, other = (
        sampling.measure(resolve(wanted.task.seeded(seed), disk), tmp_path / f"{seed}").values
        for seed in (1, 2)
    )
    assert one["iops"] != pytest.approx(other["iops"], rel=0.001)
    assert one["iops"] == pytest.approx(other["iops"], rel=0.2)


# A slow disk, beside which the time of the CPU does not count: a page of 16 KiB in 2 ms, read or
# programmed, 8 ms over the channel, 4 ms over the link.
FLASH = (
    "flashdisk page_kb=16 read_ns=2000000 program_ns=2000000 channel_mb=2 link_mb=4 command_ns=0"
    " read_overhead_ns=0 write_overhead_ns=0 cache_mb=1"
)
PAGE_S = 0.002 + 16384 / 2e6 + 16384 / 4e6


def test_a_page_of_flash_goes_from_the_die_over_channel_and_link(
    disk: Testbed, tmp_path: Path
) -> None:
    measured = iops(disk, tmp_path, f"{FLASH} channels=1 dies=1", block_kib=16)
    assert measured == pytest.approx(1 / PAGE_S, rel=0.02)


def test_consecutive_pages_are_read_from_several_channels_at_once(
    disk: Testbed, tmp_path: Path
) -> None:
    parallel, serial = (
        iops(disk, tmp_path / name, f"{FLASH} {name}", pattern="read", block_kib=64)
        for name in ("channels=4 dies=1", "channels=1 dies=4")
    )
    # All come over one link, at the end of which the last one is done.
    assert parallel == pytest.approx(1 / (PAGE_S + 3 * 16384 / 4e6), rel=0.02)
    assert serial == pytest.approx(1 / (PAGE_S + 3 * 16384 / 2e6), rel=0.02)


def test_what_is_written_comes_to_the_dies_at_their_rate(disk: Testbed, tmp_path: Path) -> None:
    slow = f"{FLASH} channels=1 dies=1".replace("program_ns=2000000", "program_ns=40000000")
    measured = iops(disk, tmp_path, slow, pattern="write", block_kib=16)
    # The next page comes over the channel meanwhile.
    assert measured == pytest.approx(1 / 0.04, rel=0.02)


def test_flash_keeps_what_is_written(disk: Testbed, tmp_path: Path) -> None:
    wanted = job(disk, "flashdisk", "none", "verify_crc", Engine.EXACT, mib=1)
    assert sampling.measure(wanted, tmp_path).values["ios"] > 100
