# SPDX-License-Identifier: GPL-2.0-or-later
"""A disk as one line: what it makes of a driver's parameters, and what it refuses."""

from __future__ import annotations

import pytest

from lab.base.errors import UsageError
from lab.inputs import device_line, topology
from lab.inputs.topology import Topology


def of(*texts: str) -> Topology:
    """The topology of a user's device lines."""
    return topology.get(device_line.read(texts))


def test_null_blk_has_the_attributes_that_were_given() -> None:
    disk = of("null_blk submit_queues=8 irqmode=0 completion_nsec=0")
    assert disk.hw_queues == 8
    assert not disk.holds_data
    (made, named) = disk.setup_steps(size_mib=512)
    assert made.split()[:2] == ["null_blk", "nb"]
    pairs = {"irqmode=0", "completion_nsec=0", "submit_queues=8", "size=512", "poll_queues=0"}
    assert set(made.split()[2:]) == pairs
    assert named == "disk name nb"


def test_a_line_may_be_pasted_with_modprobe() -> None:
    assert device_line.read(("sudo modprobe  null_blk bs=4096",)) == "null_blk bs=4096"


@pytest.mark.parametrize(
    ("line", "mib", "attribute"),
    [
        ("null_blk gb=5 bs=4096", 5120, "blocksize=4096"),
        ("null_blk size=256 memory_backed=1", 256, "memory_backed=1"),
    ],
)
def test_module_parameters_become_configfs_attributes(line: str, mib: int, attribute: str) -> None:
    disk = of(line)
    assert disk.size_mib == mib
    assert attribute in disk.setup_steps(disk.size_mib)[0]


def test_a_solid_state_disk_has_its_driver_and_reads_its_parameters_back() -> None:
    disk = of("flashdisk channels=2 dies=1 queues=4 size_mb=256 read_ns=50000")
    assert disk.kernel == ("flashdisk",)
    assert (disk.hw_queues, disk.size_mib, disk.holds_data) == (4, 256, True)
    parameters = {disk.fill(text, disk.size_mib) for text in disk.kernel_parameters}
    assert {"flashdisk.disks=1", "flashdisk.size_mb=256", "flashdisk.dies=1"} <= parameters
    assert disk.effective["flashdisk/read_ns"] == "50000"
    assert disk.setup_steps(256) == ["disk scsi flashdisk", "queue rotational=0"]
    assert not of("flashdisk keep=0").holds_data


def test_what_is_memory_backed_holds_data_in_the_guests_memory() -> None:
    disk = of("null_blk memory_backed=1")
    assert disk.holds_data
    assert disk.disk_in_memory


def test_several_disks_are_made_and_the_first_is_used() -> None:
    steps = of("null_blk nr_devices=3 shared_tags=1 hw_queue_depth=16").setup_steps(64)
    assert [step.split()[1] for step in steps[:3]] == ["nb2", "nb1", "nb"]
    assert steps[3] == "disk name nb"


def test_tags_that_disks_share_are_those_of_the_module() -> None:
    disk = of("null_blk nr_devices=2 shared_tags=1 hw_queue_depth=16 submit_queues=2")
    assert "null_blk.hw_queue_depth=16" in disk.kernel_parameters
    assert "null_blk.submit_queues={hw_queues}" in disk.kernel_parameters
    assert "null_blk.poll_queues=0" in disk.kernel_parameters
    assert disk.hw_queues == 2


def test_more_queues_to_poll_than_the_module_allows_are_allowed() -> None:
    disk = of("null_blk poll_queues=32 submit_queues=16")
    assert disk.kernel_parameters == ("null_blk.poll_queues=32",)
    assert (disk.poll_queues, disk.possible_cpus) == (32, 32)


def test_scsi_debug_is_read_back() -> None:
    disk = of("scsi_debug submit_queues=4 host_max_queue=1 opts=0x8000")
    assert disk.hw_queues == 4
    assert "scsi_debug.host_max_queue=1" in disk.kernel_parameters
    assert disk.effective["scsi_debug/opts"] == "32768"
    assert disk.holds_data


def test_a_disk_that_is_larger_than_its_memory_holds_no_data() -> None:
    disk = of("scsi_debug dev_size_mb=64 virtual_gb=2")
    assert (disk.size_mib, disk.holds_data, disk.memory_mib) == (2048, False, 2112)


def test_a_boolean_parameter_is_equal_as_a_letter() -> None:
    disk = of("scsi_debug removable=1 strict=0")
    facts = {
        "hw_queues": "1",
        "online_cpus": "0-1",
        "queue/scheduler": "[none]",
        "scsi_debug/removable": "Y",
        "scsi_debug/strict": "N",
    }
    topology.require_match(disk.title, disk, "none", facts)


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("nvme queues=8", "nvme,drive=disk,serial=lab-nvme,max_ioqpairs=8,msix_qsize=9"),
        ("virtio-blk queues=4", "virtio-blk-pci,drive=disk,num-queues=4,ioeventfd=off"),
    ],
)
def test_an_emulated_disk_has_the_queues_that_were_given(line: str, device: str) -> None:
    assert of(line).devices == (device,)


