# SPDX-License-Identifier: GPL-2.0-or-later
"""A fio job made fit for a guest: its disk, its CPUs and fixed work; and what that changed.

What is measured stays as it was written: the kind of I/O, its size and depth, engines, priorities,
sections that wait for each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from lab.base.errors import UsageError
from lab.inputs import fio_needs, fio_program, fio_sizes
from lab.inputs.fio_line import FioJob, number_of_jobs
from lab.inputs.fio_sizes import PAGE

_MOUNT = "mnt"
# Chosen: a file system needs space for itself, and a log.
_SHARE_FOR_FILES = 0.6
# How much is fixed, so that time and repetition are not.
_AMOUNT = (
    *("runtime", "time_based", "ramp_time", "loops", "number_ios", "io_size", "fill_device"),
    *("steadystate", "steadystate_duration", "steadystate_ramp_time"),
    *("exitall", "exit_what", "exitall_on_error", "rate_min", "rate_iops_min"),
)
_OUTPUT = (
    *("group_reporting", "new_group", "description", "per_job_logs", "stats", "disk_util"),
    *("write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log", "write_iolog"),
    *("bwavgtime", "iopsavgtime", "log_entries", "log_avg_msec", "log_hist_msec"),
    *("log_hist_coarseness", "log_max_value", "log_offset", "log_prio", "log_compression"),
    *("log_compression_cpus", "log_store_compressed", "log_unix_epoch", "log_alternate_epoch"),
    *("log_alternate_epoch_clock_id", "block_error_percentiles", "clat_percentiles"),
    *("lat_percentiles", "slat_percentiles", "percentile_list", "significant_figures"),
    *("unified_rw_reporting", "kb_base", "unit_base", "verify_state_save", "error_dump"),
)
_DROPPED = {
    **dict.fromkeys(_AMOUNT, "the amount of I/O is the lab's"),
    **dict.fromkeys(_OUTPUT, "output"),
    "ioscheduler": "the cell has one",
    **dict.fromkeys(("cgroup", "cgroup_weight", "cgroup_nodelete"), "a guest has one group"),
    "uid": "a guest has one user",
    "gid": "a guest has one group of users",
    **dict.fromkeys(("numa_cpu_nodes", "numa_mem_policy"), "a guest has one node"),
    "gtod_cpu": "a guest has no CPU for that",
    "unique_filename": "no network",
    "replay_redirect": "nothing is replayed",
}
# The lab sets them as its own jobs have them.
_OF_THE_LAB = frozenset({"thread", "randrepeat", "allrandrepeat", "norandommap"})
_OF_FILES = frozenset({"filename_format", "nrfiles", "openfiles"})
_IDLE = ("rate", "rate_iops", "thinktime", "startdelay")
_ZONE = 64 << 20
# More than any run does: fio goes over a region again.
_WITHOUT_END = "1t"
# The character device of the one NVMe disk that a guest has.
_CHARACTER_DEVICE = "/dev/ng0n1"
_CPUS = re.compile(r"\d{1,5}(-\d{1,5})?")


@dataclass(frozen=True)
class Guest:
    """What a job runs in: bytes of a disk, vCPUs, and how many disks it may use."""

    disk: int
    cpus: int
    disks: int = 1


@dataclass(frozen=True)
class Fitted:
    """A job as a guest runs it: sections with all their options, what was changed, a phrase each,
    and how many disks it uses.
    """

    sections: tuple[tuple[str, dict[str, str]], ...]
    changes: tuple[str, ...]
    disks: int = 1

    def text(self, shared: Iterable[str]) -> str:
        """The job file, with lines of the lab's for all sections."""
        lines = ["[global]", "group_reporting=1", "randrepeat=1", "thread=1", *shared]
        for name, options in self.sections:
            lines += ["", f"[{name}]", *(f"{k}={v}" if v else k for k, v in options.items())]
        return "\n".join(lines) + "\n"


def fixed(ios: int) -> list[str]:
    """What has every job do so many I/Os, and marks before and after them."""
    return [f"number_ios={ios}", "exec_prerun=hostname lab", "exec_postrun=hostname lab"]


def timed(seconds: float, ramp_seconds: float) -> list[str]:
    """What has every job run for some time."""
    return ["time_based=1", f"ramp_time={ramp_seconds:g}", f"runtime={seconds:g}"]


def fitted(job: FioJob, guest: Guest, jobs: int) -> Fitted:
    """A job for a guest. jobs are all there are to be: of a job with one section that may be
    another number than its own.

    Raises UsageError for what does not fit into the guest, or what it lacks.
    """
    needs = fio_needs.of(job)
    job_sections = list(job.jobs())
    if jobs != needs.jobs and len(job_sections) > 1:
        raise UsageError(
            f"numjobs={jobs} for {len(job_sections)} sections, which have {needs.jobs} jobs",
            hint="write numjobs into the sections",
        )
    changes = Changes()
    sections = []
    paths = [path for _, options in job_sections for path in _paths(options.get("filename", ""))]
    disks = {path: number % guest.disks for number, path in enumerate(dict.fromkeys(paths))}
    for name, options in job_sections:
        adjusted = {**options, "numjobs": str(jobs)} if jobs != needs.jobs else options
        section = _JobSection(name, adjusted, needs.on_files, guest, disks, changes.tell)
        sections.append((name, section.options()))
    if needs.on_files:
        _shrink_files(sections, guest, changes)
    used = 1 if needs.on_files or needs.character else len(set(disks.values())) or 1
    return Fitted(tuple(sections), changes.phrases(), used)


