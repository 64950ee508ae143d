# SPDX-License-Identifier: GPL-2.0-or-later
"""A job made fit for a guest: what stays, what changes, and what is told of that."""

from __future__ import annotations

import configparser

import pytest

from lab.base.errors import UsageError
from lab.inputs import fio_job, fio_needs, fio_sizes
from lab.inputs.fio_job import Fitted, Guest
from lab.inputs.fio_line import parse

GIB = 1 << 30


def fit(line: str, cpus: int = 2, jobs: int = 0) -> Fitted:
    """A line in a guest with a disk of 1 GiB."""
    job = parse(line)
    return fio_job.fitted(job, Guest(GIB, cpus), jobs or fio_needs.of(job).jobs)


def options(line: str, cpus: int = 2) -> dict[str, str]:
    """The options of the only section."""
    ((_, section),) = fit(line, cpus).sections
    return section


def test_what_is_measured_stays_and_time_and_output_go() -> None:
    section = options(
        "--rw=randread --bs=4k --ioengine=io_uring --iodepth=128 --fixedbufs --nonvectored=1 "
        "--runtime=30 --time_based --ramp_time=5 --loops=9 --group_reporting --write_bw_log=x "
        "--prio=3 --numjobs=4"
    )
    kept = {"rw": "randread", "bs": "4k", "ioengine": "io_uring", "iodepth": "128"}
    kept |= {"fixedbufs": "", "nonvectored": "1", "prio": "3", "numjobs": "4"}
    assert section == {"filename": "${DISK}", **kept, "norandommap": "1", "io_size": "1t"}


def test_options_of_one_fate_are_told_together() -> None:
    job = fit("--rw=read --runtime=3 --time_based --filename=/dev/sda --ioscheduler=bfq")
    assert job.changes == (
        "runtime, time_based dropped: the amount of I/O is the lab's",
        "ioscheduler dropped: the cell has one",
        "filename=/dev/sda is the disk",
    )


def test_fixed_work_makes_marks_and_timed_work_has_seconds() -> None:
    job = fit("--rw=read --name=a")
    parsed = configparser.ConfigParser(interpolation=None, allow_no_value=True)
    parsed.read_string(job.text(fio_job.fixed(62)))
    shared = dict(parsed["global"])
    assert shared == {
        **dict.fromkeys(("group_reporting", "randrepeat", "thread"), "1"),
        "number_ios": "62",
        "exec_prerun": "hostname lab",
        "exec_postrun": "hostname lab",
    }
    assert "runtime=3\n" in job.text(fio_job.timed(3, 0.5))


@pytest.mark.parametrize(
    ("line", "sizes"),
    [
        ("--size=50m --numjobs=40", {"size": "50m"}),
        ("--size=128G", {"size": "1g"}),
        ("--size=50%", {"size": "50%"}),
        ("--offset=1t --size=1t", {"offset": "512m", "size": "512m"}),
        (
            "--offset_increment=1g --size=1g --numjobs=4",
            {"offset_increment": "256m", "size": "256m"},
        ),
        ("--zonemode=strided --size=8g --zonesize=1m --zoneskip=7m", {"zonesize": "128k"}),
        ("--size=64g --bs=32m", {"size": "1g"}),
    ],
)
def test_sizes_are_scaled_to_the_disk_alike(line: str, sizes: dict[str, str]) -> None:
    section = options(f"--rw=randread {line}")
    assert {name: section[name] for name in sizes} == sizes


@pytest.mark.parametrize(
    ("allowed", "cpus", "mapped"),
    [("0-40", 1, "0"), ("44", 4, "0"), ("1,3,6-9", 4, "0-3"), ("2", 4, "2"), ("5:6", 4, "1-2")],
)
def test_cpus_of_the_host_are_those_of_the_guest(allowed: str, cpus: int, mapped: str) -> None:
    assert options(f"--rw=read --cpus_allowed={allowed}", cpus)["cpus_allowed"] == mapped


