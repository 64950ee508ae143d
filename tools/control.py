# SPDX-License-Identifier: GPL-2.0-or-later
"""A/A control: compare a kernel with itself, and count how often the judge calls a change.

`python -m tools.control`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from lab.base.stats import Interval, Paired, paired
from lab.base.text import percent
from lab.cli import main, options
from lab.guest.host_noise import PREFIX
from lab.inputs import workload
from lab.inputs.profile import Block, Profile
from lab.inputs.terms import Engine
from lab.judge.seed_noise import seed_noise
from lab.measure import matrix
from lab.measure.cell import STOCK, PlannedCell
from lab.measure.matrix import Selection
from lab.measure.session import Session
from lab.report import tables
from lab.report.run_record import TableRecord

_NO_CHANGE = Interval(0.0, 0.0)
# Small guests whose disks need nothing but memory: what they measure is the host's noise.
TOPOLOGIES = ("nullb", "nullb_mq")
WORKLOADS = ("randread_burst", "randwrite_uring")
# With which the rate of called changes lies within what is said.
_CERTAINTY = 0.95


@click.command()
@options.measuring
@click.option(
    "--cells", "count", default=7, show_default=True, type=click.IntRange(1), help="Cells."
)
@click.option(
    "--arms",
    default=4,
    show_default=True,
    type=click.IntRange(2),
    help="Seeds of a cell; with --host-time, names.",
)
@options.patches
@options.host_time
def control(
    session: Session, count: int, arms: int, patches: tuple[Path, ...], host_time: bool
) -> None:
    """Compare a kernel with itself, and count how often the judge calls a change.

    Each cell is simulated with several seeds. Every seed is compared with every other, and with the
    same seed of the kernel with each --patch, which should do nothing. With --host-time each cell
    is booted under several names in rounds, every name is compared with every other, and exact
    cells are repeated.
    """
    if host_time:
        engine = session.testbed.host.best_wall_clock()
        comparisons = compare_by_wall_clock(session, engine, count, arms)
        repetitions = repeat_exact_cells(session, count)
        table = table_of_names(comparisons, repetitions, session.profile.alpha)
    else:
        session.testbed.host.require(Engine.SIM)
        table = table_of_seeds(compare_simulated(session, count, arms, patches))
    click.echo(tables.text(table))


@dataclass(frozen=True)
class Comparison:
    """Two names for the same kernel, compared as if they were two kernels."""

    cell: PlannedCell
    arms: tuple[str, str]
    pairs: Paired

    def called(self, alpha: float) -> bool:
        """Whether the judge sees a change where there is none."""
        return self.pairs.interval(alpha).apart(_NO_CHANGE)


@dataclass(frozen=True)
class SeedPair:
    """Two seeds of a simulated cell, of one kernel or of two that do the same.

    change is that of the throughput from one to the other, margin what the judge allows for; both
    are fractions.
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
class CellRepetition:
    """Whether two boots of an exact cell were equal, or what failed."""

    cell: PlannedCell
    equal: bool
    failure: str = ""


def cells(profile: Profile, engine: Engine, count: int) -> list[PlannedCell]:
    """The first cells of small topologies: every scheduler before the next workload."""
    block = Block(topologies=TOPOLOGIES, schedulers=matrix.SCHEDULERS, workloads=WORKLOADS)
    short = profile.model_copy(update={"matrix": (block,)})
    return matrix.cells(short, Selection(), engine)[:count]


def compare_by_wall_clock(
    session: Session, engine: Engine, count: int, arms: int
) -> list[Comparison]:
    """Boot each of count cells under several names in rounds; compare every name with every other.

    With n arms a round gives n(n-1)/2 comparisons. They share boots, so they are not independent;
    the rate of false calls is still the rate that a single comparison has.
    """
    names = [f"a{number}" for number in range(1, arms + 1)]
    kernel, comparisons = session.testbed.probe_kernel, []
    planned = cells(session.profile, engine, count)
    with session.measuring([cell.on(kernel) for cell in planned]) as runner:
        for cell in planned:
            tasks = [cell.on(kernel, name) for name in names]
            rounds = runner.rounds(tasks, session.profile.rounds)
            if rounds.error:
                session.progress.say(f"    only {rounds.complete} rounds: {rounds.error.brief}")
            metric = workload.get(cell.cell.workload).metric
            values = {a: [boot.values[metric] for boot in rounds.boots[a]] for a in names}
            for left, right in itertools.combinations(names, 2):
                if values[left]:
                    pairs = paired(values[left], values[right])
                    comparisons.append(Comparison(cell, (left, right), pairs))
    return comparisons


def compare_simulated(
    session: Session, count: int, seeds: int, patches: Sequence[Path] = ()
) -> list[SeedPair]:
    """Simulate each of count cells with several seeds, without and with patches that do nothing.

    Of the kernel without them every seed is compared with every other, and each with the same seed
    of a kernel with one of the patches. Raises LabError when a guest fails.
    """
    kernels = {STOCK: session.testbed.probe_kernel}
    kernels |= {path.name: session.kernel(patches=[path]) for path in patches}
    planned, seed_pairs = cells(session.profile, Engine.SIM, count), []
    tasks = [
        cell.on(kernel, name).seeded(seed)
        for cell in planned
        for name, kernel in kernels.items()
        for seed in range(1, seeds + 1)
    ]
    outcomes = session.outcomes(tasks)
    for outcome in outcomes:
        outcome.require_boots()
    boots = (boot for outcome in outcomes for boot in outcome.boots)
    for cell in planned:
        metric = workload.get(cell.cell.workload).metric
        margin = seed_noise(cell.cell.workload, Engine.SIM, metric)
        values = {name: [next(boots).values[metric] for _ in range(seeds)] for name in kernels}
        stock = values.pop(STOCK)
        pairs = [(STOCK, old, new) for old, new in itertools.combinations(stock, 2)]
        for name, patched in values.items():
            pairs += [(name, old, new) for old, new in zip(stock, patched, strict=True)]
        seed_pairs += [
            SeedPair(cell, (STOCK, name), new / old - 1, margin) for name, old, new in pairs
        ]
    return seed_pairs