class Changes:
    """What was changed in a job: options by what became of them."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, None]] = {}

    def tell(self, option: str, what: str) -> None:
        """Write down what became of an option."""
        self._found.setdefault(what, {})[option] = None

    def phrases(self) -> tuple[str, ...]:
        """All changes in the order in which they were made, a phrase for options of one fate."""
        return tuple(f"{', '.join(options)} {what}" for what, options in self._found.items())


@dataclass(frozen=True)
class _JobSection:
    """One section on its way into a guest; changes are told as they are made."""

    name: str
    written: dict[str, str]
    on_files: bool
    guest: Guest
    disks: Mapping[str, int]
    tell: Callable[[str, str], None]

    def options(self) -> dict[str, str]:
        """All options of the section as the guest's fio gets them."""
        kept = {name: value for name, value in self.written.items() if self._keeps(name)}
        kept = dict(self._where()) | kept
        if not self.on_files:
            kept |= self._scaled(kept)
        kept |= self._cpus(kept)
        if fio_needs.verifies(self.written):
            self.tell("verify", "has a disk that keeps what is written")
        else:
            kept |= {"norandommap": "1", "io_size": _WITHOUT_END}
            if fio_needs.direction(kept).startswith("rand") and "norandommap" not in self.written:
                self.tell("norandommap", "added: offsets may repeat, as work is fixed")
        for name in _IDLE:
            if kept.get(name, "0") not in ("", "0"):
                self.tell(name, "kept: to wait costs no instructions")
        if kept.get("zonemode") == "zbd" and "zonesize" not in kept:
            kept["zonesize"] = str(_ZONE)
            self.tell(
                "zonemode=zbd", f"has zones of {fio_sizes.shown(_ZONE)} without write pointers"
            )
        return kept

    def _keeps(self, name: str) -> bool:
        """Whether an option stays as it is; what becomes of others is told."""
        if name in _DROPPED:
            self.tell(name, f"dropped: {_DROPPED[name]}")
        elif name in _OF_THE_LAB:
            if name != "norandommap" and not fio_needs.is_on({name: "1", **self.written}, name):
                self.tell(f"{name}=0", "is 1, as in all jobs of the lab")
        elif name not in ("filename", "directory") and (self.on_files or name not in _OF_FILES):
            return not self._is_of_another_engine(name)
        return False

    def _is_of_another_engine(self, name: str) -> bool:
        """Whether an option of [global] is one that only the engine of another section has."""
        if name in fio_program.options():
            return False
        own = fio_program.engine_options(fio_needs.engine(self.written))
        of_engines = map(fio_program.engine_options, fio_needs.ENGINES)
        return name not in own and any(name in options for options in of_engines)

    def _where(self) -> Iterator[tuple[str, str]]:
        """Where the section's I/O goes."""
        name, folder = self.written.get("filename", ""), self.written.get("directory", "")
        if not self.on_files:
            character = fio_needs.engine(self.written) == "io_uring_cmd"
            written = f"filename={name}" if name else "no filename"
            numbers = [*dict.fromkeys(self.disks[path] for path in _paths(name))] or [0]
            disks = ":".join(f"${{DISK}}{number or ''}" for number in numbers)
            what = "is the disk's NVMe character device" if character else self._which(numbers)
            self.tell(written, what)
            yield "filename", _CHARACTER_DEVICE if character else disks
            return
        written = " ".join(f"{k}={v}" for k, v in (("filename", name), ("directory", folder)) if v)
        self.tell(written, "is on XFS on the disk")
        yield "directory", _MOUNT
        if name:
            yield "filename", ":".join(_file_names(name))

    def _which(self, numbers: list[int]) -> str:
        """Which disks of the guest those are that the section names."""
        if not any(self.disks.values()):
            return "is the disk"
        which = " and ".join(str(number + 1) for number in numbers)
        return f"are disks {which}" if len(numbers) > 1 else f"is disk {which}"

    def _scaled(self, kept: dict[str, str]) -> dict[str, str]:
        """Sizes and offsets that do not fit the disk, made smaller alike."""
        disk, jobs = self.guest.disk, number_of_jobs(kept)
        end, block = fio_sizes.end(kept, jobs, disk), fio_sizes.block_pages(kept)
        if fio_sizes.blocks(kept)[1] > disk:
            raise UsageError(
                f"a block of job {self.name} is larger than the disk of {fio_sizes.shown(disk)}",
                hint="write a smaller bs",
            )
        if end <= disk:
            return {}
        changed = {}
        for name in fio_sizes.ON_DISK:
            if size := fio_sizes.of(kept.get(name, "")):
                scaled = size * disk // end // block * block
                changed[name] = fio_sizes.shown(max(min(size, block), scaled))
        if fio_sizes.end(kept | changed, jobs, disk) > disk:
            raise UsageError(
                f"the disk of {fio_sizes.shown(disk)} has no space for the {jobs} parts of job "
                f"{self.name}",
                hint="take less of numjobs, offset_increment or bs",
            )
        for name, value in changed.items():
            if value != kept[name]:
                self.tell(
                    f"{name}={kept[name]}", f"is {value}: the disk has {fio_sizes.shown(disk)}"
                )
        return changed

    def _cpus(self, kept: dict[str, str]) -> dict[str, str]:
        """CPUs of the host as those of the guest that stand for them."""
        changed = {}
        if mask := kept.pop("cpumask", ""):
            bits = fio_sizes.of(mask) or 1
            kept["cpus_allowed"] = ",".join(str(n) for n in range(64) if bits >> n & 1) or "0"
        if text := kept.get("cpus_allowed", ""):
            changed["cpus_allowed"] = _numbers(_cpu_numbers(text, self.guest.cpus))
        if (cpu := kept.get("sqthread_poll_cpu", "")).isdecimal():
            changed["sqthread_poll_cpu"] = str(int(cpu[:9]) % self.guest.cpus)
        for name, value in changed.items():
            if value != self.written.get(name):
                written = self.written.get(name) or f"cpumask {mask}"
                self.tell(f"{name}={written}", f"is {value}: the guest's CPUs")
        return changed