@pytest.mark.parametrize(
    "table", ["linear DISK 0", "0 2097152 linear /dev/nullb0 0", "linear /dev/nullb0 0"]
)
def test_a_device_mapper_table_lies_over_the_disk(table: str) -> None:
    disk = of("null_blk submit_queues=2", f"dm {table}")
    assert disk.dm == "linear DISK 0"
    assert disk.takes_bios
    # What it is given, it gives the disk below.
    assert disk.driver == "null_"


def test_multipath_takes_requests() -> None:
    disk = of("null_blk", "dm multipath 2 queue_mode mq 0 1 1 round-robin 0 1 1 /dev/nullb0 1")
    assert not disk.takes_bios
    assert disk.kernel_parameters == ("dm_mod.dm_mq_nr_hw_queues={hw_queues}",)


def test_a_zoned_disk_asks_for_its_fragment() -> None:
    assert of("null_blk zoned=1 zone_size=64").kernel == ("zoned",)
    assert of("scsi_debug zbc=host-managed").kernel == ("zoned",)


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (("nul_blk queues=1",), "did you mean 'null_blk'"),
        (("null_blk submit_queues",), "write NAME=VALUE"),
        (("null_blk submit_queues=1000",), "from 1 to 128"),
        (("null_blk nr_devices=1024",), "from 0 to 64"),
        (("null_blk gb=9 memory_backed=1",), "does not fit into a guest's memory"),
        (("null_blk size={size_mib}",), "not a parameter"),
        (("null_blk badblocks=$(reboot)",), "not a parameter"),
        (("nvme queue=4",), "did you mean 'queues'"),
        (("megasas queues=4",), "leave it out"),
        (("flashdisk channel=2",), "did you mean 'channels'?"),
        (("null_blk", "mb raid0 2"), "known: dm, loop, md"),
        (("null_blk", "md raid7 2"), "as in md raid0 2"),
        (("nvme", "md raid0 2"), "begin with null_blk"),
        (("null_blk", "loop autoclear=1"), "leave it out"),
        (("null_blk", "dm linear 0"), "not a device-mapper table"),
        (("null_blk", "dm linear DISK 0", "dm linear DISK 0"), "leave one out"),
        (("sudo modprobe",), "no disk is made by"),
    ],
)
def test_a_wrong_line_is_refused(texts: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        device_line.read(texts)
    assert says in f"{caught.value} {caught.value.hint}"


def test_the_parameters_are_asked_for_by_the_names_that_the_kernel_has() -> None:
    assert device_line.parameter_names("null_blk bs=512 gb=1 irqmode=0") == (
        "nullb_device_attr_",
        ["blocksize", "irqmode"],
    )
    assert device_line.parameter_names("scsi_debug delay=0 + dm linear DISK 0") == (
        "__param_str_",
        ["delay"],
    )


def test_a_line_is_repeated_by_its_options() -> None:
    name = device_line.read(("null_blk submit_queues=2", "dm linear DISK 0"))
    assert topology.options(name) == [
        *("--device", "null_blk submit_queues=2"),
        *("--device", "dm linear DISK 0"),
    ]
    assert topology.options("nullb") == ["--topology", "nullb"]


def test_a_disk_that_takes_bios_has_no_scheduler_to_choose() -> None:
    disk = of("null_blk", "dm linear DISK 0")
    assert disk.scheduler_steps("none") == []
    facts = {"hw_queues": "0", "online_cpus": "0-1"}
    read_back = {f"null_blk/{name}": disk.fill(v, 0) for name, v in (disk.null_blk or {}).items()}
    topology.require_match(disk.title, disk, "none", facts | read_back)


def test_an_array_lies_over_several_disks() -> None:
    disk = of("null_blk submit_queues=2", "md raid0 3")
    *made, found, array = disk.setup_steps(64)
    assert [step.split()[1] for step in made] == ["nb2", "nb1", "nb"]
    assert (found, array) == ("disk name nb", "md raid0 3 nb nb1 nb2")
    assert disk.kernel == ("md",)
    assert (disk.reported_queues, disk.driver) == (0, "null_")
    assert disk.needs_more_steps


def test_a_loop_disk_has_one_queue_whatever_lies_below() -> None:
    disk = of("null_blk submit_queues=4", "loop")
    assert disk.setup_steps(64)[-1] == "loop"
    assert "submit_queues=4" in disk.setup_steps(64)[0]
    assert (disk.reported_queues, disk.driver) == (1, "loop_")


def test_a_disk_without_schedulers_has_none_to_choose() -> None:
    disk = of("null_blk no_sched=1 submit_queues=2")
    assert not disk.has_scheduler
    assert disk.scheduler_steps("none") == []
    assert disk.reported_queues == 2
