# SPDX-License-Identifier: GPL-2.0-or-later
"""Topologies: the emulated hardware of a guest, one TOML file each in configs/guest, or one line of
a user's (--device).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from lab.base.errors import GuestError, UsageError
from lab.base.system import data
from lab.base.toml import Model, load, named, names, parse
from lab.inputs import device_line

_VERSION = r"^(\d+\.\d+)?$"
FOLDER = data("configs") / "guest"


class Disk(Model):
    """How the agent finds the disk under test.

    by: ``nvme`` (value is the serial number), ``scsi`` (the host driver's name) or ``name``.
    """

    by: Literal["nvme", "scsi", "name"] = Field(description="property of the disk")
    value: str = Field(description="NVMe serial number, SCSI driver or disk name")


# How module parameters that are booleans are read back.
_BOOLEANS = {"0": "N", "1": "Y"}
# By how the disk is found; one that is found by its name is null_blk's or virtio-blk's.
_DRIVERS = {"nvme": "nvme_", "scsi": "scsi_"}


class Topology(Model):
    """One emulated machine.

    Strings may contain {hw_queues} and {size_mib}; the second is what the workload asks for.
    """

    title: str = Field(description="the hardware, in one line")
    since: str = Field(default="", pattern=_VERSION, description="first kernel version that has it")
    before: str = Field(
        default="", pattern=_VERSION, description="first kernel version that no longer has it"
    )
    hw_queues: int = Field(ge=1, le=128, description="hardware queues of the disk")
    cpus: int = Field(default=2, ge=1, description="online vCPUs")
    possible: int = Field(default=0, description="possible CPUs at least")
    memory_mib: int = Field(default=2048, ge=256, description="memory without the disk's")
    insn_ns: float = Field(
        default=1, ge=0.001, le=1000, description="time of an instruction by the exact engine"
    )
    holds_data: bool = Field(description="the disk keeps what is written to it")
    disk_in_memory: bool = Field(default=False, description="the guest's memory holds the disk")
    devices: tuple[str, ...] = Field(default=(), description="QEMU -device arguments")
    drive: bool = Field(default=False, description="give QEMU a drive with the id disk")
    kernel: tuple[str, ...] = Field(default=(), description="kernel fragments that the disk needs")
    kernel_parameters: tuple[str, ...] = Field(default=(), description="kernel command line")
    null_blk: dict[str, int | str] | None = Field(
        default=None, description="configfs attributes of a null_blk disk"
    )
    disks: int = Field(default=1, ge=1, description="equal null_blk disks, which a job may name")
    size_mib: int = Field(default=0, ge=0, description="size of the disk; 0: the workload's")
    takes_bios: bool = Field(
        default=False, description="the disk takes bios: it has neither queues nor a scheduler"
    )
    disk: Disk = Field(description="how the agent finds the disk")
    dm: str = Field(
        default="",
        description="device-mapper table without start and length; DISK stands for the disk's path",
    )
    array: str = Field(
        default="", description="md level of an array of all disks, and their number"
    )
    loop: bool = Field(default=False, description="a loop disk over the disk")
    cgroup_v1: bool = Field(
        default=False, description="the job runs in a group of cgroup v1's blkio controller"
    )
    queue: dict[str, int | str] = Field(
        default={}, description="queue/ attributes, written before the scheduler is chosen"
    )
    device: dict[str, int | str] = Field(default={}, description="device/ attributes")
    iosched: dict[str, dict[str, int | str]] = Field(
        default={}, description="by scheduler: queue/iosched/ attributes, written when it is chosen"
    )
    effective: dict[str, int | str] = Field(
        default={}, description="attributes that the guest must report with these values"
    )

    @property
    def possible_cpus(self) -> int:
        """CPUs the guest must believe possible: drivers cut their queues to that number, and the
        kernel does not show a queue without a CPU.
        """
        return max(self.cpus, self.hw_queues, self.possible, self.poll_queues)

    @property
    def poll_queues(self) -> int:
        """Queues of a null_blk disk that are polled, beside its hardware queues."""
        return int((self.null_blk or {}).get("poll_queues", 0))

    @property
    def reported_queues(self) -> int:
        """Hardware queues of the disk under test: 0 of one that takes bios, 1 of a loop disk."""
        if self.takes_bios:
            return 0
        # Whatever lies below: loop_add() in drivers/block/loop.c.
        return 1 if self.loop else self.hw_queues + self.poll_queues

    @property
    def has_scheduler(self) -> bool:
        """Whether the disk under test has I/O schedulers to choose from."""
        return not self.takes_bios and not int((self.null_blk or {}).get("no_sched", 0))

    @property
    def job_disks(self) -> tuple[str, ...]:
        """The names of the disks that a job may use, the disk under test first; it is the only one
        where something lies over them.
        """
        over = self.array or self.dm or self.loop
        return self._disk_names[:1] if over else self._disk_names

    @property
    def _disk_names(self) -> tuple[str, ...]:
        return tuple(f"{self.disk.value}{number or ''}" for number in range(self.disks))

    @property
    def needs_more_steps(self) -> bool:
        """Whether a step is needed that the agent alone does not have (lab/guest/more_steps)."""
        return bool(self.array or self.loop or self.cgroup_v1)

    @property
    def driver(self) -> str:
        """How the names of the functions begin that start the disk's requests."""
        if self.loop:
            return "loop_"
        if self.dm and not self.takes_bios:
            return "dm_"
        virtio = any(device.startswith("virtio-blk") for device in self.devices)
        by_name = "virtio_" if virtio else "null_"
        return _DRIVERS.get(self.disk.by, by_name)

    @property
    def log_prefixes(self) -> tuple[str, ...]:
        """What the kernel's messages about the disk begin with."""
        null_blk = ("null_blk",) if self.null_blk is not None else ()
        scsi = (self.disk.value,) if self.disk.by == "scsi" else ()
        over = {"device-mapper": self.dm, "md": self.array, "md/raid0": self.array}
        return (*null_blk, *scsi, *(name for name, there in over.items() if there))

    def refusal(self, release: str, fragments: Collection[str]) -> str:
        """Why a kernel such as 6.12.117 with these fragments cannot have it; empty if it can."""
        if lacking := [name for name in self.kernel if name not in fragments]:
            return f"{self.title} needs the kernel fragment {lacking[0]} (--config)"
        kernel = _version(release)
        if self.since and kernel < _version(self.since):
            return f"Linux {release} has no {self.title}: it takes Linux {self.since} or newer"
        if self.before and kernel >= _version(self.before):
            return f"Linux {release} has no {self.title}: it takes Linux before {self.before}"
        return ""

    def disk_memory_mib(self, size_mib: int) -> int:
        """How much of the guest's memory a disk of size_mib takes."""
        return size_mib if self.disk_in_memory else 0

    def fill(self, text: int | str, size_mib: int) -> str:
        """Replace the placeholders of a value."""
        try:
            return str(text).format(hw_queues=self.hw_queues, size_mib=size_mib)
        except (KeyError, IndexError, ValueError, AttributeError) as exc:
            raise UsageError(
                f"wrong braces in {text!r}: {exc}", hint="known: {hw_queues}, {size_mib}"
            ) from exc

    def setup_steps(self, size_mib: int) -> list[str]:
        """The agent's steps that bring the disk up as this topology says."""
        steps = []
        names = self._disk_names
        if self.null_blk is not None:
            pairs = " ".join(
                f"{name}={self.fill(v, size_mib)}" for name, v in self.null_blk.items()
            )
            # The last one that is made is the disk under test.
            steps += [f"null_blk {name} {pairs}" for name in reversed(names)]
        steps.append(f"disk {self.disk.by} {self.disk.value}")
        if self.dm:
            steps.append(f"dm {self.fill(self.dm, size_mib)}")
        if self.array:
            steps.append(f"md {self.array} {' '.join(names)}")
        if self.loop:
            steps.append("loop")
        if self.cgroup_v1:
            steps.append("cgroup_v1")
        return [*steps, *self.attribute_steps(size_mib)]

    def attribute_steps(self, size_mib: int) -> list[str]:
        """The agent's steps that set a disk's attributes as this topology says."""
        kinds = (("queue", self.queue), ("device", self.device))
        return [
            f"{kind} {name}={self.fill(value, size_mib)}"
            for kind, values in kinds
            for name, value in values.items()
        ]

    def scheduler_steps(self, scheduler: str) -> list[str]:
        """The agent's steps that choose and tune a scheduler; none if there is none to choose."""
        if not self.has_scheduler:
            return []
        tuned = self.iosched.get(scheduler, {}).items()
        return [f"scheduler {scheduler}", *(f"queue iosched/{name}={v}" for name, v in tuned)]


def _version(release: str) -> tuple[int, ...]:
    """Version and patch level of a kernel release."""
    return tuple(int(part) for part in re.findall(r"\d+", release)[:2])


def known() -> list[str]:
    """The names of all topologies, sorted."""
    return names(FOLDER)


def is_known(name: str) -> bool:
    """Whether a topology is called so, or is a device line."""
    return device_line.is_line(name) or name in known()


def get(name: str) -> Topology:
    """The topology called name, or that of a device line; UsageError names the nearest one."""
    if device_line.is_line(name):
        return parse(device_line.fields(name), Topology, Path("--device"))
    return load(named(FOLDER, name, ".toml", "topology"), Topology)


def options(name: str) -> list[str]:
    """The words of a command line that name a topology."""
    if not device_line.is_line(name):
        return ["--topology", name]
    return [word for layer in name.split(device_line.OVER) for word in ("--device", layer)]


def _mismatches(
    topology: Topology, scheduler: str, facts: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Every fact in which the guest differs from its topology, with what is wanted."""
    wanted: dict[str, int | str] = {
        "hw_queues": str(topology.reported_queues),
        "online_cpus": "0" if topology.cpus == 1 else f"0-{topology.cpus - 1}",
        **{f"queue/{name}": value for name, value in topology.queue.items()},
        **{f"device/{name}": value for name, value in topology.device.items()},
        **{
            f"null_blk/{name}": value
            for name, value in (topology.null_blk or {}).items()
            if "{size_mib}" not in str(value)  # size_sectors tells it
        },
        **{f"queue/iosched/{n}": v for n, v in topology.iosched.get(scheduler, {}).items()},
        **topology.effective,
    }
    for fact, unfilled in wanted.items():
        value = topology.fill(unfilled, size_mib=0)
        if facts.get(fact) not in (value, _BOOLEANS.get(value, value)):
            yield fact, value
    chosen = facts.get("queue/scheduler", "")
    if f"[{scheduler}]" not in chosen and (topology.has_scheduler or chosen not in ("", "none")):
        yield "queue/scheduler", scheduler


def require_match(name: str, topology: Topology, scheduler: str, facts: Mapping[str, str]) -> None:
    """Raise GuestError unless the guest is what its topology says."""
    wrong = [
        f"{fact}: wanted {value}, the guest has {facts.get(fact, 'nothing')}"
        for fact, value in _mismatches(topology, scheduler, facts)
    ]
    if wrong:
        raise GuestError(
            "mismatch",
            f"the guest is not the topology {name}: {'; '.join(wrong)}",
            where="--device" if device_line.is_line(name) else str(FOLDER / f"{name}.toml"),
        )