def _paths(text: str) -> list[str]:
    """The files of fio's list."""
    return [part for part in re.split(r"(?<!\\):", text) if part]


def _file_names(text: str) -> list[str]:
    """The names of files in fio's list, without the folders that they lie in."""
    parts = [part.replace("\\:", "_") for part in _paths(text)]
    names = [re.sub(r"[^\w.-]", "_", part.rpartition("/")[2]) or "file" for part in parts]
    return [name if names.count(name) == 1 else f"{name}.{n}" for n, name in enumerate(names)]


def _cpu_numbers(text: str, cpus: int) -> set[int]:
    """The CPUs of a guest that stand for those of a list such as 0-3,8. Raises UsageError for what
    is none.
    """
    numbers = set[int]()
    for part in re.split("[,:]", text.replace(" ", "")):
        if not _CPUS.fullmatch(part):
            raise UsageError(f"cpus_allowed={text[:80]} is no list of CPUs", hint="write 0-3,8")
        first, _, last = part.partition("-")
        # A range of as many CPUs as the guest has covers all of them.
        numbers |= {number % cpus for number in range(int(first), int(last or first) + 1)[:cpus]}
    return numbers


def _numbers(cpus: set[int]) -> str:
    """CPUs as a list with ranges."""
    ordered = sorted(cpus)
    starts = [n for n in ordered if n - 1 not in cpus]
    ends = [n for n in ordered if n + 1 not in cpus]
    pairs = zip(starts, ends, strict=True)
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in pairs)


def _shrink_files(
    sections: list[tuple[str, dict[str, str]]], guest: Guest, changes: Changes
) -> None:
    """Make the files of all sections fit the disk's file system."""
    available = int(guest.disk * _SHARE_FOR_FILES) >> 20 << 20
    wanted, shared = 0, set[str]()
    for _, options in sections:
        name = options.get("filename", "")
        copies = number_of_jobs(options) if not name else int(name not in shared)
        shared.add(name)
        wanted += copies * (_file_size(options)[1] or 0)
    jobs = sum(number_of_jobs(options) for _, options in sections)
    for name, options in sections:
        option, size = _file_size(options)
        files = fio_needs.count(options, "nrfiles")
        least = fio_sizes.block_pages(options) * files
        if size is None:
            size, less = 0, max(least, available // jobs // PAGE * PAGE)
        elif wanted <= available:
            continue
        else:
            less = size * available // wanted // PAGE * PAGE
        if less < least:
            raise UsageError(
                f"the files of job {name} have no space on the disk of "
                f"{fio_sizes.shown(guest.disk)}",
                hint="take less of numjobs, nrfiles or bs",
            )
        each = less // files // PAGE * PAGE if option == "filesize" else less
        written = f"{option}={options[option]}" if size else f"no {option}"
        changes.tell(
            written, f"is {fio_sizes.shown(each)}: files have {fio_sizes.shown(available)}"
        )
        options[option] = fio_sizes.shown(each)


def _file_size(options: dict[str, str]) -> tuple[str, int | None]:
    """The option that says how large the files of a job are, and how large all of them are."""
    if size := fio_sizes.of(options.get("size", "")):
        return "size", size
    if size := fio_sizes.of(options.get("filesize", "")):
        return "filesize", size * fio_needs.count(options, "nrfiles")
    return "size", None
