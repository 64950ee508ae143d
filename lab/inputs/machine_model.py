# SPDX-License-Identifier: GPL-2.0-or-later
"""Machine models: what work costs on a simulated multiprocessor, one TOML file each.

They lie in configs/machine. Times are in nanoseconds of the guest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from lab.base.errors import UsageError
from lab.base.system import data
from lab.base.toml import Model, load, named

FOLDER = data("configs") / "machine"
DEFAULT = "xeon16"
# A set of vCPUs is a word of 64 bits (lab/build/sim/sim.h).
MAX_CPUS = 64
# How far off a machine model may be, and the plugin's word for it: thousandths of what a transfer
# and an instruction cost. The cost of a transfer is public for few machines, and measured
# differently by each source. Of instructions a cycle perf counted 1.43 on one machine (ICPE 2024),
# 1.72 without entries into the kernel; processors of two generations later execute some 2.
SENSITIVITY = {
    "transfers x0.5": "500:1000",
    "transfers x2": "2000:1000",
    "instructions x0.7": "1000:700",
    "instructions x1.4": "1000:1400",
}
_MAX_LEVELS = 8
_MAX_IDLE_STATES = 8


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


class Memory(Model):
    """What a machine does with cache lines that several CPUs want, beside what a transfer costs."""

    locked_ns: float = Field(ge=0, description="cost of a locked instruction that has its line")
    stay: float = Field(
        ge=0, le=10, description="mean time that a line stays with its writer, in transfers to it"
    )
    reads_take_ownership: bool = Field(
        description="whether a read of a line that another CPU wrote invalidates it there"
    )
    readers_keep_lines: bool = Field(
        default=False,
        description="whether a line that was read with ownership stays as one that was written",
    )
    load_gap_ns: float = Field(ge=0, description="least time between lines of independent loads")
    store_gap_ns: float = Field(ge=0, description="the same for stores")
    locked_gap_ns: float = Field(ge=0, description="the same for locked instructions")
    upgrade_gap_ns: float = Field(
        ge=0, description="the same for locked instructions on lines that other CPUs hold"
    )

    def options(self) -> tuple[str, ...]:
        """It as the plugin's arguments."""
        gaps = (self.load_gap_ns, self.store_gap_ns, self.locked_gap_ns)
        return (
            "awaits=1",
            f"locked={_thousandths(self.locked_ns)}",
            f"stay={_thousandths(self.stay)}",
            f"read_stay={_thousandths(self.stay) if self.readers_keep_lines else 0}",
            f"ownership={int(self.reads_take_ownership)}",
            f"gaps={'/'.join(str(_thousandths(gap)) for gap in gaps)}",
            f"upgrade_gap={_thousandths(self.upgrade_gap_ns)}",
        )


class IdleState(Model):
    """A state of an idle CPU. One that waits for so long is in the deepest that is worth it."""

    residency_us: float = Field(ge=0, description="least idle time that it is chosen for")
    exit_us: float = Field(ge=0, description="time from an interrupt to its first instruction")

    @property
    def option(self) -> str:
        """It as the plugin's argument has it, in nanoseconds."""
        return f"{_thousandths(self.residency_us)}:{_thousandths(self.exit_us)}"


class Core(Model):
    """A core that executes out of order."""

    window: int = Field(ge=1, le=4096, description="instructions in flight")
    cycle_ns: float = Field(gt=0, description="length of a cycle")
    width: int = Field(ge=1, le=16, description="instructions that retire in a cycle")
    load_cycles: int = Field(ge=0, description="latency of a load that hits")
    refill_cycles: int = Field(ge=0, description="cost of a wrong prediction once it is known")

    def options(self) -> tuple[str, ...]:
        """It as the plugin's arguments."""
        return (
            f"window={self.window}",
            f"cycle={_thousandths(self.cycle_ns)}",
            f"width={self.width}",
            f"load={self.load_cycles}",
            f"refill={self.refill_cycles}",
        )


def _thousandths(number: float) -> int:
    return round(number * 1000)