def test_a_mask_of_cpus_is_a_list_and_a_polling_thread_has_a_cpu() -> None:
    section = options("--rw=read --ioengine=io_uring --cpumask=0x6 --sqthread_poll_cpu=7", 4)
    assert (section["cpus_allowed"], section["sqthread_poll_cpu"]) == ("1-2", "3")
    assert "cpumask" not in section


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("--directory=/mnt/a:/mnt/b --size=1m", {"directory": "mnt"}),
        ("--filename=/srv/x y.dat --size=1m", {"directory": "mnt", "filename": "x_y.dat"}),
        ("--filename=a:b --directory=/mnt --size=1m", {"directory": "mnt", "filename": "a:b"}),
        ("--filename=/dev/sda:/dev/sdb", {"filename": "${DISK}"}),
        ("--filename=/dev/disk/by-path/a\\:0 b", {"filename": "${DISK}"}),
        ("--filename=$DEV", {"filename": "${DISK}"}),
        ("--ioengine=io_uring_cmd --filename=/dev/ng0n1", {"filename": "/dev/ng0n1"}),
        ("", {"filename": "${DISK}"}),
    ],
)
def test_i_o_goes_to_the_guests_disk_or_to_files_on_it(line: str, where: dict[str, str]) -> None:
    quoted = " ".join(f"'{word}'" for word in line.split(" --") if word).replace("' ", "' --")
    section = options(f"--rw=read {quoted}")
    assert {k: v for k, v in section.items() if k in ("directory", "filename")} == where


@pytest.mark.parametrize(
    ("line", "option", "size"),
    [
        ("--directory=/mnt --size=10g --numjobs=4", "size", "157184k"),  # a fourth of 614 MiB
        ("--filename=/mnt/x --size=10g --numjobs=4", "size", "614m"),
        ("--directory=/mnt --size=1m --numjobs=4", "size", "1m"),
        ("--directory=/mnt --filesize=1g --nrfiles=2", "filesize", "307m"),
    ],
)
def test_files_fit_the_file_system_together(line: str, option: str, size: str) -> None:
    assert options(f"--rw=write {line}")[option] == size


def test_one_section_takes_another_number_of_jobs_and_several_do_not() -> None:
    assert dict(fit("--rw=read", jobs=7).sections)["job"]["numjobs"] == "7"
    with pytest.raises(UsageError, match="numjobs=7 for 2 sections"):
        fit("--name=a --rw=read --name=b --rw=read", jobs=7)


