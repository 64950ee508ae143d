# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes the record of a run out of what was judged or measured."""

from __future__ import annotations

import itertools
import math
import os
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TypeVar

from lab import __version__
from lab.base.errors import LabError
from lab.base.process import run as run_command
from lab.base.stats import SEED_COUNTS, Interval
from lab.base.system import CHECKOUT
from lab.base.toml import Model
from lab.inputs import topology, workload
from lab.inputs.claims import Claim
from lab.inputs.terms import Level
from lab.judge.finding import Finding
from lab.judge.verdict import Judged, of_claim, together
from lab.measure import cost, metrics
from lab.measure.cell import Cell
from lab.measure.host import Facts, Report, facts
from lab.measure.runner import Outcome
from lab.measure.session import Session
from lab.report import record_store, run_record
from lab.report.view import counted

M = TypeVar("M", bound=Model)

# Of what an I/O costs by function the record keeps this many, those that changed most.
_FUNCTIONS = 40
# So many cache lines with most transfers, and of each so many functions that cause them.
_LINES = 10
_MOVERS = 4


class RunBuilder:
    """Collects what one run measured; every cell has its place once, whoever asks for it."""

    def __init__(
        self,
        session: Session,
        title: str,
        command: str = "",
        mail: run_record.Mail | None = None,
    ) -> None:
        self._session = session
        self._store = session.store
        self._title = title
        self._mail = mail
        self._command = command or shlex.join(["lab", *sys.argv[1:]])
        self._cells: list[run_record.CellRecord] = []
        self._places: dict[tuple[str, Cell, tuple[str, ...]], int] = {}
        self._costs: list[run_record.CostDifference] = []
        self._workloads: dict[str, run_record.WorkloadRecord] = {}
        self._groups: dict[object, int] = {}

    def judged(
        self, judged_series: Sequence[Judged], control: str = "", *, strict: bool = False
    ) -> run_record.RunRecord:
        """The record of series that were judged; strict has checks decide like claims."""
        series = tuple(self._series(judged, strict=strict) for judged in judged_series)
        return self.run(series=series, control=control)

    def measured(
        self,
        outcomes: Sequence[Outcome],
        tables: tuple[run_record.TableRecord, ...] = (),
        steps: tuple[run_record.StepRecord, ...] = (),
        *,
        compared: Sequence[tuple[Outcome, Outcome]] = (),
    ) -> run_record.RunRecord:
        """The record of cells that were measured without a claim; of those that are compared it
        keeps what they cost by function.
        """
        for outcome in outcomes:
            self._outcome(outcome)
        for before, after in compared:
            self._cost("", (self._outcome(before), self._outcome(after)))
        return self.run(tables=tables, steps=steps)

    def _outcome(self, outcome: Outcome) -> int:
        """Where a cell that was measured without a claim stands in the record."""
        error = outcome.error.brief if outcome.error else ""
        task, boots = outcome.task, tuple(boot.id for boot in outcome.boots)
        return self._place(task.arm, task.cell, task.swept, boots, error)

    def run(
        self,
        series: tuple[run_record.SeriesRecord, ...] = (),
        control: str = "",
        tables: tuple[run_record.TableRecord, ...] = (),
        steps: tuple[run_record.StepRecord, ...] = (),
    ) -> run_record.RunRecord:
        """The record of everything that got its place so far, and of these series and tables."""
        session, profile = self._session, self._session.profile
        return run_record.RunRecord(
            id=record_store.new_id(session.store.folder, session.started),
            command=self._command,
            title=self._title,
            profile=profile.title,
            skips=profile.skips,
            control=control,
            alpha=profile.alpha,
            started=session.started,
            finished=time.time(),
            lab=f"{__version__} {_revision()}".strip(),
            host=host_record(session.checked.host if session.checked else None),
            series=series,
            tables=tables,
            mail=self._mail,
            steps=steps,
            workloads=self._workloads,
            cells=tuple(self._cells),
            costs=tuple(self._costs),
        )

    def _series(self, judged: Judged, *, strict: bool) -> run_record.SeriesRecord:
        claims = tuple(
            self._claim(name, judged.series.all_claims[name], findings)
            for name, findings in judged.claims().items()
        )
        verdicts = {"verdict": judged.verdict(), "counts_as": judged.counts_as(strict=strict)}
        return _filled(run_record.SeriesRecord, judged.series, judged, **verdicts, claims=claims)

    def _claim(
        self, name: str, claim: Claim, findings: Sequence[Finding]
    ) -> run_record.ClaimRecord:
        setup, job = self._setup(findings)
        return _filled(
            run_record.ClaimRecord,
            claim,
            name=name,
            verdict=of_claim(findings),
            counts_as=together(each.counts_as for each in findings),
            setup=setup,
            job=job,
            findings=tuple(map(self.finding, findings)),
        )

    def _setup(self, findings: Sequence[Finding]) -> tuple[str, str]:
        """What the first finding that was measured ran on, and the job, in a maintainer's words."""
        measured = [finding for finding in findings if any(finding.evidence.boots)]
        if not measured:
            return "", ""
        cell = measured[0].experiment.sides[0].cell
        boots = self._store.boots(measured[0].evidence.boots[0])
        release = next((boot.facts.get("release", "") for boot in boots.values()), "")
        queues = counted(cell.hw_queues, "hardware queue")
        parts = (topology.get(cell.topology).title, queues, cell.scheduler, f"Linux {release}")
        return ", ".join(parts), workload.command_line(cell.workload, dict(cell.parameters))

    def finding(self, finding: Finding) -> run_record.FindingRecord:
        """The record of a finding; its cells, and what they cost by function, are noted with it."""
        experiment = finding.experiment
        expectation = experiment.expectation
        boots = finding.evidence.boots or ((),) * len(experiment.sides)
        cells = tuple(
            self._place(side.arm, side.cell, experiment.swept, side_boots)
            for side, side_boots in zip(experiment.sides, boots, strict=True)
            if side_boots
        )
        by_function = expectation.metric == cost.KERNEL or experiment.level is Level.SIMULATED
        if by_function and len(cells) == 2:
            self._cost(f"{experiment.series}.{experiment.claim}", (cells[0], cells[1]))
        group = None
        if experiment.timed:  # the same rounds have the same number
            group = self._groups.setdefault(experiment.together, len(self._groups))
        return _filled(
            run_record.FindingRecord,
            *(expectation, experiment, finding.evidence, finding),
            unit=metrics.unit(expectation.metric, experiment.engine),
            better=metrics.get(expectation.metric).better,
            known_miss=expectation.known_miss if finding.miss else None,
            cells=cells,
            interval=_ends(finding.interval) if finding.measured_change is not None else None,
            machine=experiment.sides[0].cell.machine,
            sensitivity=dict(finding.sensitivity),
            group=group,
        )

    def _place(
        self,
        arm: str,
        cell: Cell,
        swept: tuple[str, ...],
        boots: tuple[str, ...],
        error: str = "",
    ) -> int:
        """Where a cell with these boots stands in the record."""
        label = (arm, replace(cell, seed=1), boots)  # the boots of all seeds stand together
        if label in self._places:
            return self._places[label]
        known = self._store.boots(boots)
        boots_on_record = [known[identity] for identity in boots if identity in known]
        metric = metrics.headline(cell, boots_on_record[-1].values if boots_on_record else {})
        work = workload.get(cell.workload)
        meaning = metrics.get(work.metric)
        self._workloads[cell.workload] = run_record.WorkloadRecord(
            title=work.title, metric=work.metric, unit=meaning.unit, better=meaning.better
        )
        record = _filled(
            run_record.CellRecord,
            cell,
            arm=arm,
            parameters=dict(cell.parameters),
            swept=swept,
            metric=metric,
            unit=metrics.unit(metric, cell.engine),
            better=metrics.get(metric).better,
            facts=boots_on_record[-1].facts if boots_on_record else {},
            boots=tuple(_filled(run_record.BootRecord, boot) for boot in boots_on_record),
            error=error,
        )
        self._places[label] = len(self._cells)
        self._cells.append(record)
        return self._places[label]

    def _cost(self, claim: str, places: tuple[int, int]) -> None:
        """Note the functions whose cost for an I/O tells two cells apart, where it was counted."""
        if any((noted.claim, noted.cells) == (claim, places) for noted in self._costs):
            return
        cells = [self._cells[place] for place in places]
        sides = [
            [boot_cost for boot in cell.boots if (boot_cost := self._store.cost(boot.id))]
            for cell in cells
        ]
        if not all(sides):
            return  # not counted, or failed
        changed = cost.changes(sides[0], sides[1], self._session.profile.alpha)
        # One seed or two tell nothing of chance: then the largest differences are shown.
        few = len(sides[0]) < SEED_COUNTS[0]
        shown = [change for change in changed if few or change.sure][:_FUNCTIONS]
        if not shown:
            return
        simulated = cells[0].engine.simulated
        before, after = (
            statistics.fmean(boot_cost.kernel_total for boot_cost in boot_costs)
            for boot_costs in sides
        )
        difference = run_record.CostDifference(
            claim=claim,
            arms=(cells[0].arm, cells[1].arm),
            cells=places,
            unit="ns" if simulated else "instructions",
            functions=tuple((c.function, c.before, c.after) for c in shown),
            totals=(before, after),
            lines=tuple(self._lines(cell) for cell in cells if simulated),
        )
        self._costs.append(difference)

    def _lines(self, cell: run_record.CellRecord) -> tuple[run_record.MovedLine, ...]:
        """The cache lines with most transfers in the last boot of a cell, by function."""
        return tuple(
            run_record.MovedLine(
                place=line.place,
                transfers=line.total,
                by=dict(itertools.islice(line.transfers.items(), _MOVERS)),
            )
            for line in self._store.lines(cell.boots[-1].id)[:_LINES]
        )


