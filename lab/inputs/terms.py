# SPDX-License-Identifier: GPL-2.0-or-later
"""The words of the lab that are values: engines, levels of evidence, verdicts, metrics."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Engine(StrEnum):
    """What executes and times a guest."""

    EXACT = "exact"
    SIM = "sim"
    TCG = "tcg"
    KVM = "kvm"

    @property
    def deterministic(self) -> bool:
        """Whether nothing of the host, not even its file system, reaches into the guest."""
        return self in (Engine.EXACT, Engine.SIM)

    @property
    def simulated(self) -> bool:
        """Whether a machine model says what the guest's work costs."""
        return self is Engine.SIM

    @property
    def clock(self) -> str:
        """Whose clock tells how long a guest's I/Os take, as a word before their unit."""
        if self.simulated:
            return "simulated"
        return "guest-clock" if self.deterministic else "host-clock"

    @property
    def pausable(self) -> bool:
        """Whether a guest that QEMU stops cannot notice: all its clocks are QEMU's own."""
        return self is Engine.TCG


class Level(StrEnum):
    """What kind of evidence an expectation asks for."""

    MECHANISM = "mechanism"
    COST = "cost"
    SIMULATED = "simulated"
    WALL = "wall clock"


class Verdict(StrEnum):
    """What is known of a claim; ERROR is none: the lab or the base kernel failed."""

    HOLDS = "HOLDS"
    REFUTED = "REFUTED"
    INCONCLUSIVE = "INCONCLUSIVE"
    SKIPPED = "skipped"
    ERROR = "ERROR"

    @property
    def decided(self) -> bool:
        """Whether it is a yes or a no."""
        return self in (Verdict.HOLDS, Verdict.REFUTED)


class Miss(StrEnum):
    """What became of a known miss, an expectation that is recorded not to hold."""

    KNOWN = "known miss"
    HOLDS = "known miss that holds"
    MOVED = "known miss that moved"

    @property
    def outdated(self) -> bool:
        """Whether the record is wrong: what is measured differs from what it says."""
        return self is not Miss.KNOWN


class Better(StrEnum):
    """In which direction a metric improves."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True)
class Metric:
    """What a number of a boot is: its unit, and whether more of it is better."""

    unit: str
    better: Better = Better.LOWER
