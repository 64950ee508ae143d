# SPDX-License-Identifier: GPL-2.0-or-later
"""What a fio job needs of a guest and its disk, and how many I/Os tell what one costs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lab.base.errors import UsageError
from lab.inputs import fio_sizes
from lab.inputs.fio_line import FioJob, number_of_jobs

Options = Mapping[str, str]

# The engines whose I/O a guest's disk serves.
ENGINES = frozenset(
    {
        *("sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "posixaio", "io_uring"),
        *("io_uring_cmd", "mmap", "splice", "sg"),
    }
)
_USUAL_ENGINE = "psync"
_CHARACTER = "io_uring_cmd"
_URING = ("io_uring", _CHARACTER)
_ASYNCHRONOUS = frozenset({"libaio", "posixaio", *_URING})
_UNVERIFIED = frozenset({"", "0", "null"})
# Options by which a job waits, and by which its writes reach the disk at once.
_WAITS = ("rate", "rate_iops", "thinktime")
_WRITES_THROUGH = ("fsync", "fdatasync", "sync")
# What a file's name begins with that is a device, or is what a shell would have filled in.
_DEVICE = re.compile(r"/dev/(?!shm/)|\$|\\")
# Chosen: as much as fits a host of 24 GiB beside another guest.
_MOST_BUFFERS = 8 << 30
# I/Os more in the second run than in the first, of all jobs: as templates have, and fewer of large
# ones, which the kernel splits. What is kept in memory is copied, too.
_IOS = (1000, 40_000)
_BYTES, _BYTES_KEPT = 4 << 30, 1 << 30
# What is in flight at first is not what is later.
_FILLS = 2
# Chosen: so many I/Os of the first run take a deterministic guest a quarter of a minute.
_MOST_FEW = 65_536


@dataclass(frozen=True)
class Needs:
    """What a job needs.

    jobs are all that fio starts. on_files: it works on files of a file system; keeps: what it
    writes must be there when it reads; polled: queues that are polled, without which it fails if
    only_polled; character: the disk's NVMe character device; trims: a disk that discards. buffers
    are bytes of all jobs, ios the I/Os of all jobs in the exact engine's two runs, twofold the
    jobs that read everything again.
    """

    jobs: int
    on_files: bool
    keeps: bool
    polled: bool
    only_polled: bool
    character: bool
    trims: bool
    buffers: int
    ios: tuple[int, int]
    twofold: int


def engine(options: Options) -> str:
    """The I/O engine of a section."""
    return options.get("ioengine", "") or _USUAL_ENGINE


def is_on(options: Options, name: str) -> bool:
    """Whether a switch is there and not off."""
    return options.get(name, "0") != "0"


def direction(options: Options) -> str:
    """The kind of I/O of a section, such as randread."""
    return options.get("rw", "read").partition(":")[0]


def verifies(options: Options) -> bool:
    """Whether a section reads back what it wrote."""
    return options.get("verify", "") not in _UNVERIFIED and is_on(
        {"do_verify": "1", **options}, "do_verify"
    )


def is_on_files(options: Options) -> bool:
    """Whether a section works on files of a file system; one that names none works on the disk."""
    if name := options.get("filename", ""):
        return not _DEVICE.match(name)
    return bool(options.get("directory"))


@lru_cache(maxsize=256)
def of(job: FioJob) -> Needs:
    """What a job needs. Raises UsageError for one that no guest can run, with the reason."""
    sections = [options for _, options in job.jobs()]
    for name, options in job.jobs():
        _require_possible(name, options)
    kinds = {is_on_files(options) for options in sections}
    if len(kinds) > 1:
        raise UsageError(
            "sections on the disk and on files of a file system: a guest has one disk",
            hint="leave out one kind",
        )
    jobs = sum(map(number_of_jobs, sections))
    polled = [options for options in sections if is_on(options, "hipri")]
    buffers = sum(
        number_of_jobs(options) * _depth(options) * fio_sizes.blocks(options)[1]
        for options in sections
    )
    if buffers > _MOST_BUFFERS:
        raise UsageError(
            f"the jobs' buffers take {buffers >> 30} GiB, which no guest has",
            hint="take less of numjobs, iodepth or bs",
        )
    on_files, keeps = kinds == {True}, any(map(verifies, sections))
    return Needs(
        jobs=jobs,
        on_files=on_files,
        keeps=keeps,
        polled=bool(polled),
        only_polled=any(engine(options) in _URING for options in polled),
        character=any(engine(options) == _CHARACTER for options in sections),
        trims=any("trim" in direction(options) for options in sections),
        buffers=buffers,
        ios=_ios(sections, jobs, _BYTES_KEPT if on_files or keeps else _BYTES),
        twofold=sum(map(number_of_jobs, filter(verifies, sections))),
    )


def require_busy_disk(job: FioJob) -> None:
    """Raise UsageError for a job that keeps no disk busy: the simulation measures a number of the
    disk's I/Os.
    """
    for name, options in job.jobs():
        if waits := next((option for option in _WAITS if is_on(options, option)), ""):
            raise UsageError(
                f"{waits} of job {name}: the simulation measures CPUs that are busy, and this job "
                "waits",
                hint=f"leave {waits} out, or write --engine exact",
            )
        writes = direction(options) not in ("read", "randread")
        if writes and not (_is_direct(options) or any(is_on(options, o) for o in _WRITES_THROUGH)):
            raise UsageError(
                f"buffered writes of job {name}: the simulation counts the disk's I/Os, and the "
                "page cache decides when they come",
                hint="write direct=1, or --engine exact",
            )


def _is_direct(options: Options) -> bool:
    return is_on(options, "direct") or options.get("buffered") == "0"


def count(options: Options, name: str) -> int:
    """An option that counts; 1 for what is no number."""
    text = options.get(name, "")
    return max(1, int(text[:9])) if text.isdecimal() else 1


def _depth(options: Options) -> int:
    return count(options, "iodepth") if engine(options) in _ASYNCHRONOUS else 1


def _require_possible(name: str, options: Options) -> None:
    """Raise UsageError for a section that no guest can run as it is."""
    engine_name = engine(options)
    if engine_name not in ENGINES:
        raise UsageError(
            f"the engine {engine_name} of job {name} does no I/O to a disk",
            hint="leave the job out",
        )
    for option in ("create_only", "verify_only"):
        if is_on(options, option):
            raise UsageError(f"{option} of job {name}: it does no I/O that has a cost")
    if options.get("filename") == "-":
        raise UsageError(f"job {name} reads standard input, which a guest has none of")
    if is_on_files(options) and options.get("zonemode") == "zbd":
        raise UsageError(
            f"zonemode=zbd of job {name}: the files of a guest's XFS have no zones",
            hint="name a device, or leave zonemode out",
        )
    smallest, _ = fio_sizes.blocks(options)
    direct = _is_direct(options)
    if direct and smallest % fio_sizes.SECTOR:
        raise UsageError(
            f"blocks of {smallest} bytes of job {name}: direct I/O is in sectors of "
            f"{fio_sizes.SECTOR} bytes",
            hint="is a unit missing, as in bs=64k?",
        )
    if engine_name == "io_uring" and is_on(options, "hipri") and not direct:
        raise UsageError(
            f"hipri of job {name}: what is polled is direct I/O", hint="write direct=1"
        )
    if verifies(options) and direction(options) not in ("write", "randwrite"):
        raise UsageError(
            f"verify of job {name}: how many I/Os that makes is fixed for writes alone",
            hint="write rw=write or rw=randwrite, or leave verify out",
        )


def _ios(sections: Sequence[Options], jobs: int, most_bytes: int) -> tuple[int, int]:
    """The I/Os of all jobs in two runs, as many for each job."""
    largest = max(fio_sizes.blocks(options)[1] for options in sections)
    deepest = max(map(_depth, sections))
    each = max(_IOS[0] // jobs, _FILLS * deepest, 1)
    few = max(1, min(each, _MOST_FEW // jobs, most_bytes // largest // jobs))
    # At least as many again: how long fewer more take is lost in how long threads wait for a CPU.
    more = max(few, min(_IOS[1], most_bytes // largest) // jobs)
    limits = [_written_once(options) for options in sections if verifies(options)]
    many = max(2, min([few + more, *limits]))
    return min(few, many // 2) * jobs, many * jobs


def _written_once(options: Options) -> int:
    """How many blocks a section that verifies writes without writing one twice, if it says."""
    size = fio_sizes.of(options.get("size", "")) or fio_sizes.of(options.get("filesize", ""))
    return max(2, size // fio_sizes.blocks(options)[1]) if size else _IOS[1]
