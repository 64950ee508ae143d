# SPDX-License-Identifier: GPL-2.0-or-later
"""fio command lines and job files, as people post them, read into sections of options.

What an option means, and whether its value is right, is for fio to say (fio_program). Nothing of
a job is executed or opened here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lab.base.errors import UsageError

GLOBAL = "global"
# Chosen: the longest job file in fio's own examples has 4 KiB.
MOST_BYTES = 1 << 16
# REAL_MAX_JOBS in fio's os/os.h.
MOST_JOBS = 4096
# The name of a job that has none.
_UNNAMED = "job"
_SECTION = re.compile(r"\[([^\[\]]+)\]")
_NAME = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# What a shell does with words of a line; a job has none of it.
_OF_A_SHELL = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "2>&1", "&>"})
# fio's two names of an option: the one that its listing has by the other.
_ALIASES = {
    "readwrite": "rw",
    "blocksize": "bs",
    "blockalign": "ba",
    "blocksize_range": "bsrange",
    "blocksize_unaligned": "bs_unaligned",
    "iodepth_batch_submit": "iodepth_batch",
    "iodepth_batch_complete": "iodepth_batch_complete_min",
    "io_limit": "io_size",
    "fill_fs": "fill_device",
    "fileoffset": "offset",
    "nr_files": "nrfiles",
    "timeout": "runtime",
    "iomem": "mem",
    "ratemin": "rate_min",
    "ratecycle": "rate_cycle",
    "wait_for_previous": "stonewall",
    "ss": "steadystate",
    "ss_dur": "steadystate_duration",
    "ss_ramp": "steadystate_ramp_time",
}


@dataclass(frozen=True)
class Section:
    """A section of a job file: its name and its options in their order; a switch has no value."""

    name: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class FioJob:
    """A whole job: sections in their order, each ``global`` one for those that follow it."""

    sections: tuple[Section, ...]

    def text(self) -> str:
        """The job as a job file."""
        return "".join(
            f"[{section.name}]\n" + "".join(_line(*option) for option in section.options)
            for section in self.sections
        )

    def jobs(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Each section but global ones: its name and all its options, by fio's first name of each;
        the last value counts.
        """
        shared: dict[str, str] = {}
        for section in self.sections:
            options = {_ALIASES.get(name, name): value for name, value in section.options}
            if section.name == GLOBAL:
                shared |= options
            else:
                yield section.name, {**shared, **options}


def _line(name: str, value: str) -> str:
    return f"{name}={value}\n" if value else f"{name}\n"


def command_line(job: FioJob, left_out: frozenset[str] = frozenset()) -> str:
    """A job as one command line, without some options."""
    words = ["fio"]
    for section in job.sections:
        # A second name would begin a job of its own.
        called = dict(section.options).get("name", section.name)
        words += [f"--name={called}"] if section.name != GLOBAL else []
        for name, value in section.options:
            if name != "name" and _ALIASES.get(name, name) not in left_out:
                words.append(f"--{name}={value}" if value else f"--{name}")
    return shlex.join(words)


def read(path: Path) -> str:
    """The text of a job file. Raises UsageError for one that cannot be read or is none."""
    try:
        with path.open("rb") as content:
            data = content.read(MOST_BYTES + 1)
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {exc.strerror}") from exc
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path} is larger than {MOST_BYTES >> 10} KiB: this is no job file")
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise UsageError(f"{path} is not UTF-8 text: {exc.reason}") from exc


@lru_cache(maxsize=256)
def parse(text: str, full_name: Callable[[str], str] = str) -> FioJob:
    """A command line, or the text of a job file.

    full_name gives the whole name of an option that a command line may shorten. Raises UsageError
    for what is neither, for other files that are included, and for more jobs than fio takes.
    """
    text = text.replace("\r\n", "\n")
    if len(text.encode()) > MOST_BYTES:
        raise UsageError(f"a job of more than {MOST_BYTES >> 10} KiB is none")
    if match := _UNPRINTABLE.search(text):
        raise UsageError(f"a job has no character {match[0]!a}")
    job = FioJob(tuple(file_sections(text) if _is_file(text) else _of_line(text, full_name)))
    _require_jobs(job)
    return job


