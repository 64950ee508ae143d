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


def test_several_disks_are_made_the_first_is_used_and_the_module_has_the_tags_they_share() -> None:
    disk = of("null_blk nr_devices=3 shared_tags=1 hw_queue_depth=16 submit_queues=2")
    *made, found = disk.setup_steps(64)
    assert [step.split()[1] for step in made] == ["nb2", "nb1", "nb"]
    assert found == "disk name nb"
    of_module = ("hw_queue_depth=16", "submit_queues={hw_queues}", "poll_queues=0")
    assert set(disk.kernel_parameters) == {f"null_blk.{parameter}" for parameter in of_module}
    assert disk.hw_queues == 2


MULTIPATH = "dm multipath 2 queue_mode mq 0 1 1 round-robin 0 1 1 /dev/nullb0 1"


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("null_blk memory_backed=1", "holds_data", True),
        ("null_blk memory_backed=1", "disk_in_memory", True),
        # The module allows more queues to poll than its default where it is told.
        ("null_blk poll_queues=32", "kernel_parameters", ("null_blk.poll_queues=32",)),
        ("null_blk poll_queues=32 submit_queues=16", "poll_queues", 32),
        ("null_blk poll_queues=32 submit_queues=16", "possible_cpus", 32),
        ("null_blk no_sched=1 submit_queues=2", "has_scheduler", False),
        ("null_blk no_sched=1 submit_queues=2", "reported_queues", 2),
        ("null_blk zoned=1 zone_size=64", "kernel", ("zoned",)),
        ("scsi_debug zbc=host-managed", "kernel", ("zoned",)),
        # What is larger than its memory holds no data.
        ("scsi_debug dev_size_mb=64 virtual_gb=2", "size_mib", 2048),
        ("scsi_debug dev_size_mb=64 virtual_gb=2", "holds_data", False),
        ("scsi_debug dev_size_mb=64 virtual_gb=2", "memory_mib", 2112),
        ("flashdisk keep=0", "holds_data", False),
        # Multipath takes requests.
        (f"null_blk + {MULTIPATH}", "takes_bios", False),
        (
            f"null_blk + {MULTIPATH}",
            "kernel_parameters",
            ("dm_mod.dm_mq_nr_hw_queues={hw_queues}",),
        ),
        ("null_blk submit_queues=2 + md raid0 3", "kernel", ("md",)),
        ("null_blk submit_queues=2 + md raid0 3", "reported_queues", 0),
        ("null_blk submit_queues=2 + md raid0 3", "driver", "null_"),
        ("null_blk submit_queues=2 + md raid0 3", "needs_more_steps", True),
        # A loop disk has one queue, whatever lies below.
        ("null_blk submit_queues=4 + loop", "reported_queues", 1),
        ("null_blk submit_queues=4 + loop", "driver", "loop_"),
    ],
)
def test_a_line_is_a_disk_with_what_its_drivers_give(line: str, name: str, value: object) -> None:
    assert getattr(of(*line.split(" + ")), name) == value


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("nvme queues=8", "nvme,drive=disk,serial=lab-nvme,max_ioqpairs=8,msix_qsize=9"),
        ("virtio-blk queues=4", "virtio-blk-pci,drive=disk,num-queues=4,ioeventfd=off"),
    ],
)
def test_an_emulated_disk_has_the_queues_that_were_given(line: str, device: str) -> None:
    assert of(line).devices == (device,)


def test_scsi_debug_is_read_back() -> None:
    disk = of("scsi_debug submit_queues=4 host_max_queue=1 opts=0x8000")
    assert disk.hw_queues == 4
    assert "scsi_debug.host_max_queue=1" in disk.kernel_parameters
    assert disk.effective["scsi_debug/opts"] == "32768"
    assert disk.holds_data


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
    "table", ["linear DISK 0", "0 2097152 linear /dev/nullb0 0", "linear /dev/nullb0 0"]
)
def test_a_device_mapper_table_lies_over_the_disk(table: str) -> None:
    disk = of("null_blk submit_queues=2", f"dm {table}")
    assert disk.dm == "linear DISK 0"
    assert disk.takes_bios
    # What it is given, it gives the disk below.
    assert disk.driver == "null_"


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
        (("null_blk", f"md raid0 {'9' * 5000}"), "as in md raid0 2"),
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


def test_a_disk_without_schedulers_has_none_to_choose() -> None:
    assert of("null_blk no_sched=1").scheduler_steps("none") == []
    disk = of("null_blk", "dm linear DISK 0")
    assert disk.scheduler_steps("none") == []
    facts = {"hw_queues": "0", "online_cpus": "0-1"}
    read_back = {f"null_blk/{name}": disk.fill(v, 0) for name, v in (disk.null_blk or {}).items()}
    topology.require_match(disk.title, disk, "none", facts | read_back)


def test_an_array_lies_over_several_disks_and_a_loop_disk_over_one() -> None:
    array = of("null_blk submit_queues=2", "md raid0 3")
    assert array.setup_steps(64)[3:] == ["disk name nb", "md raid0 3 nb nb1 nb2"]
    made, _, loop = of("null_blk submit_queues=4", "loop").setup_steps(64)
    assert "submit_queues=4" in made
    assert loop == "loop"