class MachineModel(Model):
    """A machine: its CPUs, what their work costs, and what moving cache lines among them costs."""

    title: str = Field(description="the machine, in one line")
    published_as: tuple[str, ...] = Field(
        default=(), description="what published figures of this machine call it"
    )
    cpus: int = Field(ge=1, description="CPUs of the machine")
    active: int = Field(
        default=0, ge=0, description="default number of vCPUs of a guest; 0: all CPUs"
    )
    insn_ns: float = Field(
        ge=0.001, le=1000, description="cost of an instruction without a cache miss"
    )
    pause_ns: float = Field(ge=0, description="cost of a PAUSE")
    clock_ns: float = Field(ge=0, description="cost of a read of the clock")
    interrupt_ns: float = Field(
        default=0, ge=0, description="cost of an interrupt's entry and exit beyond instructions"
    )
    syscall_ns: float = Field(default=0, ge=0, description="the same of a system call")
    level: tuple[TransferLevel, ...] = Field(
        min_length=1,
        max_length=_MAX_LEVELS,
        description="cache-line transfer costs by distance, nearest first",
    )

    memory: Memory | None = Field(
        default=None, description="what becomes of contended lines; default: they go at once"
    )
    core: Core | None = Field(default=None, description="default: a core that executes in order")
    idle: tuple[IdleState, ...] = Field(
        default=(),
        max_length=_MAX_IDLE_STATES,
        description="states of an idle CPU, the shallowest first; default: it wakes up at once",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        sizes = [level.cpus for level in self.level]
        if sizes != sorted(set(sizes)) or sizes[-1] != self.cpus:
            raise ValueError("levels go from the nearest CPUs to all CPUs of the machine")
        residencies = [state.residency_us for state in self.idle]
        if residencies != sorted(set(residencies)):
            raise ValueError("idle states go from the shallowest to the deepest")
        if self.usual_cpus > min(self.cpus, MAX_CPUS):
            raise ValueError(f"no more than {MAX_CPUS} CPUs, and those there are, can be active")
        return self

    @property
    def usual_cpus(self) -> int:
        """The vCPUs of a guest if not told otherwise."""
        return self.active or self.cpus

    def options(self, vcpus: int) -> tuple[str, ...]:
        """The model as the plugin's arguments, for a guest whose vCPUs are spread evenly.

        Raises UsageError when the machine has fewer CPUs, or more than the simulation has.
        """
        most = min(self.cpus, MAX_CPUS)
        if vcpus > most:
            raise UsageError(
                f"a guest of {vcpus} vCPUs has no place on this machine: {self.title}",
                hint=f"choose at most {most}",
            )
        levels = (":".join(f"{n:g}" for n in (level.cpus, *level.costs_ns)) for level in self.level)
        return (
            # The vCPU whose clock is the earliest runs: one that is ahead keeps lines that an
            # earlier one asks for (docs/notes/2026-11-simulated.md).
            "quantum=0",
            f"insn={_thousandths(self.insn_ns)}",
            f"pause={_thousandths(self.pause_ns)}",
            f"clock={_thousandths(self.clock_ns)}",
            f"levels={'/'.join(levels)}",
            f"stride={self.cpus // vcpus}",
            *((f"interrupt={_thousandths(self.interrupt_ns)}",) if self.interrupt_ns else ()),
            *((f"syscall={_thousandths(self.syscall_ns)}",) if self.syscall_ns else ()),
            *(self.memory.options() if self.memory else ()),
            *(self.core.options() if self.core else ()),
            *((f"idle={'/'.join(state.option for state in self.idle)}",) if self.idle else ()),
        )


def counting(insn_ns: float = 1) -> tuple[str, ...]:
    """The plugin's arguments without a model: an instruction takes insn_ns, nothing else any time.

    Nothing is asked about contention then: turns are long, which is faster, and a PAUSE waits for
    one.
    """
    return ("quantum=1000", f"insn={_thousandths(insn_ns)}", "pause=1000000")


def scaled(names: Sequence[str]) -> str:
    """The plugin's word for costs that SENSITIVITY names; UsageError for any other."""
    if unknown := [name for name in names if name not in SENSITIVITY]:
        raise UsageError(
            f"a machine model has no costs that are called {unknown[0]!r}",
            hint="another version of the lab measured it: measure it again",
        )
    return "/".join(SENSITIVITY[name] for name in names)


def get(name: str) -> MachineModel:
    """The machine model called name; UsageError names the nearest one."""
    return load(named(FOLDER, name, ".toml", "machine model"), MachineModel)
