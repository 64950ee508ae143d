# SPDX-License-Identifier: GPL-2.0-or-later
"""Cells of fio lines: the hardware that they need, their job files, and what is told of them."""

from __future__ import annotations

import configparser
import re
from dataclasses import replace
from pathlib import Path

import guests as fakes
import pytest
from guests import cell

from lab.base.errors import UsageError
from lab.inputs import topology, workload
from lab.inputs.terms import Engine
from lab.measure import fio_cell
from lab.measure.cell import Cell, Task, resolved
from lab.measure.cell_orders import changes, ordered_ios
from lab.measure.job import Job, hardware, resolve

pytestmark = pytest.mark.usefixtures("fio_agrees")

POLLER = "--rw=read --ioengine=io_uring --direct=1 --hipri"
READER = "--rw=randread --bs=4k --ioengine=libaio --iodepth=32 --numjobs=4 --runtime=9"


def of(line: str, disk: str = "nullb_mq", engine: Engine = Engine.EXACT, cpus: int = 1) -> Cell:
    """The cell of a line that a user gives."""
    return cell(disk, work=workload.of_line_or_file(line), engine=engine, cpus=cpus)


def job(of: Cell) -> Job:
    built = fakes.kernel("kernel-id", "code")
    return resolve(Task(cell=of, kernel=built), fakes.checked_testbed(built, root=fakes.ROOT))


def files(of: Cell) -> dict[str, configparser.ConfigParser]:
    """The job files of a cell, read back."""
    parsed = {}
    for name, text in job(of).orders.files.items():
        parsed[name] = configparser.ConfigParser(interpolation=None, allow_no_value=True)
        parsed[name].read_string(text)
    return parsed


def test_the_exact_engine_gets_two_amounts_of_the_same_work() -> None:
    line_cell = of(READER)
    few, many = (files(line_cell)[f"{name}.fio"] for name in ("few", "many"))
    assert (few["global"].pop("number_ios"), many["global"].pop("number_ios")) == ("250", "10250")
    assert few == many
    assert few["job"]["numjobs"] == "4"
    assert ordered_ios(line_cell, workload.get(line_cell.workload)) == {"few": 1000, "many": 41000}


def test_an_engine_that_takes_time_gets_seconds() -> None:
    shared = files(of(READER, engine=Engine.TCG))["fio.fio"]["global"]
    assert (shared["runtime"], shared["ramp_time"], shared["time_based"]) == ("30", "2", "1")
    assert "exec_prerun" not in shared


def test_what_was_changed_is_one_line() -> None:
    line = changes(of(READER))
    assert "\n" not in line
    assert "runtime dropped: the amount of I/O is the lab's" in line
    assert "each of 4 jobs does 250 and 10,250 I/Os" in line
    assert changes(cell()) == ""
    assert "I/Os" not in changes(of(READER, engine=Engine.SIM))


@pytest.mark.parametrize(
    ("line", "attributes", "message"),
    [
        ("--rw=write --verify=md5", {"memory_backed": 1}, "null_blk is memory-backed"),
        ("--rw=write --directory=/mnt --size=1m", {"memory_backed": 1}, "is on XFS on the disk"),
        (POLLER, {"poll_queues": 1}, "hipri has a poll queue"),
        ("--rw=randtrim", {"discard": 1}, "no filename is the disk"),
    ],
)
def test_null_blk_is_made_as_the_job_needs_it(
    line: str, attributes: dict[str, int], message: str
) -> None:
    line_cell, usual = of(line), topology.get("nullb_mq")
    disk = hardware(line_cell)
    assert disk.null_blk == {**(usual.null_blk or {}), **attributes}
    assert disk.hw_queues == usual.hw_queues
    assert disk.disk_in_memory == disk.holds_data == ("memory_backed" in attributes)
    assert message in changes(line_cell)
    assert ("hipri" in changes(line_cell)) == ("--hipri" in line)


def test_a_device_line_has_a_poll_queue_for_hipri_alone() -> None:
    disk = "null_blk submit_queues=2 irqmode=0"
    assert "hipri" not in changes(of("--rw=read --directory=/mnt --size=1m", disk))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--direct=1 --rate=4m", "rate of job job"),
        ("--direct=1 --thinktime=1ms", "thinktime of job job"),
        ("--size=2M", "buffered writes of job job"),
    ],
)
def test_the_simulation_refuses_a_job_that_keeps_no_disk_busy(more: str, message: str) -> None:
    line = f"--rw=write {more}"
    fio_cell.require_possible(of(line))
    with pytest.raises(UsageError, match=message) as caught:
        fio_cell.require_possible(of(line, engine=Engine.SIM))
    assert "exact" in (caught.value.hint or "")


@pytest.mark.parametrize("more", ["--direct=1", "--fsync=1"])
def test_the_simulation_takes_a_job_that_keeps_the_disk_busy(more: str) -> None:
    fio_cell.require_possible(of(f"--rw=write {more}", engine=Engine.SIM))


def test_a_polled_queue_is_one_more_that_the_guest_must_have() -> None:
    disk = hardware(of(POLLER))
    wrong = topology._mismatches(disk, "bfq", {"hw_queues": "128"})
    assert ("hw_queues", "129") in list(wrong)


def test_files_lie_on_a_file_system_that_the_guest_makes() -> None:
    steps = job(of("--rw=write --directory=/mnt --size=1m")).orders.steps
    assert steps.index("mkfs xfs") < steps.index("mount xfs") < steps.index("fio few")


