# SPDX-License-Identifier: GPL-2.0-or-later
"""Machine models: what work costs on a simulated multiprocessor, one TOML file each.

They lie in configs/machine. Times are in nanoseconds of the guest.
"""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from lab.base.errors import UsageError
from lab.base.system import data
from lab.base.toml import Model, load, named, names

FOLDER = data("configs") / "machine"
DEFAULT = "xeon16"
# A set of vCPUs is a word of 64 bits (lab/build/sim/sim.h).
MAX_CPUS = 64
# How far a vCPU may be ahead of the slowest other one. A lock that is held for less seems free:
# at 1000 ns a gain of 87 % looks like 58 %, from 10 down it stays within 1.2 %
# (docs/notes/2026-11-simulated.md).
QUANTUM_NS = 10
# No model: an instruction takes a nanosecond, and nothing else takes any time. Nothing is asked
# about contention then: turns are long, which is faster, and a PAUSE waits for one.
COUNTING = ("quantum=1000", "insn=1000", "pause=1000000")
# How far off a machine model may be: what it says of the cost of a move is public for few machines,
# and measured differently by each source.
SENSITIVITY = (0.5, 2.0)
_MAX_LEVELS = 8


class TransferLevel(Model):
    """The cost of a cache-line transfer between CPUs of one distance."""

    cpus: int = Field(ge=1, description="number of neighbouring CPUs within this distance")
    clean_ns: float = Field(ge=0, description="read of a line that other CPUs only read")
    dirty_ns: float = Field(ge=0, description="read or write of a line that another CPU wrote")
    upgrade_ns: float = Field(ge=0, description="write to a line that other CPUs hold for reading")

    @property
    def costs_ns(self) -> tuple[float, float, float]:
        """What the three kinds of moves cost: clean, dirty, upgrade."""
        return self.clean_ns, self.dirty_ns, self.upgrade_ns


class MachineModel(Model):
    """A machine: its CPUs, what their work costs, and what moving cache lines among them costs."""

    title: str = Field(description="the machine, in one line")
    cpus: int = Field(ge=1, description="CPUs of the machine")
    active: int = Field(
        default=0, ge=0, description="default number of vCPUs of a guest; 0: all CPUs"
    )
    insn_ns: float = Field(gt=0, le=1000, description="cost of an instruction without a cache miss")
    pause_ns: float = Field(ge=0, description="cost of a PAUSE")
    clock_ns: float = Field(ge=0, description="cost of a read of the clock")
    level: tuple[TransferLevel, ...] = Field(
        min_length=1,
        max_length=_MAX_LEVELS,
        description="cache-line transfer costs by distance, nearest first",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        sizes = [level.cpus for level in self.level]
        if sizes != sorted(set(sizes)) or sizes[-1] != self.cpus:
            raise ValueError("levels go from the nearest CPUs to all CPUs of the machine")
        if self.usual_cpus > min(self.cpus, MAX_CPUS):
            raise ValueError(f"no more than {MAX_CPUS} CPUs, and those there are, can be active")
        return self

    @property
    def usual_cpus(self) -> int:
        """The vCPUs of a guest if not told otherwise."""
        return self.active or self.cpus

    def options(self, vcpus: int) -> tuple[str, ...]:
        """The model as the plugin's arguments, for a guest whose vCPUs are spread evenly.

        Raises UsageError when the machine has fewer CPUs, or the simulation has no room for them.
        """
        most = min(self.cpus, MAX_CPUS)
        if vcpus > most:
            raise UsageError(
                f"a guest of {vcpus} vCPUs has no place on this machine: {self.title}",
                hint=f"choose at most {most}",
            )
        levels = (":".join(f"{n:g}" for n in (one.cpus, *one.costs_ns)) for one in self.level)
        return (
            f"quantum={QUANTUM_NS}",
            f"insn={round(self.insn_ns * 1000)}",
            f"pause={round(self.pause_ns * 1000)}",
            f"clock={round(self.clock_ns * 1000)}",
            f"levels={'/'.join(levels)}",
            f"stride={self.cpus // vcpus}",
        )


def known() -> list[str]:
    """The names of all machine models, sorted."""
    return names(FOLDER)


def get(name: str) -> MachineModel:
    """The machine model called name; UsageError names the nearest one."""
    return load(named(FOLDER, name, ".toml", "machine model"), MachineModel)
