# SPDX-License-Identifier: GPL-2.0-or-later
"""Workloads: what a guest runs and measures, one TOML file each in workloads/.

An fio workload has a Jinja2 template NAME.fio.j2 beside its NAME.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import jinja2
from pydantic import Field, field_validator

from lab.base.errors import UsageError, nearest
from lab.base.system import data
from lab.base.toml import Model, load, named, names
from lab.inputs import counters
from lab.inputs.names import is_word

FOLDER = data("workloads")
Value = int | float | str
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
        """How far two seeds are apart in a counter; of one that was not looked at, the most that
        was seen of any.
        """
        return self.counted.get(name, _COUNTED)


class Workload(Model):
    """One workload. A parameter that is a list makes one cell for each of its values."""

    title: str = Field(description="the workload, in one line")
    tool: Literal["fio", "dbench"] = Field(description="the program that runs in the guest")
    metric: str = Field(description="the tool's metric that tables show")
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
    kernel: tuple[str, ...] = Field(
        default=(), description="kernel fragments that the workload needs"
    )
    switches: bool = Field(
        default=False, description="the guest switches the scheduler during the job"
    )
    parameters: dict[str, Value | tuple[Value, ...]] = Field(
        default={}, description="variables of the job template; a list makes a cell for each value"
    )

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
    """The names of all workloads, sorted."""
    return names(FOLDER)


def get(name: str) -> Workload:
    """The workload called name; UsageError names the nearest one."""
    return load(named(FOLDER, name, ".toml", "workload"), Workload)


def fio_job(name: str, parameters: Mapping[str, Value]) -> str:
    """The job file of an fio workload.

    Raises UsageError when the template is missing, is wrong or uses an unknown parameter.
    """
    template = f"{name}.fio.j2"
    try:
        return _environment(FOLDER).get_template(template).render(parameters) + "\n"
    except jinja2.TemplateNotFound as exc:
        own = exc.name == template
        what = f"workload {name!r} has no job file" if own else f"no template {exc.name!r}"
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
    if work.tool != "fio":
        return True  # the agent makes them
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
    if get(name).tool != "fio":
        return f"dbench {parameters.get('clients', 1)}"
    unfixed = {"ios": 0} if "ios" in parameters else {}
    words = ["fio"]
    for line in fio_job(name, {**parameters, **unfixed}).splitlines():
        option, _, value = line.partition("=")
        if line.startswith("["):
            words += [f"--name={line.strip('[]')}"] if line != "[global]" else []
        elif line and not line.startswith("#") and option not in _OF_THE_LAB:
            words.append(f"--{option}={value}" if value else f"--{option}")
    return " ".join(words)


@cache
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