def repeat_exact_cells(session: Session, count: int) -> list[CellRepetition]:
    """Measure each of count cells of the exact engine twice; whether all numbers were equal.

    A cell whose guest fails is reported as such, and the others are measured all the same.
    """
    kernel, repetitions = session.testbed.probe_kernel, []
    planned = cells(session.profile, Engine.EXACT, count)
    with session.measuring([cell.on(kernel) for cell in planned]) as runner:
        for cell in planned:
            rounds = runner.rounds([cell.on(kernel, name) for name in ("a1", "a2")], 1)
            if rounds.complete:
                left, right = (values_of_guest(rounds.boots[a][0].values) for a in ("a1", "a2"))
                repetitions.append(CellRepetition(cell, equal=left == right))
            else:
                why = rounds.error.brief if rounds.error else "the host disturbed it"
                repetitions.append(CellRepetition(cell, equal=False, failure=why))
    return repetitions


def values_of_guest(values: Mapping[str, float]) -> dict[str, float]:
    """A boot's values without the host's noise, and without the share of instructions that was
    measured: QEMU ends at no exact instruction.
    """
    prefixes = (PREFIX, "measured_share")
    return {name: value for name, value in values.items() if not name.startswith(prefixes)}


def table_of_seeds(seed_pairs: Sequence[SeedPair]) -> TableRecord:
    """One line a simulated cell, then how often a change was called where there is none."""
    rows, notes = [], []
    for cell, kernel in dict.fromkeys((pair.cell, pair.kernels[1]) for pair in seed_pairs):
        of_cell = [pair for pair in seed_pairs if (pair.cell, pair.kernels[1]) == (cell, kernel)]
        widest = max(of_cell, key=lambda pair: abs(pair.change))
        calls = f"{sum(pair.called for pair in of_cell)} of {len(of_cell)}"
        margin = f"{100 * widest.margin:g} %"
        rows.append((str(cell), kernel, calls, percent(widest.change, exact=True), margin))
    for kernel in dict.fromkeys(pair.kernels[1] for pair in seed_pairs):
        calls_of_kernel = [pair.called for pair in seed_pairs if pair.kernels[1] == kernel]
        notes.append(f"{kernel}: {rate_of_calls(calls_of_kernel)}")
    titles = ("simulated, one seed against another", "", "called", "largest", "margin")
    return _table(titles, rows, notes)


def table_of_names(
    comparisons: Sequence[Comparison], repetitions: Sequence[CellRepetition], alpha: float
) -> TableRecord:
    """One line a cell, then how often a change was called where there is none."""
    rows = []
    for cell in dict.fromkeys(comparison.cell for comparison in comparisons):
        of_cell = [comparison for comparison in comparisons if comparison.cell == cell]
        calls = f"{sum(comparison.called(alpha) for comparison in of_cell)} of {len(of_cell)}"
        widest = max(abs(comparison.pairs.change) for comparison in of_cell)
        spread = max(comparison.pairs.spread for comparison in of_cell)
        rows.append((str(cell), calls, f"{100 * widest:.1f} %", f"{100 * spread:.1f} %"))
    complete = [repetition for repetition in repetitions if not repetition.failure]
    differ = sum(not repetition.equal for repetition in complete)
    rate_of_all = rate_of_calls([comparison.called(alpha) for comparison in comparisons])
    notes = [
        f"wall clock: {rate_of_all}; nominal {100 * alpha:g} %",
        f"exact engine: {differ} of {len(complete)} cells differ when repeated",
        *(f"  {failed.cell} failed: {failed.failure}" for failed in repetitions if failed.failure),
    ]
    return _table(
        ("the same under several names", "called", "largest change", "pair SD"), rows, notes
    )


def _table(titles: Sequence[str], rows: Sequence[tuple[str, ...]], notes: list[str]) -> TableRecord:
    return TableRecord(
        title="A/A control", columns=tables.columns(*titles), rows=tuple(rows), notes=tuple(notes)
    )


def rate_of_calls(calls: Sequence[bool]) -> str:
    """How many comparisons called a change, and which rates are consistent with that."""
    if not calls:
        return "nothing was compared"
    from scipy.stats import binomtest

    # The exact interval of C. Clopper and E. Pearson, Biometrika 26, 1934.
    possible = binomtest(sum(calls), len(calls)).proportion_ci(_CERTAINTY, method="exact")
    return (
        f"{sum(calls)} of {len(calls)} comparisons called a change: a rate of "
        f"{100 * possible.low:.1f} to {100 * possible.high:.1f} %"
    )


if __name__ == "__main__":
    main.main(control, "python -m tools.control")
