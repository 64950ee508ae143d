# SPDX-License-Identifier: GPL-2.0-or-later
"""Workloads: what a guest runs and measures, one TOML file each in workloads/.

An fio workload has a Jinja2 template NAME.fio.j2 beside its NAME.toml, or a whole job in the file;
NAME.fio alone is one, too, and so is what a user gives by --fio.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Mapping
from functools import cache as once
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import jinja2
from pydantic import Field, field_validator, model_validator

from lab.base import cache
from lab.base.errors import UsageError, nearest
from lab.base.system import data
from lab.base.toml import Model, load, named, names, parse
from lab.inputs import counters, fio_line, fio_needs, fio_program, guest_command, io_uring_line
from lab.inputs.fio_line import FioJob
from lab.inputs.names import is_word

FOLDER = data("workloads")
Value = int | float | str
_JOB_FILE = ".fio"
# How long a job runs under engines that measure time, if it is not fixed.
_SECONDS, _RAMP_SECONDS = 30, 2
_LONGEST_STEM, _ID_LENGTH = 24, 8
_LONGEST_TITLE = 300
# What stands for $N in the two runs of a command that has it. Chosen.
_AMOUNTS = (100, 1100)
# The kernel fragments of what a command names.
_FRAGMENTS = {"xfs": "filesystems", "ext4": "ext4"}
_GIVEN = re.compile(r"\w{1,24}-[0-9a-f]{8}", re.ASCII)
# The parameter that says how many submit I/O at once.
JOBS = "numjobs"
# Of a number in a parameter. Chosen: more than a week's seconds, or anyone's jobs.
_LARGEST = 1_000_000
# The guest's clock samples them at every tick, so that seeds differ far more than in time.
CPU_SHARES = ("usr_cpu", "sys_cpu")
# Runs of hardware queues on raid64 with bfq: 30 % apart with four seeds.
_COUNTED = 0.31


class Noise(Model):
    """How far two seeds of equal guests are apart at the exact engine, as fractions.

    The largest that was seen on six seeds, rounded up; docs/notes/2026-11-verdicts.md has the
    figures.
    """

    insns: float = Field(default=0.01, ge=0, description="kernel instructions per I/O")
    time: float = Field(default=0.2, ge=0, description="time by the guest's clock")
    simulated: float = Field(default=0.05, ge=0, description="simulated metrics")
    counted: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default={}, description="counters and shares of the CPU, by name"
    )

    @field_validator("counted")
    @classmethod
    def _are_counters(cls, counted: dict[str, float]) -> dict[str, float]:
        for name in counted:
            if name not in {*counters.known(), *CPU_SHARES}:
                raise ValueError(f"neither a counter nor a share of the CPU is called {name!r}")
        return counted

    def of_counter(self, name: str) -> float:
        """How far two seeds are apart in a counter; if nobody looked, the most seen of any."""
        return self.counted.get(name, _COUNTED)


class Workload(Model):
    """One workload. A parameter that is a list makes one cell for each of its values."""

    title: str = Field(description="the workload, in one line")
    tool: Literal["fio", "dbench", "command"] = Field(
        default="fio", description="the program that runs in the guest"
    )
    metric: str = Field(default="iops", description="the tool's metric that tables show")
    fio: str = Field(
        default="", description="any fio command line or job file, in place of NAME.fio.j2"
    )
    command: str = Field(default="", description="shell command of the tool command")
    setup: str = Field(
        default="",
        description="shell command before it, and before a file system is made; not measured",
    )
    folder: str = Field(default="", description="where the files lie that both name")
    polls: bool = Field(default=False, description="it needs queues to poll")
    size_mib: int = Field(default=1024, ge=16, description="size of the disk in MiB")
    size_mib_per_client: int = Field(default=0, description="additional MiB for each dbench client")
    exact_ios: tuple[int, int] = Field(
        default=(1000, 41000), description="I/Os of all fio jobs in the exact engine's two runs"
    )
    noise: Noise = Field(default=Noise(), description="spread of seeds")
    checks_data: bool = Field(
        default=False,
        description="the job verifies its data: the disk must hold data, and the cell has no cost",
    )
    filesystem: Literal["xfs"] | None = Field(
        default=None, description="file system that the guest makes and mounts"
    )
    mkfs: str = Field(default="", description="options of mkfs")
    kernel: tuple[str, ...] = Field(
        default=(), description="kernel fragments that the workload needs"
    )
    switches: bool = Field(
        default=False, description="the guest switches the scheduler during the job"
    )
    parameters: dict[str, Value | tuple[Value, ...]] = Field(
        default={}, description="variables of the job template; a list makes a cell for each value"
    )

    @model_validator(mode="before")
    @classmethod
    def _has_a_whole_job(cls, written: Any) -> Any:
        """Complete a workload whose job is written out by what its job needs."""
        if not isinstance(written, dict) or not isinstance(written.get("fio"), str):
            return written
        try:
            job = fio_program.read(written["fio"])
            needs = fio_needs.of(job)
        except UsageError as exc:
            raise ValueError(exc.brief + (f"; {exc.hint}" if exc.hint else "")) from exc
        usual = {"seconds": _SECONDS, "ramp_seconds": _RAMP_SECONDS, "ios": 0}
        return {
            "title": textwrap.shorten(fio_line.command_line(job), _LONGEST_TITLE),
            "exact_ios": needs.ios,
            **({"filesystem": "xfs"} if needs.on_files else {}),
            **written,
            "fio": job.text(),
            "parameters": {JOBS: needs.jobs, **usual, **written.get("parameters", {})},
        }

    @property
    def job(self) -> FioJob | None:
        """The job that is written out; None for a template's."""
        return fio_line.parse(self.fio) if self.fio else None

    def ios_of(self, each: int, jobs: int) -> int:
        """All I/Os of so many jobs of which each is told to do so many."""
        twofold = fio_needs.of(self.job).twofold if self.job else 0
        return each * (jobs + min(jobs, twofold))

    def disk_mib(self, parameters: Mapping[str, Value]) -> int:
        """The size of the disk for given parameters."""
        return max(self.size_mib, self.size_mib_per_client * int(parameters.get("clients", 0)))

    def checked(
        self, changes: Mapping[str, Value | tuple[Value, ...]], where: str
    ) -> dict[str, Value | tuple[Value, ...]]:
        """The parameters with changes; UsageError for one that the workload does not have."""
        for name, change in changes.items():
            if name not in self.parameters:
                raise UsageError(
                    f"unknown parameter {name!r}", where=where, hint=nearest(name, self.parameters)
                )
            usual = self.parameters[name]
            numeric = not isinstance(usual[0] if isinstance(usual, tuple) else usual, str)
            for value in change if isinstance(change, tuple) else (change,):
                if numeric and isinstance(value, str):
                    raise UsageError(
                        f"the parameter {name} is a number, not {value!r}", where=where
                    )
                if isinstance(value, str) and not is_word(value):
                    raise UsageError(
                        f"the parameter {name} cannot be {value[:80]!r}",
                        where=where,
                        hint="write letters, digits and _ . , : = / @ % + -",
                    )
                least = int(name == JOBS)
                if isinstance(value, int | float) and not least <= value <= _LARGEST:
                    raise UsageError(
                        f"the parameter {name} is from {least} to {_LARGEST:,}, not {value}",
                        where=where,
                    )
        return {**self.parameters, **changes}


