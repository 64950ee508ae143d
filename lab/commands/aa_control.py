# SPDX-License-Identifier: GPL-2.0-or-later
"""A/A control: the same kernel under several names, and how often the judge calls a change."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base.stats import Interval, Paired, paired
from lab.guest.host_noise import PREFIX
from lab.inputs import workload
from lab.inputs.profile import Block, Profile
from lab.inputs.terms import Engine
from lab.judge.seed_noise import seed_noise
from lab.measure import matrix
from lab.measure.boot_store import StoredBoot
from lab.measure.cell import STOCK, PlannedCell
from lab.measure.matrix import Selection
from lab.measure.runner import Outcome
from lab.measure.session import Session

_NOTHING = Interval(0.0, 0.0)
# Small guests whose disks need nothing but memory: what they measure is the host's noise.
TOPOLOGIES = ("nullb", "nullb_mq")
WORKLOADS = ("randread_burst", "randwrite_uring")


@dataclass(frozen=True)
class Comparison:
    """Two names for the same thing, compared as if they were two."""

    cell: PlannedCell
    arms: tuple[str, str]
    pairs: Paired

    def called(self, alpha: float) -> bool:
        """Whether the judge sees a change where there is none."""
        return self.pairs.interval(alpha).apart(_NOTHING)


@dataclass(frozen=True)
class SeedPair:
    """Two seeds of a simulated cell, of one kernel or of two that do the same.

    change is that of the throughput from one to the other, margin what the judge allows for.
    """

    cell: PlannedCell
    kernels: tuple[str, str]
    change: float
    margin: float

    @property
    def called(self) -> bool:
        """Whether the judge sees a change where there is none."""
        return abs(self.change) > self.margin


@dataclass(frozen=True)
class Repetition:
    """Whether two boots of an exact cell were equal, or what failed."""

    cell: PlannedCell
    equal: bool
    failure: str = ""


def cells(profile: Profile, engine: Engine, count: int) -> list[PlannedCell]:
    """The first cells of small topologies: every scheduler before the next workload."""
    block = Block(topologies=TOPOLOGIES, schedulers=matrix.SCHEDULERS, workloads=WORKLOADS)
    short = profile.model_copy(update={"matrix": (block,)})
    return matrix.cells(short, Selection(), engine)[:count]


def wall_clock(session: Session, engine: Engine, count: int, arms: int) -> list[Comparison]:
    """Boot each of count cells under several names in rounds; compare every name with every other.

    With n arms a round gives n(n-1)/2 comparisons. They share boots, so they are not independent;
    the rate of false calls is still the rate that a single comparison has.
    """
    names = [f"a{number}" for number in range(1, arms + 1)]
    kernel, found = session.testbed.probe_kernel, []
    planned = cells(session.profile, engine, count)
    with session.measuring([one.on(kernel) for one in planned]) as runner:
        for one in planned:
            rounds = runner.rounds([one.on(kernel, name) for name in names], session.profile.rounds)
            if rounds.error:
                session.progress.say(f"    only {rounds.complete} rounds: {rounds.error.brief}")
            metric = workload.get(one.cell.workload).metric
            values = {a: [b.values[metric] for b in rounds.boots[a]] for a in names}
            for left, right in itertools.combinations(names, 2):
                if values[left]:
                    pairs = paired(values[left], values[right])
                    found.append(Comparison(one, (left, right), pairs))
    return found


def simulated(
    session: Session, count: int, seeds: int, patches: Sequence[Path] = ()
) -> list[SeedPair]:
    """Simulate each of count cells with several seeds, without and with patches that do nothing.

    Of the kernel without them every seed is compared with every other, and each with the same seed
    of a kernel with one of the patches. Raises LabError when a guest fails.
    """
    kernels = {STOCK: session.testbed.probe_kernel}
    kernels |= {path.name: session.kernel(patches=[path]) for path in patches}
    planned, found = cells(session.profile, Engine.SIM, count), []
    every = range(1, seeds + 1)
    tasks = [
        one.on(kernel, name).seeded(seed)
        for one in planned
        for name, kernel in kernels.items()
        for seed in every
    ]
    boots = (boot for outcome in session.outcomes(tasks) for boot in _boots(outcome))
    for one in planned:
        metric = workload.get(one.cell.workload).metric
        margin = seed_noise(one.cell.workload, Engine.SIM, metric)
        values = {name: [next(boots).values[metric] for _ in every] for name in kernels}
        pairs = [(STOCK, old, new) for old, new in itertools.combinations(values[STOCK], 2)]
        for name in list(kernels)[1:]:
            pairs += [(name, *both) for both in zip(values[STOCK], values[name], strict=True)]
        found += [SeedPair(one, (STOCK, name), new / old - 1, margin) for name, old, new in pairs]
    return found


def _boots(outcome: Outcome) -> Sequence[StoredBoot]:
    outcome.require_boots()
    return outcome.boots


def exact(session: Session, count: int) -> list[Repetition]:
    """Measure each of count cells of the exact engine twice; whether all numbers were equal.

    A cell whose guest fails is reported as such, and the others are measured all the same.
    """
    kernel, found = session.testbed.probe_kernel, []
    planned = cells(session.profile, Engine.EXACT, count)
    with session.measuring([one.on(kernel) for one in planned]) as runner:
        for one in planned:
            rounds = runner.rounds([one.on(kernel, name) for name in ("a1", "a2")], 1)
            if rounds.complete:
                left, right = (measured(rounds.boots[name][0].values) for name in ("a1", "a2"))
                found.append(Repetition(one, equal=left == right))
            else:
                why = rounds.error.brief if rounds.error else "the host disturbed it"
                found.append(Repetition(one, equal=False, failure=why))
    return found


def measured(values: Mapping[str, float]) -> dict[str, float]:
    """What was measured of a guest's I/O: neither the host's noise nor the share of its end,
    which QEMU stops whenever it gets there.
    """
    other = (PREFIX, "measured_share")
    return {name: value for name, value in values.items() if not name.startswith(other)}
