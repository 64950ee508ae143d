# SPDX-License-Identifier: GPL-2.0-or-later
"""What `lab try` answers: what was measured, in one sentence each, the worst first."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from lab.base.errors import ExitCode
from lab.base.text import number, percent
from lab.build.code_diff import CodeDiff, function
from lab.commands.cost_diff import CellChange
from lab.commands.try_measure import (
    STRESS_SEEDS,
    WORSE_COST,
    WORSE_IOPS,
    WORSE_REQUESTS,
    DataCheck,
    SimulatedChange,
    beyond_seeds,
)
from lab.inputs import topology, workload
from lab.inputs.terms import Verdict
from lab.measure.cell import Cell, PlannedCell
from lab.measure.runner import Outcome
from lab.report.view import counted

# So many functions are named in a sentence.
_NAMED = 2
# From so many more cache-line transfers per I/O on a function is named. Chosen: one CPU in two
# finds the line at another one.
_MOVES = 0.5
_WAITS = ("queued_spin_lock_slowpath", "_raw_spin_lock", "_raw_spin_lock_irqsave")


class Kind(StrEnum):
    """What an answer says, the worst first."""

    BROKEN = "BROKEN"
    LOSES_DATA = "LOSES DATA"
    SLOWER = "SLOWER"
    MERGES_LESS = "MERGES LESS"
    SHARES = "SHARES A CACHE LINE"
    COSTS = "COSTS"
    OPEN = "OPEN"
    FASTER = "FASTER"
    SAVES = "SAVES"
    MERGES_MORE = "MERGES MORE"
    EQUAL_COST = "NO COST"
    NOT_EXECUTED = "NOT EXECUTED"
    NO_CHANGE = "NO CHANGE"


@dataclass(frozen=True)
class Answer:
    """A sentence, the cell that it was measured in, and whether it makes the patches clearly worse
    (exit code 1).
    """

    kind: Kind
    text: str
    planned: PlannedCell | None = None
    is_worse: bool = False

    @property
    def breaks(self) -> bool:
        """Whether the patched kernel does not work."""
        return self.kind in (Kind.BROKEN, Kind.LOSES_DATA)

    def __str__(self) -> str:
        is_verb = self.kind in (Kind.COSTS, Kind.SAVES)  # these go on as a sentence
        return f"{self.kind} {self.text}" if is_verb else f"{self.kind}: {self.text}"


def ordered(answers: Iterable[Answer]) -> list[Answer]:
    """What makes the patches clearly worse first, then by kind."""
    kinds = list(Kind)
    return sorted(answers, key=lambda answer: (not answer.is_worse, kinds.index(answer.kind)))


def exit_code(answers: Collection[Answer]) -> ExitCode:
    """1 where the patches are clearly worse, 4 where that is open, else 0."""
    if any(answer.is_worse for answer in answers):
        return ExitCode.REFUTED
    is_open = any(answer.kind is Kind.OPEN for answer in answers)
    return ExitCode.INCONCLUSIVE if is_open else ExitCode.DONE


def is_clearly_worse(cell: CellChange) -> bool:
    """Whether a cell's block layer costs surely more than WORSE_COST more."""
    change, refuted = cell.change, cell.finding.verdict is Verdict.REFUTED
    return change is not None and refuted and change > WORSE_COST