def test_an_option_that_only_another_sections_engine_has_stays_with_that() -> None:
    text = (
        "[global]\nhipri\ndirect=1\nioengine=io_uring\n[a]\nrw=read\n[b]\nrw=read\nioengine=psync\n"
    )
    first, second = (section for _, section in fit(text).sections)
    assert "hipri" in first
    assert "hipri" not in second


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--rw=read --bs=2g", "larger than the disk of 1g"),
        ("--rw=read --bs=512m --numjobs=9 --offset_increment=1g", "no space for the 9 parts"),
        ("--rw=read --cpus_allowed=all", "no list of CPUs"),
        ("--rw=read --bs=64 --direct=1", "direct I/O is in sectors of 512 bytes"),
        ("--ioengine=cpuio --cpuload=50", "does no I/O to a disk"),
        ("--rw=randrw --verify=md5", "fixed for writes alone"),
        ("--rw=read --filename=-", "standard input"),
        ("--rw=write --directory=/mnt --zonemode=zbd", "XFS have no zones"),
        ("--rw=read --ioengine=io_uring --hipri=1", "what is polled is direct I/O"),
        ("--rw=read --create_only=1 --size=1m", "does no I/O that has a cost"),
        ("--rw=read --ioengine=libaio --iodepth=1024 --bs=1m --numjobs=64", "buffers take 64 GiB"),
        ("--name=a --filename=/dev/sda --name=b --directory=/mnt", "a guest has one disk"),
        (
            "--rw=write --directory=/mnt --filesize=4k --nrfiles=1000 --numjobs=1000",
            "have no space on the disk of 1g",
        ),
    ],
)
def test_what_no_guest_can_run_is_refused_with_the_reason(line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fit(line)


@pytest.mark.parametrize(
    ("line", "each"),
    [
        ("--rw=randread --ioengine=libaio --iodepth=32", (1000, 41_000)),
        ("--rw=randread --numjobs=16", (62, 2562)),
        ("--rw=randread --ioengine=libaio --iodepth=128 --numjobs=8", (256, 5256)),
        ("--rw=randread --ioengine=psync --iodepth=128 --numjobs=8", (125, 5125)),
        ("--rw=read --bs=32m", (128, 256)),
        ("--rw=randread --ioengine=libaio --iodepth=2048 --numjobs=32", (2048, 4096)),
        ("--rw=randwrite --verify=md5 --size=1m --bs=4k", (128, 256)),
    ],
)
def test_the_two_amounts_of_work_fill_queues_and_end(line: str, each: tuple[int, int]) -> None:
    needs = fio_needs.of(parse(line))
    assert tuple(ios // needs.jobs for ios in needs.ios) == each


def test_jobs_that_verify_read_everything_again() -> None:
    job = parse("--name=a --rw=write --verify=crc32c --numjobs=3 --name=b --rw=read --verify=0")
    assert fio_needs.of(job).twofold == 3
    assert fio_needs.of(job).keeps


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4k", 4096),
        ("1M", 1 << 20),
        ("2GiB", 2 << 30),
        ("0x10", 16),
        ("010", 10),
        ("7", 7),
        ("50%", None),
        ("4z", None),
    ],
)
def test_sizes_are_read_as_fio_writes_them(text: str, size: int | None) -> None:
    assert fio_sizes.of(text) == size


@pytest.mark.parametrize(("size", "text"), [(4096, "4k"), (1 << 30, "1g"), (512, "512"), (0, "0")])
def test_sizes_are_shown_with_the_largest_unit(size: int, text: str) -> None:
    assert fio_sizes.shown(size) == text


@pytest.mark.parametrize(
    ("written", "block_sizes"),
    [
        ("--bs=4k,8k", (4096, 8192)),
        ("--bsrange=1k-64k", (1024, 65536)),
        ("--bssplit=4k/50:64k/50", (4096, 65536)),
        ("", (4096, 4096)),
    ],
)
def test_the_smallest_and_the_largest_block_are_found(
    written: str, block_sizes: tuple[int, int]
) -> None:
    ((_, section),) = parse(f"--rw=read {written}").jobs()
    assert fio_sizes.blocks(section) == block_sizes


TWO = "--rw=read --name=a --filename=/dev/sda --name=b --filename=/dev/sdb:/dev/sdc"


def test_each_disk_that_a_line_names_is_one_of_the_guests_in_turn() -> None:
    job = parse(TWO)
    three = fio_job.fitted(job, Guest(GIB, 2, disks=3), 2)
    names = [section["filename"] for _, section in three.sections]
    assert names == ["${DISK}", "${DISK}1:${DISK}2"]
    assert three.changes == (
        "filename=/dev/sda is disk 1",
        "filename=/dev/sdb:/dev/sdc are disks 2 and 3",
    )
    assert three.disks == 3
    two = fio_job.fitted(job, Guest(GIB, 2, disks=2), 2)
    assert [options["filename"] for _, options in two.sections] == ["${DISK}", "${DISK}1:${DISK}"]
    assert two.disks == 2


def test_all_disks_of_a_line_are_the_one_that_the_guest_has() -> None:
    one = fit(TWO)
    assert {options["filename"] for _, options in one.sections} == {"${DISK}"}
    assert one.disks == 1
