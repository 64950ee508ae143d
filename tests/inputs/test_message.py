# SPDX-License-Identifier: GPL-2.0-or-later
"""What is read in a commit message: figures with their levels, jobs, disks; and what is none."""

from __future__ import annotations

import pytest

from lab.inputs import message


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("mq-deadline: 263K -> 475K IOPS", (263e3, 475e3, "IOPS")),
        ("bfq  from 124k IOPS to 292k IOPS", (124e3, 292e3, "IOPS")),
        ("peak 7.65MIOPS -> 7.75MIOPS", (7.65e6, 7.75e6, "IOPS")),
        ("from 1.09M to 1.13M.", (1.09e6, 1.13e6, "IOPS")),
        ("fsync drops: 362 MiB/s => 660 MiB/s", (362, 660, "MiB/s")),
        ("latency 1.82us -> 4.74us", (1.82, 4.74, "us")),
        ("switches 7,905,181 -> 2,008 switches", (7905181, 2008, "switches")),
    ],
)
def test_two_levels_are_a_figure(line: str, expected: tuple[float, float, str]) -> None:
    (figure,) = message.read(line).figures
    assert (figure.before, figure.after, figure.unit) == expected
    assert (figure.line, figure.change) == (line, None)


@pytest.mark.parametrize(
    ("line", "change"),
    [
        ("There is about 3.6% improvement in IOPS of fio on null_blk", 0.036),
        ("this makes 2.9% fewer instructions and a 40 % regression.", -0.029),
        ("aiol -49.6 %", -0.496),
        ("LKP saw a +12% change", 0.12),
        ("Random reads do 3 % more IOPS.", 0.03),
    ],
)
def test_a_percentage_of_more_or_less_is_a_figure(line: str, change: float) -> None:
    (figure,) = message.read(line).figures
    assert figure.change == pytest.approx(change)
    assert figure.before is figure.after is None


@pytest.mark.parametrize(
    "line",
    [
        "v5.12 introduced 3 patches, 2 to 5 lines.",
        "the card has 64 queues, of which 20 % are mapped",
        'Fixes: 636b927eba5b ("workqueue: make it")',
        "from 0 to 12 IOPS",
        "a loss of 100 %",
        "",
    ],
)
def test_other_numbers_are_no_figure(line: str) -> None:
    assert message.read(line).figures == ()


def test_rows_of_a_table_have_the_first_two_levels() -> None:
    text = (
        "| clients | before | patched | |\n|---|---|---|\n"
        "| clients1 | 39.12 ms | 36.09 ms (+7.74%) |\n"
        "| clients2 | 128.58 ms | 96.14 ms |\n"
        "The 2 tables above are from 3 machines of one rack in the cellar\n"
        "clients4 577.42 508.49\n"
    )
    assert [(f.before, f.after, f.unit) for f in message.read(text).figures] == [
        (39.12, 36.09, "ms"),
        (128.58, 96.14, "ms"),
    ]


def test_jobs_and_disks_are_read_as_a_shell_would() -> None:
    text = (
        "    # modprobe null_blk  nr_devices=1 submit_queues=128\n"
        "    $ sudo fio --name=x --bs=4k \\\n        --rw=randread\n"
        "    fio --name=y\n      --rw=write\n"
        "    [root@host fio]# t/io_uring -p0 /dev/nullb0\n"
        "    modprobe scsi_debug.ko delay=0\n"
        "echo bfq > /sys/block/nullb0/queue/scheduler\n"
        "fio is a tool\n"
    )
    read = message.read(text)
    assert read.jobs == (
        *("fio --name=x --bs=4k --rw=randread", "fio --name=y --rw=write"),
        "t/io_uring -p0 /dev/nullb0",
    )
    assert read.devices == ("null_blk nr_devices=1 submit_queues=128", "scsi_debug delay=0")
    assert read.schedulers == ("bfq",)


def test_a_message_without_end_is_cut_off() -> None:
    assert len(message.read("1k -> 2k IOPS\n3k -> 4k IOPS\n" * 100_000).figures) == 2
    assert message.read("1 " * 1_000_000).figures == ()
    assert message.read("\\\n" * 10_000).figures == ()
    # Joined as they are they would be copied once for each line: 25 GB.
    assert message.read(f"{'x' * 2_000}\\\n" * 5_000).figures == ()


def test_a_job_file_in_a_message_is_a_job() -> None:
    text = """CMD:
[global]
ioengine=io_uring
rw=randread
direct

[job1]
filename=/dev/nvme0n1
------
Perf: IOPS 100K -> 110K
"""
    read = message.read(text)
    (job,) = read.jobs
    assert job.splitlines()[0] == "[global]"
    assert job.splitlines()[-1] == "filename=/dev/nvme0n1"
    assert [(figure.before, figure.after) for figure in read.figures] == [(100e3, 110e3)]


@pytest.mark.parametrize(
    "text",
    ["[1] https://example.org\n", "[tested]\n", "[1]\nfoo=bar\n", "rw=read\n", "[a b]\nrw=read\n"],
)
def test_what_only_looks_like_a_job_file_is_none(text: str) -> None:
    assert message.read(text).jobs == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("base code: f() 1.47%\npatch: f() 0.75%", [(1.47, 0.75, "%")]),
        ("before: 100 MiB/s\nafter: 200 MiB/s", [(100, 200, "MiB/s")]),
        ("before: 100 MiB/s\nafter: 200 us", []),
        ("before: 100 MiB/s 3 us\nafter: 200 MiB/s", []),
        ("patch: 100 MiB/s\nbase: 200 MiB/s", []),
    ],
)
def test_two_lines_for_before_and_after_are_a_figure(
    text: str, expected: list[tuple[float, float, str]]
) -> None:
    figures = message.read(text).figures
    assert [(figure.before, figure.after, figure.unit) for figure in figures] == expected


def test_a_shells_number_of_cpus_is_filled_in() -> None:
    text = "modprobe scsi_debug submit_queues=$(nproc)\nfio --rw=read --numjobs=`nproc`\n"
    read = message.read(text)
    assert read.devices == ("scsi_debug submit_queues=16",)
    assert read.jobs == ("fio --rw=read --numjobs=16",)