@dataclass(frozen=True)
class Changed:
    """The functions that the patches change, where each is defined (``block/bio.c:503``), and the
    variables that they change or add. callers names the function that calls one most, where known.
    """

    functions: frozenset[str] = frozenset()
    places: Mapping[str, str] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()
    callers: Mapping[str, str] = field(default_factory=dict)

    def of_line(self, variables: str) -> str:
        """Of the variables in a cache line those of the patches, if there are any."""
        names = variables.split(", ")
        return ", ".join([name for name in names if name in self.variables] or names)

    def named(self, names: Sequence[str]) -> str:
        """Some functions in words, the first with their places."""
        shown = [self._call(name) for name in names[:_NAMED]]
        rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return (", " if rest else " and ").join(shown) + rest

    @property
    def all_named(self) -> str:
        """The functions in words; those that the patches themselves define come first."""
        return self.named(sorted(self.functions, key=lambda name: (name not in self.places, name)))

    @property
    def code(self) -> str:
        """Where the code differs, as the beginning of a sentence."""
        return f"with other code in {self.all_named}:" if self.functions else "with other data:"

    def _call(self, name: str) -> str:
        place, caller = self.places.get(name, ""), self.callers.get(name, "")
        known = [place] if place else []
        known += [f"called by {caller}()"] if caller else []
        return f"{name}() ({', '.join(known)})" if known else f"{name}()"

    def among(self, names: Iterable[str]) -> list[str]:
        """Those of some symbols that are changed functions, each once, in that order."""
        return [name for name in dict.fromkeys(map(function, names)) if name in self.functions]


def same_code(difference: CodeDiff) -> Answer:
    """Both kernels execute the same, which is checked: no statistics are needed."""
    sentence = "both kernels have the same code and the same data"
    if difference.texts:
        text = sorted(difference.texts)[0]
        sentence += f"; of the texts in them {len(difference.texts)} differ, such as {text[:40]!r}"
    return Answer(Kind.NO_CHANGE, sentence)


def not_executed(difference: CodeDiff, changed: Changed) -> Answer:
    """No cell executes what differs."""
    parts = []
    if difference.functions:
        parts.append(changed.named(sorted(difference.functions)))
    if difference.variables:
        parts.append(f"the variables {', '.join(sorted(difference.variables)[:_NAMED])}")
    return Answer(
        Kind.NOT_EXECUTED,
        f"{' and '.join(parts)} differ, but no I/O of the profile's cells executes that",
    )


def broken(failed: Outcome, counts: tuple[int, int], changed: Changed) -> Answer:
    """The patched kernel panics, hangs or fails; the other one less often. counts are the boots
    that fail of STRESS_SEEDS without and with the patches.
    """
    error = failed.error
    assert error is not None
    before, after = counts
    text = (
        f"{changed.code} {error.outcome} in {max(after, 1)} of {STRESS_SEEDS} boots with the "
        f"patches, in {before} without ({in_words(failed.task.cell)}): {_said(error.what)}"
    )
    if before and before >= after:
        return Answer(Kind.OPEN, text)
    return Answer(Kind.BROKEN, text, is_worse=True)


def of_check(check: DataCheck, changed: Changed) -> Answer:
    """A check that only the patched kernel fails."""
    error = check.after.error
    assert error is not None
    loses = error.outcome == "failed" and workload.get(check.planned.cell.workload).checks_data
    lead = (
        "what was written is not read back" if loses else f"{error.outcome} of the patched kernel"
    )
    return Answer(
        Kind.LOSES_DATA if loses else Kind.BROKEN,
        f"{changed.code} {lead}, and the kernel without patches passes "
        f"({in_words(check.planned.cell)}): {_said(error.what)}",
        check.planned,
        is_worse=True,
    )


def _said(what: str) -> str:
    """The line of what a guest said that tells most: fio's own about data, else the first."""
    lines = [line.strip() for line in what.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("verify:")), lines[0] if lines else "")


