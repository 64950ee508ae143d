# SPDX-License-Identifier: GPL-2.0-or-later
"""A disk as one line: a driver with parameters as the kernel names them, and what lies over it.

Such as ``scsi_debug submit_queues=4 host_max_queue=1``, or, as a name, ``null_blk gb=1 + dm linear
DISK 0``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from lab.base.errors import UsageError, nearest

OVER = " + "
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_VALUE = re.compile(r"[A-Za-z0-9_.:+-]{1,60}")
_TABLE = re.compile(r"[A-Za-z0-9_ .:+-]{1,400}")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]{1,16}|\d{1,18}")
# dmsetup's tables begin with the first sector and the length, and name the disk by its path.
_EXTENT = re.compile(r"0 \d+ ")
_DISK_PATH = re.compile(r"/dev/\S+")
# What a mail's line begins with.
_LOADERS = frozenset({"sudo", "modprobe", "insmod"})
# Module parameters of null_blk whose attributes in configfs have other names.
_OF_CONFIGFS = {"bs": "blocksize"}
# Chosen: a guest has two GiB beside its disk, and a tag set takes megabytes.
_MOST_DISKS = 64
_MOST_QUEUES = 128
# Chosen: of a scsi_debug disk that is larger than its memory.
_MIB_OF_VIRTUAL = 64
_MOST_MIB_IN_MEMORY = 8192
_DISK = "nb"
_RAID_LEVELS = ("raid0", "raid1")
_OF_TAG_SET = (
    "submit_queues",
    "poll_queues",
    "hw_queue_depth",
    "home_node",
    "no_sched",
    "blocking",
)
# kernel-patches/hardware/flashdisk
_OF_FLASH = (
    *("size_mb", "queues", "depth", "max_kb", "keep", "alone"),
    *("channels", "dies", "page_kb", "read_ns", "program_ns", "channel_mb", "link_mb"),
    *("command_ns", "read_overhead_ns", "write_overhead_ns", "cache_mb"),
)

Parameters = dict[str, str]
Fields = dict[str, Any]


def is_line(name: str) -> bool:
    """Whether the name of a topology is a line: what it begins with is a driver."""
    return name.split(" ", 1)[0] in _DRIVERS


def read(texts: tuple[str, ...]) -> str:
    """The line of what a user gives: the disk first, then what lies over it.

    Raises UsageError for a driver or parameters that the lab cannot bring up.
    """
    words = [text.split() for text in texts]
    while words[0] and words[0][0] in _LOADERS:
        words[0].pop(0)
    disk, *layers = (" ".join(each) for each in words)
    line = OVER.join((disk, *map(_with_disk, layers)))
    fields(line)
    return line


def _with_disk(layer: str) -> str:
    """A layer without what the guest decides: the first sector, the length, the disk's path."""
    kind, _, table = layer.partition(" ")
    table = _DISK_PATH.sub("DISK", _EXTENT.sub("", table, count=1))
    return f"{kind} {table}".rstrip()


def fields(line: str) -> Fields:
    """The fields of the topology that a line stands for. Raises UsageError as read() does."""
    disk, *layers = line.split(OVER)
    driver, *words = disk.split(" ")
    if driver not in _DRIVERS:
        raise _wrong(f"no disk is made by {driver[:40]!r}", nearest(driver, _DRIVERS))
    given: Parameters = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise _wrong(f"not a parameter of {driver}: {word[:80]!r}", "write NAME=VALUE")
        given[name] = value
    made = {"title": line, "holds_data": True, **_DRIVERS[driver](given)}
    for layer in layers:
        kind, _, table = layer.partition(" ")
        if kind not in _LAYERS:
            raise _wrong(f"nothing over a disk is called {kind[:40]!r}", nearest(kind, _LAYERS))
        if any(made.get(name) for name in ("dm", "array", "loop")):
            raise _wrong("two layers over a disk", "leave one out")
        made |= _LAYERS[kind](table, made)
    return made


def require_possible(name: str, where: str) -> None:
    """Raise UsageError for a line that is wrong; where is where it stands. Other names pass."""
    if not is_line(name):
        return
    try:
        fields(name)
    except UsageError as exc:
        raise UsageError(exc.what, where=where or exc.where, hint=exc.hint) from exc