def known() -> list[str]:
    """The names of all workloads that are files of the project, sorted."""
    return sorted({*names(FOLDER), *names(FOLDER, _JOB_FILE)})


def is_given(name: str) -> bool:
    """Whether a workload was made by give()."""
    if not _GIVEN.fullmatch(name):
        return False
    return _given_job_file(name).is_file() or _given_command(name).is_file()


def get(name: str) -> Workload:
    """The workload called name; UsageError names the nearest one."""
    if is_given(name) and (command := _given_command(name)).is_file():
        return load(command, Workload)
    path = _given_job_file(name) if is_given(name) else FOLDER / f"{name}{_JOB_FILE}"
    if path.is_file() and not (FOLDER / f"{name}.toml").is_file():
        return _of_job(fio_line.read(path), str(path))
    return load(named(FOLDER, name, ".toml", "workload"), Workload)


def give(text: str, where: str, stem: str = "") -> str:
    """Make a workload of a fio command line or the text of a job file; returns its name.

    It is kept in the cache, so that what was measured can be booted again. Raises UsageError, with
    fio's own words, for what fio does not take or a guest cannot run.
    """
    work = _of_job(text, where)
    ((_, first), *_) = list(fio_line.parse(work.fio).jobs())
    name = _name_of(stem or fio_needs.direction(first), work.fio)
    if not is_given(name):
        cache.write_atomically(_given_job_file(name), work.fio)
    return name


def give_command(command: str, setup: str = "") -> tuple[str, list[str]]:
    """Make a workload of a shell command, and of one that is run before it; returns its name, and
    what was changed in the commands.

    Raises UsageError for what is no command, and for files that it cannot take along.
    """
    for text, where in ((command, "--run"), (setup or ":", "--setup")):
        guest_command.require_text(text, where)
    (command, changes), (setup, more) = map(guest_command.fitted, (command, setup))
    folder = Path.cwd()
    guest_command.files(f"{setup}\n{command}", folder)
    content = {
        "title": textwrap.shorten(command, _LONGEST_TITLE),
        "tool": "command",
        "metric": "kernel_insns",
        "kernel": [kind for word, kind in _FRAGMENTS.items() if word in f"{setup} {command}"],
        "command": command,
        "setup": setup,
        "folder": str(folder),
        "polls": io_uring_line.polls(command),
        "exact_ios": _AMOUNTS,
    }
    # JSON's text, numbers and lists are TOML, too.
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in content.items())
    name = _name_of(Path(command.split()[0]).name, text)
    cache.write_atomically(_given_command(name), text)
    return name, list(dict.fromkeys([*changes, *more]))