def test_large_buffers_have_more_memory() -> None:
    line_cell = of("--rw=read --bs=1m --ioengine=libaio --iodepth=256 --numjobs=8")
    assert hardware(line_cell).memory_mib == topology.get("nullb_mq").memory_mib + 1024
    assert "MiB for the buffers" in changes(line_cell)


def test_a_job_that_verifies_is_expected_to_read_as_much_as_it_writes() -> None:
    line_cell = of("--rw=write --verify=md5 --size=1m")
    assert ordered_ios(line_cell, workload.get(line_cell.workload)) == {"few": 256, "many": 512}


@pytest.mark.parametrize(
    ("line", "disk", "message"),
    [
        ("--rw=read --ioengine=io_uring_cmd", "nullb_mq", "NVMe character device"),
        (POLLER, "megasas", "poll queues, which megasas"),
        ("--rw=read --bs=2g", "nullb_mq", "larger than the disk"),
    ],
)
def test_what_a_disk_cannot_do_is_refused_before_a_boot(line: str, disk: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        fio_cell.require_possible(of(line, disk))
    assert caught.value.hint


def test_another_disk_gives_what_null_blk_does_not() -> None:
    fio_cell.require_possible(of("--rw=read --ioengine=io_uring_cmd", "nvme_mq", Engine.TCG))
    fio_cell.require_possible(of("--rw=write --verify=md5", "raid64"))
    polled = hardware(of(POLLER, "nvme_mq", Engine.TCG))
    assert polled.kernel_parameters == ("nvme.poll_queues=1",)


def test_a_job_file_in_the_folder_of_workloads_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "FOLDER", tmp_path)
    (tmp_path / "own.fio").write_text("[a]\nrw=read\n[b]\nstonewall\nrw=write\nnumjobs=2\n")
    (tmp_path / "other.toml").write_text('fio = "--rw=read"\nexact_ios = [10, 20]\n')
    assert workload.known() == ["other", "own"]
    from_job, from_toml = workload.get("own"), workload.get("other")
    assert from_job.parameters == {"numjobs": 3, "seconds": 30, "ramp_seconds": 2, "ios": 0}
    assert from_job.title == "fio --name=a --rw=read --name=b --stonewall --rw=write --numjobs=2"
    assert (from_toml.exact_ios, from_toml.tool, from_toml.metric) == ((10, 20), "fio", "iops")
    assert workload.command_line("own", from_job.parameters) == from_job.title  # type: ignore[arg-type]


def test_a_line_is_a_workload_of_its_own_in_later_commands() -> None:
    name = workload.of_line_or_file("fio --rw=randwrite --bs=8k")
    assert re.fullmatch(r"randwrite-[0-9a-f]{8}", name)
    assert name == workload.of_line_or_file("-rw randwrite -bs 8k")
    assert workload.is_given(name)
    assert not workload.is_given(f"../fio/{name}")
    assert workload.options(name) == ["--fio", "fio --name=job --rw=randwrite --bs=8k"]
    assert workload.get(name).title == "fio --name=job --rw=randwrite --bs=8k"
    assert workload.noise("gone-01234567") == workload.Noise()


def test_queue_attributes_are_written_around_the_choice_of_the_scheduler() -> None:
    settings = (("nr_requests", "64"), ("rotational", "0"), ("iosched/slice_idle", "0"))
    resolved_cell = resolved(
        topology_name="raid64",
        scheduler="bfq",
        workload="randread_burst",
        parameters=dict(cell().parameters),
        engine=Engine.EXACT,
        queue=settings,
    )
    assert resolved_cell.queue == settings
    steps = job(resolved_cell).orders.steps
    order = ("queue rotational=0", "scheduler bfq", "queue nr_requests=64")
    assert [steps.index(step) for step in order] == sorted(steps.index(step) for step in order)
    assert steps.index("queue iosched/slice_idle=0") == steps.index("queue nr_requests=64") + 1
    assert "rotational" not in hardware(resolved_cell).queue  # raid64's own is 1


def test_a_disk_that_takes_bios_is_refused_a_scheduler() -> None:
    with_bfq = of(READER, "null_blk + dm linear DISK 0")
    fio_cell.require_possible(replace(with_bfq, scheduler="none"))
    with pytest.raises(UsageError, match="has no I/O scheduler"):
        fio_cell.require_possible(with_bfq)


def test_a_disk_keeps_the_queues_to_poll_that_its_line_gives() -> None:
    polled = replace(of(POLLER, "null_blk poll_queues=4"), scheduler="none")
    fio_cell.require_possible(polled)
    assert hardware(polled).poll_queues == 4


def test_every_disk_that_a_job_uses_gets_the_scheduler_and_the_first_is_looked_at() -> None:
    line = "--rw=read --name=a --filename=/dev/sda --name=b --filename=/dev/sdb"
    two = of(line, disk="null_blk nr_devices=3")
    steps = list(job(replace(two, scheduler="bfq")).orders.steps)
    first, last = steps.index("disk name nb1"), steps.index("facts")
    chosen = ["disk name nb1", "scheduler bfq", "disk name nb", "scheduler bfq"]
    assert steps[first:last] == chosen


def test_a_workload_that_wants_more_disks_than_there_are_is_refused() -> None:
    seven = replace(cell(work="randread_deep"), parameters=(("disks", 7), ("ios", 0)))
    with pytest.raises(UsageError, match=r"randread_deep uses 7 disks, nullb has 1 for a job"):
        job(seven)
