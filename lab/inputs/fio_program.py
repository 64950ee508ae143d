# SPDX-License-Identifier: GPL-2.0-or-later
"""What this host's fio says of a job: which options and engines there are, and what is wrong.

It is the fio that guests get. It only parses here, confined, and what of a job makes the parser
open a file or load code never reaches it.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

from lab.base import sandbox
from lab.base.cache import scratch
from lab.base.errors import LabError, UsageError, nearest
from lab.base.process import run
from lab.base.sandbox import Limits, View
from lab.base.system import which
from lab.inputs.fio_line import GLOBAL, FioJob, Section, parse

# Chosen: a job file of 64 KiB took 0.1 s.
_PATIENCE_S = 20.0
_MEMORY = 1 << 30
_NAME = re.compile(r"\s*([\w-]+)\s*:")
_DROPPED = re.compile(r"^fio: job .* dropped$")
_PROGRAM_OPTION = re.compile(r"  --([\w-]+)")
# fio's own options that make another program of it; its others are about output.
_OTHER_PROGRAMS = frozenset(
    {
        *("client", "server", "daemonize", "remote-config", "merge-blktrace-only", "inflate-log"),
        *("cmdhelp", "enghelp", "help", "version", "crctest", "cpuclock-test", "idle-prof"),
        *("trigger", "trigger-file", "trigger-timeout", "trigger-remote"),
    }
)
_SECTION = "section"
# What fio's parser looks up among the host's files.
_PATHS = frozenset({"filename", "directory"})
# What would read the host's files, or run a program: there is none of either in a guest.
_OUTSIDE = {
    "exec_prerun": "runs a program",
    "exec_postrun": "runs a program",
    "opendir": "lists a folder of this host",
    "read_iolog": "replays a file of this host",
    "merge_blktrace_file": "reads traces of this host",
    "verify_state_load": "reads a file of this host",
    "profile": "is a program of its own, not a job",
}


@lru_cache(maxsize=256)
def read(text: str) -> FioJob:
    """A command line or the text of a job file, as fio takes it, without options of fio itself.

    Raises UsageError, with fio's own words, for what fio does not take, and for what would have to
    run or be read outside of a guest.
    """
    parsed = parse(text, _full_name)
    chosen = {v for s in parsed.sections for name, v in s.options if name == _SECTION}
    sections = tuple(
        Section(section.name, tuple(o for o in section.options if not _is_of_program(o[0])))
        for section in parsed.sections
        if not chosen or section.name in {GLOBAL, *chosen}
    )
    if unknown := sorted(chosen - {section.name for section in parsed.sections}):
        raise UsageError(f"--section={unknown[0]} names no section of the job")
    job = FioJob(sections)
    for section in sections:
        for name, value in section.options:
            _require_inside(name, value)
    _require_engines(job)
    _require_parsed(job)
    return job


def _is_of_program(name: str) -> bool:
    """Whether an option is of fio itself, not of a job; UsageError for another program."""
    if name in _OTHER_PROGRAMS:
        raise UsageError(f"--{name} makes fio another program, which has no job: leave it out")
    return name in _program_options() and name not in options()


def _require_inside(name: str, value: str) -> None:
    if name in _OUTSIDE:
        raise UsageError(
            f"{name} {_OUTSIDE[name]}: nothing but fio runs, in a guest", hint="leave it out"
        )
    if name not in _PATHS and "$" in value:
        raise UsageError(
            f"{name}={value[:80]} depends on where fio runs", hint="write the value itself"
        )
    # fio reads a pattern in such quotes from the file of that name.
    if name.endswith("_pattern") and "'" in value:
        raise UsageError(f"{name}={value[:80]} reads a file of this host", hint="write the pattern")


def _require_engines(job: FioJob) -> None:
    for section in job.sections:
        engine = dict(section.options).get("ioengine", "")
        # Of a path, and of "external:", fio would load code.
        if engine and engine not in engines():
            raise UsageError(
                f"this fio has no engine {engine[:80]!r}", hint=nearest(engine, engines())
            )


def _require_parsed(job: FioJob) -> None:
    """Have fio parse a job. Raises UsageError with its words."""
    kept = FioJob(
        tuple(
            Section(s.name, tuple(o for o in s.options if o[0] not in _PATHS)) for s in job.sections
        )
    )
    limits = Limits(file_bytes=0, cpu_s=int(_PATIENCE_S), memory_bytes=_MEMORY)
    with scratch() as folder:
        path = folder / "job.fio"
        path.write_text(kept.text())
        argv = sandbox.confined([_fio(), "--parse-only", str(path)], View((folder,), limits=limits))
        done = run(argv, check=False, merge=True, timeout_s=_PATIENCE_S)
    if done.status:
        lines = [line for line in done.output.splitlines() if line and not _DROPPED.search(line)]
        said = "; ".join(line.removeprefix("fio: ") for line in lines[:3]) or "no reason"
        raise UsageError(
            f"fio does not take the job: {said}",
            hint=f"this is {_said('--version').strip()}: see `fio --cmdhelp=all`",
        )


def _full_name(name: str) -> str:
    """The whole name of an option that begins so, as getopt_long(3) finds it."""
    every = options() | _program_options()
    matching = [option for option in every if option.startswith(name)]
    return matching[0] if name not in every and len(matching) == 1 else name


@cache
def engines() -> frozenset[str]:
    """The I/O engines that this fio was built with."""
    lines = _said("--enghelp").splitlines()
    return frozenset(line.strip() for line in lines if line.startswith("\t"))


@cache
def engine_options(engine: str) -> frozenset[str]:
    """The options that only an engine has."""
    return _names(_said(f"--enghelp={engine}"))


@cache
def options() -> frozenset[str]:
    """The options of jobs, of all engines."""
    return _names(_said("--cmdhelp=all"))


@cache
def _program_options() -> frozenset[str]:
    return frozenset(_PROGRAM_OPTION.findall(_said("--help")))


def _names(listing: str) -> frozenset[str]:
    matches = map(_NAME.match, listing.splitlines())
    return frozenset(match[1] for match in matches if match)


def _said(question: str) -> str:
    """What fio prints when it is asked for its options; nothing of a job is in that."""
    return run([_fio(), question], check=False, merge=True, timeout_s=_PATIENCE_S).output


def _fio() -> str:
    path = which("fio")
    if not path:
        raise LabError("fio is not installed", hint="`make setup` installs what the lab needs")
    return str(Path(path).resolve())