def _name_of(stem: str, content: str) -> str:
    """The name of a workload that a user gave, which is_given() knows."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", stem)
    return f"{plain[:_LONGEST_STEM]}-{cache.key(content)[:_ID_LENGTH]}"


def options(name: str) -> list[str]:
    """The words of a command line that name a workload, on any host."""
    if not is_given(name):
        return ["--workload", name]
    work = get(name)
    if work.tool == "command":
        return ["--run", work.command, *(("--setup", work.setup) if work.setup else ())]
    assert work.job
    return ["--fio", fio_line.command_line(work.job)]


def of_line_or_file(line_or_file: str) -> str:
    """The name of the workload that a user gives as a fio command line, or as the path of a job
    file. Raises UsageError as give() does.
    """
    path = Path(line_or_file)
    if line_or_file.endswith(_JOB_FILE) and len(line_or_file.split()) == 1:
        return give(fio_line.read(path), line_or_file, path.stem)
    return give(line_or_file, "--fio")


@lru_cache(maxsize=256)
def _of_job(text: str, where: str) -> Workload:
    try:
        fio_needs.of(fio_program.read(text))
    except UsageError as exc:
        raise UsageError(exc.what, where=where, hint=exc.hint) from exc
    return parse({"fio": text}, Workload, Path(where))


def _given_job_file(name: str) -> Path:
    return cache.root() / "fio" / f"{name}{_JOB_FILE}"


def _given_command(name: str) -> Path:
    return cache.root() / "commands" / f"{name}.toml"


def noise(name: str) -> Noise:
    """How far seeds of a workload are apart; the usual where the workload is not there any more."""
    try:
        return get(name).noise
    except UsageError:
        return Noise()


def fio_job(name: str, parameters: Mapping[str, Value]) -> str:
    """The job file of an fio workload; UsageError where its template is missing or wrong."""
    template = f"{name}.fio.j2"
    try:
        return _environment(FOLDER).get_template(template).render(parameters) + "\n"
    except jinja2.TemplateNotFound as exc:
        is_job_file = exc.name == template
        what = f"workload {name!r} has no job file" if is_job_file else f"no template {exc.name!r}"
        raise UsageError(what, where=str(FOLDER / template)) from exc
    except jinja2.TemplateError as exc:
        line = f":{exc.lineno}" if isinstance(exc, jinja2.TemplateSyntaxError) else ""
        raise UsageError(str(exc), where=f"{FOLDER / template}{line}") from exc
    except (ArithmeticError, TypeError, ValueError) as exc:
        raise UsageError(
            f"the parameters make no job: {exc}", where=str(FOLDER / template)
        ) from exc


def has_marks(name: str) -> bool:
    """Whether the jobs of a workload mark where their I/O begins and ends, between which a
    deterministic guest's counters are counted. Raises UsageError as fio_job does.
    """
    work = get(name)
    if work.tool != "fio" or work.job:
        return True  # the agent makes them, or the lab does (lab/inputs/fio_job.py)
    first = {k: v[0] if isinstance(v, tuple) else v for k, v in work.parameters.items()}
    text = fio_job(name, {**first, "ios": 1})
    return all(f"\n{option}=" in text for option in ("exec_prerun", "exec_postrun"))


# What the lab itself says to fio: how much, to which disk, and how it reports.
_OF_THE_LAB = frozenset(
    {
        *("filename", "group_reporting", "randrepeat", "norandommap", "time_based", "runtime"),
        *("ramp_time", "number_ios", "thread", "exec_prerun", "exec_postrun"),
    }
)


def command_line(name: str, parameters: Mapping[str, Value]) -> str:
    """What a workload runs as one line, to be quoted: the options of its fio job without those
    about disk, amount and output; of dbench the number of clients.
    """
    work = get(name)
    if work.tool == "command":
        return work.command
    if work.tool == "dbench":
        return f"dbench {parameters.get('clients', 1)}"
    if work.job:
        return fio_line.command_line(work.job, _OF_THE_LAB)
    unfixed = {"ios": 0} if "ios" in parameters else {}
    sections = fio_line.file_sections(fio_job(name, {**parameters, **unfixed}))
    return fio_line.command_line(FioJob(tuple(sections)), _OF_THE_LAB)


@once
def _environment(folder: Path) -> jinja2.Environment:
    """What compiles the templates of a folder, each once until its text changes."""

    def source(name: str) -> tuple[str, str, Callable[[], bool]] | None:
        path = folder / name
        if not path.is_file():
            return None
        text = path.read_text()
        # Jinja2's own loader compares times, which an edit soon after the first reading keeps.
        return text, str(path), lambda: path.is_file() and path.read_text() == text

    return jinja2.Environment(
        loader=jinja2.FunctionLoader(source),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