def parameter_names(line: str) -> tuple[str, list[str]]:
    """What the parameters of a line are in a kernel's symbols: what their variables begin with, and
    their names. None for a driver whose parameters are the lab's.
    """
    driver, *words = line.split(OVER)[0].split(" ")
    names = [word.partition("=")[0] for word in words]
    if driver == "null_blk":
        own = (_OF_CONFIGFS.get(name, name) for name in names if name not in ("nr_devices", "gb"))
        return "nullb_device_attr_", [*own]
    return ("__param_str_", names) if driver == "scsi_debug" else ("", [])


def _wrong(what: str, hint: str) -> UsageError:
    return UsageError(what, where="--device", hint=hint)


def _number(given: Parameters, name: str, usual: int, most: int, least: int = 1) -> int:
    """A parameter that must be a number. Raises UsageError for anything else."""
    text = given.get(name, str(usual))
    if not _NUMBER.fullmatch(text) or not least <= int(text, 0) <= most:
        raise _wrong(f"{name} is a number from {least} to {most:,}, not {text!r}", "change it")
    return int(text, 0)


def _plain(value: str) -> str:
    """A value as the kernel prints it: numbers in decimal."""
    return str(int(value, 16)) if value[:2] in ("0x", "0X") and _NUMBER.fullmatch(value) else value


def _require_memory(mib: int) -> None:
    if mib > _MOST_MIB_IN_MEMORY:
        raise _wrong(
            f"a disk of {mib:,} MiB does not fit into a guest's memory",
            f"take at most {_MOST_MIB_IN_MEMORY:,} MiB",
        )


def _null_blk(given: Parameters) -> Fields:
    given = {_OF_CONFIGFS.get(name, name): value for name, value in given.items()}
    disks = _number(given, "nr_devices", 1, _MOST_DISKS, least=0) or 1
    given.pop("nr_devices", None)
    queues = _number(given, "submit_queues", 1, _MOST_QUEUES)
    size = _number(given, "size", 0, 1 << 40, least=0)
    if "gb" in given:
        size = _number(given, "gb", 0, 1 << 30) << 10
        given.pop("gb")
    in_memory = given.get("memory_backed", "0") != "0"
    if in_memory:
        _require_memory(size)
    # fio's hipri asks for a queue to poll.
    attributes = {"poll_queues": "0", **given, "submit_queues": "{hw_queues}"}
    shares = given.get("shared_tags", "0") != "0"
    of_module = _OF_TAG_SET if shares else ("poll_queues",) * (attributes["poll_queues"] != "0")
    return {
        "null_blk": {**attributes, "size": "{size_mib}"},
        # The module's parameters say how many tags disks share, and how many queues one may poll.
        "kernel_parameters": tuple(
            f"null_blk.{name}={attributes[name]}" for name in of_module if name in attributes
        ),
        # Disks are called as their folders in configfs since then (configs/guest/nullb.toml).
        "since": "5.19",
        "disk": {"by": "name", "value": _DISK},
        "disks": disks,
        "hw_queues": queues,
        "size_mib": size,
        "holds_data": in_memory,
        "disk_in_memory": in_memory,
        "takes_bios": given.get("queue_mode") == "0",
        "kernel": ("zoned",) if given.get("zoned", "0") != "0" else (),
    }


def _scsi_debug(given: Parameters) -> Fields:
    memory = _number(given, "dev_size_mb", 0, 1 << 30, least=0)
    _require_memory(memory)
    virtual = _number(given, "virtual_gb", 0, 1 << 20, least=0)
    queues = _number(given, "submit_queues", 1, _MOST_QUEUES)
    memory = memory or (_MIB_OF_VIRTUAL if virtual else 0)
    usual = {"add_host": "1", "dev_size_mb": str(memory) if virtual else "{size_mib}"}
    parameters = {**usual, **given}
    zoned = given.get("zbc", "none") not in ("none", "0")
    return {
        "kernel_parameters": tuple(f"scsi_debug.{n}={v}" for n, v in parameters.items()),
        "disk": {"by": "scsi", "value": "scsi_debug"},
        "hw_queues": queues,
        "size_mib": virtual << 10 or memory,
        "memory_mib": 2048 + (memory if virtual else 0),
        "disk_in_memory": not virtual,
        # What lies beyond the memory is mapped onto it.
        "holds_data": not virtual and given.get("fake_rw", "0") == "0",
        "kernel": ("zoned",) if zoned else (),
        # The number of hosts is read back as what was done last.
        "effective": {
            f"scsi_debug/{name}": _plain(value)
            for name, value in given.items()
            if name != "add_host"
        },
    }


