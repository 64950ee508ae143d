# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines as they are posted, in real guests."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from real import QUICK, job

from lab.base.errors import GuestError
from lab.guest import retries
from lab.inputs import device_line, workload
from lab.inputs.terms import Engine
from lab.measure import command, cost, matrix, sampling
from lab.measure.job import Job, Testbed, resolve
from lab.measure.matrix import Selection
from lab.measure.sampling import Sample

POSTED = (
    "fio --bs=4k --ioengine=io_uring --iodepth=16 --iodepth_batch_submit=8 --numjobs=2 "
    "--rw=randread --direct=1 --name=io-uring --filename=/dev/nvme0n1 --runtime=30 --time_based "
    "--group_reporting"
)


def of(testbed: Testbed, line: str) -> Job:
    name = workload.of_line_or_file(line)
    return job(testbed, "nullb", "mq-deadline", name, Engine.EXACT)


def test_a_posted_line_has_a_cost_that_repeats_to_the_last_digit(
    testbed: Testbed, tmp_path: Path
) -> None:
    posted = of(testbed, POSTED)
    first, second = (sampling.measure(posted, tmp_path / run) for run in ("first", "second"))
    assert first.values == second.values
    assert first.values["ios"] == 41_000
    assert 2000 < first.values[cost.KERNEL] < 20_000


@pytest.mark.parametrize(
    ("line", "ios"),
    [
        ("--rw=write --bs=64k --verify=crc32c --size=4m --ioengine=libaio --iodepth=4", 128),
        ("--rw=randread --bs=4k --directory=/mnt --size=8m --numjobs=2", 41_000),
        ("--name=a --rw=read --bs=4k --name=b --stonewall --rw=randwrite --bs=8k", 41_000),
        ("--rw=randread --direct=1 --ioengine=io_uring --hipri --iodepth=4", 41_000),
    ],
)
def test_a_job_gets_the_disk_that_it_needs(
    testbed: Testbed, tmp_path: Path, line: str, ios: int
) -> None:
    sample = sampling.measure(of(testbed, line), tmp_path)
    assert sample.values[cost.KERNEL] > 500
    assert sample.values["ios"] <= ios


def test_a_job_uses_every_disk_that_it_names(testbed: Testbed, tmp_path: Path) -> None:
    line = "--rw=randread --name=a --filename=/dev/sda --name=b --filename=/dev/sdb --bs=16k"
    name = workload.of_line_or_file(line)
    two = job(testbed, "null_blk nr_devices=2", "mq-deadline", name, Engine.EXACT)
    assert "disk name nb1" in two.orders.steps
    first, second = (sampling.measure(two, tmp_path / run) for run in ("first", "second"))
    assert first.values == second.values
    assert "[mq-deadline]" in first.facts["queue/scheduler"]
    assert first.values[cost.KERNEL] > 2000


def test_an_nvme_disk_takes_commands_at_its_character_device(
    testbed: Testbed, tmp_path: Path
) -> None:
    line = "--rw=randread --bs=4k --ioengine=io_uring_cmd --cmd_type=nvme --hipri --iodepth=4"
    name = workload.of_line_or_file(line)
    nvme_job = job(testbed, "nvme_mq", "none", name, Engine.TCG, seconds=1, ramp_seconds=0)
    sample = retries.steadily(lambda: sampling.measure(nvme_job, tmp_path))
    assert sample.values["ios"] > 100
    assert sample.facts["hw_queues"] == "64"


def test_fio_s_own_words_reach_the_user(testbed: Testbed, tmp_path: Path) -> None:
    with pytest.raises(GuestError, match="status 1: fio: size too small, must not be less"):
        sampling.measure(of(testbed, "--rw=read --bs=64k --size=4k"), tmp_path)


def measured(testbed: Testbed, folder: Path, *queue: tuple[str, str]) -> Sample:
    selection = Selection(("nullb",), ("mq-deadline",), ("randread_burst",), queue=queue)
    (planned,) = matrix.cells(QUICK, selection, Engine.EXACT)
    return sampling.measure(resolve(planned.on(testbed.probe_kernel), testbed), folder)


def test_queue_attributes_are_what_the_user_set(testbed: Testbed, tmp_path: Path) -> None:
    queue = (("nr_requests", "64"), ("nomerges", "2"), ("iosched/fifo_batch", "4"))
    facts = measured(testbed, tmp_path, *queue).facts
    assert {name: facts[f"queue/{name}"] for name, _ in queue} == dict(queue)