def host_record(report: Report | None) -> run_record.HostRecord:
    """The machine; without a report nothing was checked, for the run ended before that."""
    try:
        report = report or Report(facts())
    except LabError as exc:
        unknown = Facts(
            *(os.cpu_count() or 1, platform.machine(), 0.0, 0.0, platform.system()),
            *(platform.release(), "", exc.what, False, ""),
        )
        report = Report(unknown)
    return run_record.HostRecord(facts=report.facts, engines=report.engines)


def _filled(model: type[M], *sources: object, **fields: object) -> M:
    """A record with what sources have under the names of its fields, the last one's before all."""
    known = {
        name: getattr(source, name)
        for source in sources
        for name in model.model_fields
        if hasattr(source, name)
    }
    return model.model_validate({**known, **fields})


def _ends(interval: Interval | None) -> tuple[float | None, float | None] | None:
    """The ends of an interval as a record has them: None for one that is infinite."""
    if interval is None:
        return None
    low, high = (end if math.isfinite(end) else None for end in (interval.low, interval.high))
    return low, high


@cache
def _revision() -> str:
    """The commit of the lab that runs, where it is a git checkout."""
    if CHECKOUT is None:
        return ""  # where it is installed git would find the repository of somebody else
    try:
        return run_command(["git", "describe", "--always", "--dirty"], cwd=CHECKOUT).output.strip()
    except LabError:
        return ""
