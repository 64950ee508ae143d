# SPDX-License-Identifier: GPL-2.0-or-later
"""A/A control: the same kernel under several names, and how often the judge calls a change."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lab.base.progress import Progress
from lab.base.stats import Interval, Paired, paired
from lab.guest.host_noise import PREFIX
from lab.inputs import workload
from lab.inputs.profile import Profile
from lab.inputs.terms import Engine
from lab.measure import matrix
from lab.measure.boot_store import BootStore
from lab.measure.cell import Cell
from lab.measure.matrix import Selection
from lab.measure.runner import Runner, Task, Testbed
from lab.measure.session import measuring

_NOTHING = Interval(0.0, 0.0)
# Small guests whose disks need nothing but memory: what they measure is the host's noise.
TOPOLOGIES = ("nullb", "nullb_mq")
WORKLOADS = ("randread_burst", "randwrite_uring")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Comparison:
    """Two names for the same thing, compared as if they were two."""

    cell: Cell
    arms: tuple[str, str]
    pairs: Paired

    def called(self, alpha: float) -> bool:
        """Whether the judge sees a change where there is none."""
        return self.pairs.interval(alpha).apart(_NOTHING)


def cells(profile: Profile, engine: Engine, count: int) -> list[Cell]:
    """The first cells of small topologies: every scheduler before the next workload."""
    every = replace(
        Selection(), topologies=TOPOLOGIES, workloads=WORKLOADS, schedulers=matrix.SCHEDULERS
    )
    block = profile.matrix[0].model_copy(
        update={"topologies": TOPOLOGIES, "workloads": WORKLOADS, "schedulers": matrix.SCHEDULERS}
    )
    short = profile.model_copy(update={"matrix": (block,)})
    return matrix.cells(short, every, engine)[:count]


def wall_clock(
    testbed: Testbed,
    profile: Profile,
    engine: Engine,
    count: int,
    arms: int,
    store: BootStore,
    progress: Progress,
) -> list[Comparison]:
    """Boot each of count cells under several names in turn; compare every name with every other.

    With n arms a round gives n(n-1)/2 comparisons. They share boots, so they are not independent;
    the rate of false calls is still the rate that a single comparison has.
    """
    names = [f"a{number}" for number in range(1, arms + 1)]
    found = []
    with measuring(testbed, store, progress, sealed=False, timed=True):
        runner = Runner(testbed, store, progress)
        for cell in cells(profile, engine, count):
            tasks = [Task(replace(cell, arm=name), testbed.kernel) for name in names]
            rounds = runner.rounds(tasks, profile.rounds)
            if rounds.error:
                progress.say(f"    only {rounds.complete} rounds: {rounds.error.brief}")
            metric = workload.get(cell.workload).metric
            values = {a: [b.values[metric] for b in rounds.boots[a]] for a in names}
            for one, other in itertools.combinations(names, 2):
                if values[one]:
                    pairs = paired(values[one], values[other])
                    found.append(Comparison(cell, (one, other), pairs))
    return found


def exact(
    testbed: Testbed, profile: Profile, count: int, store: BootStore, progress: Progress
) -> list[tuple[Cell, bool]]:
    """Measure each of count cells of the exact engine twice; whether all numbers were equal."""
    found = []
    with measuring(testbed, store, progress, sealed=True, timed=False):
        runner = Runner(testbed, store, progress)
        for cell in cells(profile, Engine.ICOUNT, count):
            tasks = [Task(replace(cell, arm=name), testbed.kernel) for name in ("a1", "a2")]
            rounds = runner.rounds(tasks, 1)
            one, other = (rounds.boots[name][0].values for name in ("a1", "a2"))
            found.append((cell, measured(one) == measured(other)))
    return found


def measured(values: Mapping[str, float]) -> dict[str, float]:
    """What was measured of a guest's I/O: neither the host's noise nor the share of its end,
    which QEMU stops whenever it gets there.
    """
    other = (PREFIX, "measured_share")
    return {name: value for name, value in values.items() if not name.startswith(other)}


def report(
    compared: Sequence[Comparison], repeated: Sequence[tuple[Cell, bool]], alpha: float
) -> str:
    """One line a cell, then how often a change was called where there is none."""
    lines = []
    for cell in dict.fromkeys(comparison.cell for comparison in compared):
        own = [comparison for comparison in compared if comparison.cell == cell]
        calls = sum(comparison.called(alpha) for comparison in own)
        widest = max(abs(comparison.pairs.change) for comparison in own)
        spread = max(comparison.pairs.spread for comparison in own)
        lines.append(
            f"  {cell!s:<44} {calls} of {len(own)} called; largest mean difference "
            f"{100 * widest:.1f} %, pair SD {100 * spread:.1f} %"
        )
    calls = sum(comparison.called(alpha) for comparison in compared)
    rate = f"{100 * calls / len(compared):.1f} %" if compared else "-"
    lines.append(
        f"wall clock: {calls} of {len(compared)} comparisons called a change ({rate}, nominal "
        f"{100 * alpha:g} %)"
    )
    differ = sum(not equal for _, equal in repeated)
    lines.append(f"exact engine: {differ} of {len(repeated)} cells differ when repeated")
    return "\n".join(lines)