def test_what_the_kernel_clamps_or_refuses_is_said(testbed: Testbed, tmp_path: Path) -> None:
    with pytest.raises(GuestError, match="nr_requests=1, of which the kernel made 4"):
        measured(testbed, tmp_path / "clamped", ("nr_requests", "1"))
    with pytest.raises(GuestError, match="queue/nr_requests of nb does not take 999999"):
        measured(testbed, tmp_path / "refused", ("nr_requests", "999999"))
    with pytest.raises(GuestError, match="nb has no attribute queue/iosched/low_latency"):
        measured(testbed, tmp_path / "unknown", ("iosched/low_latency", "0"))


def test_a_line_of_null_blk_is_a_disk_that_has_what_it_says(
    testbed: Testbed, tmp_path: Path
) -> None:
    device = device_line.read(("modprobe null_blk submit_queues=2 irqmode=0 bs=4096 gb=1",))
    sample = sampling.measure(
        job(testbed, device, "none", "randread_burst", Engine.EXACT), tmp_path
    )
    assert sample.facts["null_blk/blocksize"] == "4096"
    assert sample.facts["size_sectors"] == str((1 << 30) // 512)
    assert sample.values[cost.KERNEL] > 500


def test_the_kernel_s_own_words_say_why_it_takes_a_device_otherwise(
    testbed: Testbed, tmp_path: Path
) -> None:
    device = device_line.read(("null_blk discard=1",))
    with pytest.raises(GuestError, match=r"(?s)wanted 1, the guest has 0.*\n +null_blk: "):
        sampling.measure(job(testbed, device, "none", "randread_burst", Engine.EXACT), tmp_path)


def test_a_parameter_that_the_kernel_lacks_is_refused_before_a_boot(testbed: Testbed) -> None:
    device = device_line.read(("null_blk submit_queue=1",))
    refusal = job(testbed, device, "none", "randread_burst", Engine.EXACT).refusal
    assert "has no submit_queue; did you mean 'submit_queues'?" in refusal


def test_a_command_costs_what_one_more_of_its_amount_costs(
    testbed: Testbed, tmp_path: Path
) -> None:
    name, _ = workload.give_command("dd if=/dev/nullb0 of=/dev/null bs=4k count=$N iflag=direct")
    own = job(testbed, "nullb", "none", name, Engine.EXACT)
    first, second = (sampling.measure(own, tmp_path / run) for run in ("first", "second"))
    assert first.values == second.values
    assert first.values["requests"] == pytest.approx(1)
    assert 2000 < first.values[command.PER_REQUEST] < 20_000


@pytest.mark.parametrize("top", ["/tmp", "/run", "/srv"])
def test_files_of_the_user_s_are_in_the_guest_wherever_they_lie(
    testbed: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, top: str
) -> None:
    if not os.access(top, os.W_OK):
        pytest.skip(f"{top} cannot be written to")
    with tempfile.TemporaryDirectory(dir=top) as folder:
        monkeypatch.chdir(folder)
        script = Path("script")
        script.write_text("#!/bin/sh\necho seen by $0; exit 3\n")
        script.chmod(0o755)
        name, _ = workload.give_command("./script")
        with pytest.raises(GuestError, match=r"status 3: seen by \./script"):
            sampling.measure(job(testbed, "nullb", "none", name, Engine.EXACT), tmp_path)


def test_a_command_that_fails_says_what_it_wrote(testbed: Testbed, tmp_path: Path) -> None:
    name, _ = workload.give_command("echo first; echo last >&2; exit 3")
    with pytest.raises(GuestError, match="status 3: first\nlast"):
        sampling.measure(job(testbed, "nullb", "none", name, Engine.EXACT), tmp_path)


def test_a_command_that_does_not_end_is_ended(testbed: Testbed, tmp_path: Path) -> None:
    name, _ = workload.give_command("sleep 1000000")
    with pytest.raises(GuestError, match="did not end within 60 s"):
        sampling.measure(job(testbed, "nullb", "none", name, Engine.EXACT), tmp_path)


def test_a_loop_disk_lies_over_a_disk(testbed: Testbed, tmp_path: Path) -> None:
    device = device_line.read(("null_blk submit_queues=2", "loop"))
    sample = sampling.measure(
        job(testbed, device, "mq-deadline", "randread_burst", Engine.EXACT), tmp_path
    )
    assert (sample.facts["disk"], sample.facts["hw_queues"]) == ("loop0", "1")
    assert sample.values[cost.KERNEL] > 2000


def test_bfq_accounts_for_requests_of_a_group_of_cgroup_v1(
    testbed: Testbed, tmp_path: Path
) -> None:
    functions = []
    for topology in ("nullb_timer_v1", "nullb_timer"):
        folder = tmp_path / topology
        sampling.measure(job(testbed, topology, "bfq", "randread_burst", Engine.EXACT), folder)
        functions.append(cost.from_text((folder / "cost.tsv").read_text()).kernel)
    in_group, in_none = (spent.get("bfqg_stats_update_legacy_io", 0.0) for spent in functions)
    assert (in_group > 10, in_none) == (True, 0.0)