def of_exact(cell: CellChange, changed: Changed) -> Answer | None:
    """What an I/O costs more or less in a cell; None where it costs the same, as far as known."""
    if cell.failed or cell.equal or cell.change is None:
        return None
    sure = [change for change in cell.functions if change.sure]
    verdict = cell.finding.verdict
    place = in_words(cell.planned.cell)
    boots = f"{counted(len(cell.after.boots), 'boot')} a kernel"
    if verdict is Verdict.INCONCLUSIVE and not sure:
        return Answer(
            Kind.OPEN,
            f"{place} costs {percent(cell.change, exact=True)} in the block layer "
            f"({boots}), which may be chance",
            cell.planned,
        )
    if not sure and verdict is Verdict.HOLDS:
        return None
    before, after = cell.values
    total = math.fsum(change.difference for change in sure) or (after or 0.0) - (before or 0.0)
    names = changed.among(change.function for change in sure) or list(
        dict.fromkeys(function(change.function) for change in sure or cell.functions)
    )
    more, count = " more" if total > 0 else "", f"{abs(total):.4g}"
    # What functions surely add counts as well as the sum, in which noise of others may hide it.
    share = max(cell.change, total / (cell.finding.measured or (math.inf,))[0])
    return Answer(
        Kind.COSTS if total > 0 else Kind.SAVES,
        f"{count} instruction{'s' * (count != '1')}{more} per I/O in {changed.named(names)} "
        f"({place}: {number(before)} -> {number(after)}, block layer "
        f"{percent(cell.change, exact=True)}, {boots})",
        cell.planned,
        is_worse=total > 0 and share > WORSE_COST,
    )


def costs_more(cell: CellChange, changed: Changed) -> bool:
    """Whether the answer about a cell is that an I/O costs more."""
    answer = of_exact(cell, changed)
    return answer is not None and answer.kind is Kind.COSTS


def of_requests(
    planned: PlannedCell, before: Sequence[float], after: Sequence[float], changed: Changed
) -> Answer | None:
    """Whether as many I/Os as before become one request, with the requests per I/O of each boot;
    None where seeds may make the difference.
    """
    if not any(before) or not after:  # a disk may take bios, not requests
        return None
    old, new = (math.fsum(counts) / len(counts) for counts in (before, after))
    change = new / old - 1
    noise = workload.get(planned.cell.workload).noise.of_counter("requests")
    if abs(change) <= WORSE_REQUESTS or not beyond_seeds(before, after, noise):
        return None
    kind = Kind.MERGES_LESS if change > 0 else Kind.MERGES_MORE
    return Answer(
        kind,
        f"{changed.code} for an I/O {old:.3g} -> {new:.3g} requests reach the driver "
        f"({in_words(planned.cell)}, {counted(len(after), 'boot')} a kernel)",
        planned,
        is_worse=kind is Kind.MERGES_LESS,
    )


def of_simulated(simulated: SimulatedChange, changed: Changed) -> Answer | None:
    """What many CPUs at once do more or less; None where that is within what seeds make."""
    if simulated.failed:
        return None
    _, after = simulated.simulated_iops
    cpus = simulated.planned.cell.cpus
    size = f"{abs(100 * simulated.change):.1f} %"
    where = f"{in_words(simulated.planned.cell)}, {counted(len(after), 'boot')} a kernel"
    if abs(simulated.change) > WORSE_IOPS and simulated.is_clear:
        less = simulated.change < 0
        return Answer(
            Kind.SLOWER if less else Kind.FASTER,
            f"{cpus} CPUs do {size} {'fewer' if less else 'more'} IOPS "
            f"({where}){_why(simulated, changed) if less else ''}",
            simulated.planned,
            is_worse=less,
        )
    if shared := _shared(simulated, changed):
        name, variable, transfers = shared
        what = f" of {changed.of_line(variable)}" if variable else ""
        return Answer(
            Kind.SHARES,
            f"{changed.named([name])} moves {transfers:.2g} cache lines{what} more per I/O between "
            f"{cpus} CPUs, {percent(simulated.change, exact=False)} IOPS ({where})",
            simulated.planned,
        )
    if abs(simulated.change) > WORSE_IOPS:
        return Answer(
            Kind.OPEN,
            f"{cpus} CPUs do {percent(simulated.change, exact=False)} IOPS "
            f"({where}), which may be chance",
            simulated.planned,
        )
    return None