def _require_jobs(job: FioJob) -> None:
    sections = list(job.jobs())
    if not sections:
        raise UsageError("the job has no section", hint="write [NAME], or --name=NAME")
    count = sum(number_of_jobs(options) for _, options in sections)
    if count > MOST_JOBS:
        raise UsageError(
            f"{count:,} jobs are more than fio takes", hint=f"{MOST_JOBS:,} are the most: numjobs"
        )


def number_of_jobs(options: dict[str, str]) -> int:
    """How many jobs a section is. Raises UsageError for what is no number."""
    text = options.get("numjobs", "") or "1"
    if not text.isdecimal() or int(text[:9]) < 1:
        raise UsageError(f"numjobs={text[:40]} is no number of jobs", hint="write numjobs=4")
    return int(text[:9])


def _is_file(text: str) -> bool:
    first = next((line for line in map(_stripped, text.split("\n")) if line), "")
    return first.startswith("[") or first.split(maxsplit=1)[:1] == ["include"]


def _stripped(line: str) -> str:
    """A line of a job file without comment (strip_blank_end() in fio's init.c)."""
    return re.split("[;#]", line, maxsplit=1)[0].strip()


def file_sections(text: str) -> Iterator[Section]:
    """The sections of a job file's text. Raises UsageError for what stands in none, and for other
    files that are included.
    """
    name, options = "", list[tuple[str, str]]()
    for number, line in enumerate(map(_stripped, text.split("\n")), start=1):
        if section := _SECTION.fullmatch(line):
            if name:
                yield Section(name, tuple(options))
            name, options = section[1].strip(), []
        elif line.split(maxsplit=1)[:1] == ["include"]:
            raise UsageError(
                f"line {number} of the job includes another file: {line[:80]}",
                hint="put all sections into one file",
            )
        elif line and not name:
            raise UsageError(f"line {number} of the job stands in no section: {line[:80]}")
        elif line:
            options.append(_named(*_option(line)))
    if name:
        yield Section(name, tuple(options))


def _option(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip(), value.strip()


def _named(name: str, value: str) -> tuple[str, str]:
    """An option, if it has a name."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is no option of fio")
    return name, value


def _of_line(text: str, full_name: Callable[[str], str]) -> list[Section]:
    """The sections of a command line: what stands before the first --name is for all."""
    words, sections = _words(text), [(GLOBAL, list[tuple[str, str]]())]
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            hint = "options begin with -; a job file is given alone: --fio FILE.fio"
            raise UsageError(f"{word[:80]!r} is no option of fio", hint=hint)
        option, value = _option(word.lstrip("-"))
        if "=" not in word and words and not words[0].startswith("-"):
            value = words.pop(0)
        option = full_name(option)
        if match := re.search("[\n;#]", value):
            raise UsageError(f"the value of {option[:40]} has the character {match[0]!a}")
        if option != "name":
            sections[-1][1].append(_named(option, value))
        elif _SECTION.fullmatch(f"[{value}]"):
            sections.append((value, []))
        else:
            raise UsageError(f"{value[:80]!r} is no name of a job", hint="write --name=NAME")
    if len(sections) == 1:
        sections = [(_UNNAMED, sections[0][1])]
    return [
        Section(name, tuple(options)) for name, options in sections if options or name != GLOBAL
    ]


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text.replace("\\\n", " ").strip())
    except ValueError as exc:
        raise UsageError(
            f"the fio line is not complete: {exc}", hint="quotes come in pairs"
        ) from exc
    words = words[1:] if words[:1] in (["$"], ["#"]) else words
    words = words[1:] if words[:1] == ["sudo"] else words
    words = words[1:] if words and Path(words[0]).name == "fio" else words
    if shell := next((word for word in words if word in _OF_A_SHELL), ""):
        raise UsageError(
            f"{shell!r} is for a shell, not for fio", hint="give what stands between fio and that"
        )
    if not words:
        raise UsageError("the fio line is empty", hint="write --fio '--rw=randread --bs=4k'")
    return words