def _nvme(given: Parameters) -> Fields:
    queues = _number(given, "queues", 1, 64)
    known = ("poll_queues", "write_queues", "io_queue_depth", "sgl_threshold")
    _require_known(given, "nvme", ("queues", *known))
    parameters = tuple(f"nvme.{name}={given[name]}" for name in known if name in given)
    device = f"nvme,drive=disk,serial=lab-nvme,max_ioqpairs={queues},msix_qsize={queues + 1}"
    return {
        "kernel_parameters": parameters,
        "devices": (device,),
        "disk": {"by": "nvme", "value": "lab-nvme"},
        "drive": True,
        "hw_queues": queues,
    }


def _virtio_blk(given: Parameters) -> Fields:
    _require_known(given, "virtio-blk", ("queues",))
    queues = _number(given, "queues", 1, 64)
    return {
        # Without ioeventfd the vCPU that notifies the device has it work at once.
        "devices": (f"virtio-blk-pci,drive=disk,num-queues={queues},ioeventfd=off",),
        "disk": {"by": "name", "value": "vda"},
        "drive": True,
        "hw_queues": queues,
    }


def _megasas(given: Parameters) -> Fields:
    _require_known(given, "megasas", ())
    return {
        "devices": ("megasas-gen2,id=raid", "scsi-hd,drive=disk,bus=raid.0,rotation_rate=7200"),
        "disk": {"by": "scsi", "value": "megaraid_sas"},
        "drive": True,
        "hw_queues": 1,
    }


def _flashdisk(given: Parameters) -> Fields:
    _require_known(given, "flashdisk", _OF_FLASH)
    queues = _number(given, "queues", 1, _MOST_QUEUES)
    parameters = {"disks": "1", "size_mb": "{size_mib}", **given}
    return {
        "kernel_parameters": tuple(f"flashdisk.{n}={v}" for n, v in parameters.items()),
        "disk": {"by": "scsi", "value": "flashdisk"},
        "hw_queues": queues,
        "size_mib": _number(given, "size_mb", 0, 1 << 30, least=0),
        "holds_data": given.get("keep", "1") != "0",
        "kernel": ("flashdisk",),
        # The driver is not asked for a medium that turns.
        "queue": {"rotational": 0},
        "effective": {f"flashdisk/{name}": _plain(value) for name, value in given.items()},
    }


def _require_known(given: Parameters, driver: str, known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            hint = nearest(name, known) if known else "leave it out"
            raise _wrong(f"{driver} has no parameter {name!r} here", hint)


_DRIVERS: dict[str, Callable[[Parameters], Fields]] = {
    "null_blk": _null_blk,
    "scsi_debug": _scsi_debug,
    "nvme": _nvme,
    "virtio-blk": _virtio_blk,
    "megasas": _megasas,
    "flashdisk": _flashdisk,
}


def _dm(table: str, below: Fields) -> Fields:
    if not _TABLE.fullmatch(table) or "DISK" not in table.split():
        raise _wrong(f"not a device-mapper table: {table[:80]!r}", "as in dm 'linear DISK 0'")
    takes_bios = not table.startswith("multipath ") or " queue_mode bio " in table
    queues = () if takes_bios else ("dm_mod.dm_mq_nr_hw_queues={hw_queues}",)
    return {
        "dm": table,
        "takes_bios": takes_bios,
        "kernel_parameters": (*below.get("kernel_parameters", ()), *queues),
    }


def _md(words: str, below: Fields) -> Fields:
    level, _, count = words.partition(" ")
    if level not in _RAID_LEVELS or count not in map(str, range(2, _MOST_DISKS + 1)):
        raise _wrong(f"not an array: {words[:80]!r}", "as in md raid0 2")
    if below.get("null_blk") is None:
        raise _wrong("an array lies over null_blk disks alone", "begin with null_blk")
    return {
        "array": words,
        "disks": int(count),
        "takes_bios": True,
        "kernel": (*below.get("kernel", ()), "md"),
    }


def _loop(words: str, _below: Fields) -> Fields:
    if words:
        raise _wrong(f"loop has no parameter {words[:80]!r}", "leave it out")
    return {"loop": True}


# What a layer changes of the disk that it lies over.
_LAYERS: dict[str, Callable[[str, Fields], Fields]] = {"dm": _dm, "md": _md, "loop": _loop}