def _why(simulated: SimulatedChange, changed: Changed) -> str:
    """For what the CPUs wait, as far as the simulation tells."""
    names = changed.among(
        change.function
        for change in sorted(simulated.functions, key=lambda change: -change.difference)
    )
    place = changed.named(names or sorted(changed.functions))
    before, after = simulated.waiting
    if after - before > (1 - before) / 4:
        lock = changed.of_line(_lock(simulated))
        return f": they wait for the spin lock {f'{lock} ' if lock else ''}in {place}"
    if shared := _shared(simulated, changed):
        name, variable, _ = shared
        line = changed.of_line(variable)
        return f": a cache line{f' of {line}' if line else ''} moves in {name}()"
    return f": the patches change {place}"


def _more_transfers(simulated: SimulatedChange) -> dict[tuple[str, str], float]:
    """Transfers of cache lines more than before, by function and variable."""
    before, after = simulated.moved
    keys = dict.fromkeys((*before, *after))
    return {key: after.get(key, 0.0) - before.get(key, 0.0) for key in keys}


def _lock(simulated: SimulatedChange) -> str:
    """The variable whose cache line those who take locks move most more; empty where unnamed."""
    more: dict[str, float] = defaultdict(float)
    for (name, variable), count in _more_transfers(simulated).items():
        if name in _WAITS and variable:
            more[variable] += count
    worst = max(more, key=lambda variable: more[variable], default="")
    return worst if worst and more[worst] > _MOVES else ""


def _shared(simulated: SimulatedChange, changed: Changed) -> tuple[str, str, float] | None:
    """The changed function that moves most more cache lines, the variable in it, and how many."""
    more: dict[tuple[str, str], float] = defaultdict(float)
    for (name, variable), count in _more_transfers(simulated).items():
        if function(name) in changed.functions:
            more[function(name), variable] += count
    worst = max(more, key=lambda key: more[key], default=None)
    if worst is None or more[worst] < _MOVES:
        return None
    return *worst, more[worst]


def equal_cost(cells: Collection[CellChange], changed: Changed) -> Answer:
    """Cells execute what the patches change, and it costs the same, as far as is known."""
    equal = [cell for cell in cells if cell.equal]
    if len(equal) == len(cells):
        comparison = "executes as many instructions as before"
    else:
        boots = sum(len(cell.after.boots) for cell in cells if not cell.equal)
        comparison = f"differs by no more than chance ({boots} boots a kernel)"
    count = counted(len(cells), "cell")
    return Answer(Kind.EQUAL_COST, f"{changed.code} an I/O of {count} {comparison}")


def no_loss(cells: Sequence[SimulatedChange]) -> Answer:
    """Simulated CPUs do as much as before, as far as is known."""
    changes = "; ".join(
        f"{in_words(cell.planned.cell)} {percent(cell.change, exact=False)}, "
        f"{len(cell.after.boots)} boot(s) a kernel"
        for cell in cells
    )
    return Answer(Kind.EQUAL_COST, f"IOPS differ by no more than seeds do: {changes}")


def no_data_lost(checks: Sequence[DataCheck]) -> Answer:
    """All that was written was read back."""
    cells = "; ".join(in_words(check.planned.cell) for check in checks)
    return Answer(Kind.EQUAL_COST, f"all data that was written is read back and right ({cells})")


def in_words(cell: Cell) -> str:
    """A cell's disk, scheduler and job, such as ``nullb_mq, none, randread_burst``."""
    parts = [cell.topology, cell.scheduler, cell.workload]
    return ", ".join([*parts, cell.machine] if cell.machine else parts)


def hardware(cell: Cell) -> str:
    """What a cell runs on, in words: the disk, its queues, the CPUs."""
    disk = topology.get(cell.topology)
    how = f"simulated {cell.machine}" if cell.machine else f"engine {cell.engine}"
    return (
        f"{disk.title}; {counted(cell.hw_queues, 'hardware queue')}, scheduler "
        f"{cell.scheduler}, {counted(cell.cpus, 'CPU')}, {how}"
    )
