# SPDX-License-Identifier: GPL-2.0-or-later
"""Which cells `lab try` measures: those that execute what the patches change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lab.build.kernel import Kernel
from lab.inputs import machine_model, topology
from lab.inputs.profile import Profile
from lab.inputs.terms import Engine
from lab.measure import matrix
from lab.measure.cell import Cell, PlannedCell
from lab.measure.durations import Durations
from lab.measure.matrix import Selection
from lab.measure.runner import Runner
from lab.measure.session import Session

# So many cells of the exact engine at most. Chosen: three seeds of four cells take a minute.
MOST_CELLS = 4
# The machine, the disk and the job on which contention is simulated: 16 CPUs that hand requests to
# a disk with 128 hardware queues, each with a job of its own.
MACHINE, BUSY_DISK, BUSY_JOB = "xeon16", "nullb_mq", "randwrite_uring"
_NONE = "none"
# The disk and the job in which requests wait for each other, and so are merged.
_MERGING = "raid64", "seqread_streams"
# Where data is checked: this disk fails commands now and then and is too busy for others.
_FAULTY_DISK = "raid64_faults"
_USUAL_SCHEDULER = "mq-deadline"
# The check for the usual kernel and the one for the debug kernel, which switches schedulers.
_CHECK, _DEBUG_CHECK = "verify_crc", "verify_switching"


@dataclass(frozen=True)
class Choice:
    """The cells that are measured.

    skipped are the cells that execute changed functions, too, and are not measured; schedulers are
    those that the changed code runs under. busy are the pairs of scheduler and job on BUSY_DISK
    that execute most of it.
    """

    exact: tuple[PlannedCell, ...] = ()
    skipped: tuple[PlannedCell, ...] = ()
    schedulers: tuple[str, ...] = ()
    busy: tuple[tuple[str, str], ...] = ()


def executed(
    runner: Runner, session: Session, kernel: Kernel, planned: Sequence[PlannedCell]
) -> dict[PlannedCell, dict[str, float]]:
    """The functions that an I/O of each cell executes on a kernel, with their instructions; boots
    on record are not run again. Raises LabError for a guest that fails.
    """
    executed_by: dict[PlannedCell, dict[str, float]] = {}
    outcomes = runner.all([cell.on(kernel) for cell in planned])
    for cell, outcome in zip(planned, outcomes, strict=True):
        outcome.require_boots()
        cost = session.store.cost(outcome.boots[0].id)
        executed_by[cell] = cost.by_function() if cost else {}
    return executed_by


def choose(
    changed: Collection[str],
    executed_by: Mapping[PlannedCell, Mapping[str, float]],
    durations: Durations,
) -> Choice:
    """The cells that together execute most of the changed functions, at most MOST_CELLS.

    Of cells that add as many functions the one that takes least time is chosen. Where functions
    that merge differ, the first is one in which much is merged.
    """
    touched = {
        planned: {name: count for name, count in functions.items() if name in changed}
        for planned, functions in executed_by.items()
    }
    useful = {planned: functions for planned, functions in touched.items() if functions}
    missing = set().union(*useful.values())
    chosen = []
    if any("merge" in name for name in missing):
        chosen = [planned for planned in useful if _merges_much(planned.cell)][:1]
    for planned in chosen:
        missing -= useful[planned].keys()
    while missing and len(chosen) < MOST_CELLS:
        best = max(
            useful,
            key=lambda planned: (
                len(useful[planned].keys() & missing),
                -durations.of(planned.cell),
            ),
        )
        chosen.append(best)
        missing -= useful[best].keys()
    schedulers = _schedulers(useful)
    return Choice(
        tuple(chosen),
        tuple(planned for planned in useful if planned not in chosen),
        schedulers,
        tuple((name, job) for name in schedulers if (job := _busy_job(useful, name))),
    )


def _busy_job(useful: Mapping[PlannedCell, Mapping[str, float]], scheduler: str) -> str:
    """The job on BUSY_DISK that executes most of what changed under a scheduler, or the usual one
    where that executes half as much; empty where none does. useful has what changed by cell.
    """
    there = {
        planned.cell.workload: sum(functions.values())
        for planned, functions in useful.items()
        if (planned.cell.topology, planned.cell.scheduler) == (BUSY_DISK, scheduler)
    }
    most = max(there.values(), default=0.0)
    if there.get(BUSY_JOB, 0.0) >= most / 2:
        return BUSY_JOB if there else ""
    return max(there, key=lambda job: there[job])


def _merges_much(cell: Cell) -> bool:
    return (cell.topology, cell.workload) == _MERGING


def _schedulers(useful: Mapping[PlannedCell, Collection[str]]) -> tuple[str, ...]:
    """Under which schedulers the functions run: none, and as few others as execute the rest."""
    by_scheduler: dict[str, set[str]] = {}
    for planned, functions in useful.items():
        by_scheduler.setdefault(planned.cell.scheduler, set()).update(functions)
    missing = set().union(*by_scheduler.values()) - by_scheduler.get(_NONE, set())
    chosen = [_NONE] if _NONE in by_scheduler else []
    while missing:
        best = max(by_scheduler, key=lambda name: len(by_scheduler[name] & missing))
        chosen.append(best)
        missing -= by_scheduler[best]
    return tuple(chosen)


def simulated(profile: Profile, busy: Sequence[tuple[str, str]]) -> list[PlannedCell]:
    """The cells in which 16 simulated CPUs submit I/O at once, each with a job of its own."""
    cells = []
    for scheduler, work in busy:
        jobs = (("numjobs", (machine_model.get(MACHINE).usual_cpus,)),)
        wanted = Selection((BUSY_DISK,), (scheduler,), (work,), jobs, machine=MACHINE)
        cells += matrix.cells(profile, wanted, Engine.SIM)
    return cells


def data_check(choice: Choice, profile: Profile) -> PlannedCell:
    """The cell in which data is read back on the usual kernel: on the first chosen disk that holds
    data, else on one that fails commands.
    """
    chosen = [planned.cell.topology for planned in choice.exact]
    disk = next((name for name in chosen if topology.get(name).holds_data), _FAULTY_DISK)
    return _check(choice, disk, _CHECK, profile)


def debug_check(choice: Choice, profile: Profile) -> PlannedCell:
    """The cell in which the debug kernel is watched: data is read back, commands fail, and the
    scheduler is switched.
    """
    return _check(choice, _FAULTY_DISK, _DEBUG_CHECK, profile)


def _check(choice: Choice, disk: str, work: str, profile: Profile) -> PlannedCell:
    scheduler = next((name for name in choice.schedulers if name != _NONE), _USUAL_SCHEDULER)
    (planned,) = matrix.cells(
        profile, Selection((disk,), (scheduler,), (work,), cpus=2), Engine.EXACT
    )
    return planned
