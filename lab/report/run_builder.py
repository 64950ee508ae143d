# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes the record of a run out of what was judged or measured."""

from __future__ import annotations

import math
import os
import platform
import shlex
import statistics
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from lab import __version__
from lab.base.errors import LabError
from lab.base.process import run as run_command
from lab.base.stats import Interval
from lab.base.system import PROJECT
from lab.inputs import counters, workload
from lab.inputs.profile import Profile
from lab.judge.experiment import Experiment, conditions
from lab.judge.verdict import Finding, Judged, of_claim
from lab.measure import cost, dbench, fio
from lab.measure.boot_store import BootStore, Detail
from lab.measure.cell import Cell
from lab.measure.host import Report, facts
from lab.measure.runner import Outcome, headline
from lab.report import run_record

# Of what an I/O costs by function the record keeps this many, those that changed most.
_FUNCTIONS = 40


class RunBuilder:
    """Collects what one run measured; every cell has its place once, whoever asks for it."""

    def __init__(
        self,
        store: BootStore,
        profile: Profile,
        report: Report | None,
        title: str,
        command: str = "",
    ) -> None:
        self._store = store
        self._profile = profile
        self._report = report
        self._title = title
        self._command = command or shlex.join(["lab", *sys.argv[1:]])
        self._cells: list[run_record.Cell] = []
        self._places: dict[tuple[Cell, tuple[str, ...]], int] = {}
        self._costs: list[run_record.CostDifference] = []
        self._workloads: dict[str, run_record.Workload] = {}
        self._groups: dict[object, int] = {}

    def judged(self, found: Sequence[Judged], started: float, control: str = "") -> run_record.Run:
        """The record of series that were judged."""
        series = tuple(self._series(one) for one in found)
        return self.run(started, series=series, control=control)

    def measured(
        self,
        outcomes: Sequence[Outcome],
        started: float,
        tables: tuple[run_record.Table, ...] = (),
    ) -> run_record.Run:
        """The record of cells that were measured without a claim."""
        for outcome in outcomes:
            error = outcome.error.brief if outcome.error else ""
            self.place(outcome.cell, tuple(boot.id for boot in outcome.boots), error)
        return self.run(started, tables=tables)

    def run(
        self,
        started: float,
        series: tuple[run_record.Series, ...] = (),
        control: str = "",
        tables: tuple[run_record.Table, ...] = (),
    ) -> run_record.Run:
        """The record of everything that got its place so far, and of these series and tables."""
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started))
        return run_record.Run(
            id=f"{stamp}-{uuid.uuid4().hex[:4]}",
            command=self._command,
            title=self._title,
            profile=self._profile.title,
            leaves_out=self._profile.leaves_out,
            control=control,
            alpha=self._profile.alpha,
            started=started,
            finished=time.time(),
            lab=f"{__version__} {_revision()}".strip(),
            host=_host(self._report),
            series=series,
            tables=tables,
            workloads=self._workloads,
            cells=tuple(self._cells),
            costs=tuple(self._costs),
        )

    def _series(self, one: Judged) -> run_record.Series:
        own = one.series
        claims = []
        for title, found in one.claims().items():
            claim = own.claims[title]
            findings = tuple(self._finding(one.title, each) for each in found)
            claims.append(
                run_record.Claim(
                    name=title,
                    verdict=of_claim(found),
                    published=claim.published,
                    topology=claim.topology,
                    scheduler=claim.scheduler,
                    workload=claim.workload,
                    findings=findings,
                )
            )
        return run_record.Series(
            name=one.title,
            title=own.title,
            origin=own.origin,
            tree=own.tree,
            verdict=one.verdict(),
            error=one.error,
            claims=tuple(claims),
        )

    def _finding(self, series: str, found: Finding) -> run_record.Finding:
        asked = found.experiment
        expectation = asked.expectation
        boots = found.evidence.boots or ((),) * len(asked.cells)
        cells = tuple(
            self.place(cell, own) for cell, own in zip(asked.cells, boots, strict=True) if own
        )
        if expectation.metric == "kernel_insns_per_io" and len(cells) == 2:
            self.cost(f"{series}.{asked.claim}", (cells[0], cells[1]))
        cpus = asked.cells[0].cpus
        return run_record.Finding(
            level=asked.level,
            engine=asked.engine,
            metric=expectation.metric,
            unit=_unit(found),
            conditions={**expectation.parameters, **({"cpus": cpus} if cpus > 1 else {})},
            published=expectation.published,
            expected=expectation.change or expectation.value,
            because=expectation.because,
            verdict=found.verdict,
            reason=found.reason,
            arms=tuple(cell.arm for cell in asked.cells),
            cells=cells,
            values=found.evidence.values,
            measured=found.measured,
            change=found.change,
            interval=_ends(found.interval) if found.change is not None else None,
            p=found.p,
            detectable=_finite(found.detectable),
            rejected=found.evidence.rejected,
            group=self._group(asked) if asked.timed else None,
        )

    def _group(self, asked: Experiment) -> int:
        """The number of the rounds that answer an experiment."""
        return self._groups.setdefault(conditions(asked), len(self._groups))

    def place(self, cell: Cell, boots: tuple[str, ...], error: str = "") -> int:
        """Where a cell with these boots stands in the record."""
        known = self._places.get((cell, boots))
        if known is not None:
            return known
        details = self._store.details(boots)
        found = [details[identity] for identity in boots if identity in details]
        values = found[-1].values if found else {}
        metric = headline(cell, values)
        work = workload.get(cell.workload)
        self._workloads.setdefault(
            cell.workload,
            run_record.Workload(
                title=work.title, metric=work.metric, unit=work.unit, better=work.better
            ),
        )
        fields = {**asdict(cell), "parameters": dict(cell.parameters)}
        del fields["seed"]  # the boots of all seeds stand together
        self._cells.append(
            run_record.Cell.model_validate(
                {
                    **fields,
                    "metric": metric,
                    "unit": cost.UNITS.get(metric) or work.unit,
                    "facts": found[-1].facts if found else {},
                    "boots": tuple(map(_boot, found)),
                    "error": error,
                }
            )
        )
        self._places[cell, boots] = len(self._cells) - 1
        return len(self._cells) - 1

    def cost(self, claim: str, places: tuple[int, int]) -> None:
        """Note the functions whose cost for an I/O tells two cells apart, where it was counted."""
        cells = [self._cells[place] for place in places]
        sides = [
            [one for boot in cell.boots if (one := self._store.cost(boot.id))] for cell in cells
        ]
        changed = cost.apart(*sides)[:_FUNCTIONS] if all(sides) else []
        if not changed:
            return
        before, after = (statistics.fmean(one.kernel_total for one in own) for own in sides)
        self._costs.append(
            run_record.CostDifference(
                claim=claim,
                arms=(cells[0].arm, cells[1].arm),
                cells=places,
                functions=tuple((c.function, c.before, c.after) for c in changed),
                totals=(before, after),
            )
        )


def _unit(found: Finding) -> str:
    """The unit of a finding's metric."""
    metric = found.experiment.expectation.metric
    if metric in counters.known():
        return counters.get(metric).unit
    tool = workload.get(found.experiment.cells[0].workload).tool
    return ({**fio.UNITS, **cost.UNITS} if tool == "fio" else dbench.UNITS)[metric]


def _boot(found: Detail) -> run_record.Boot:
    return run_record.Boot(
        id=found.id,
        started=found.started,
        seconds=found.seconds,
        round=found.round,
        kernel=found.kernel,
        values=found.values,
    )


def _host(report: Report | None) -> run_record.Host:
    """The machine; without a report nothing was proved, for the run ended before that."""
    try:
        report = report or Report(facts())
    except LabError as exc:
        return run_record.Host(
            cpus=os.cpu_count() or 1,
            cpu_model=platform.machine(),
            memory_gib=0.0,
            system=platform.system(),
            kernel=platform.release(),
            qemu=exc.what,
            compiler="",
            engines=(),
        )
    own = report.facts
    return run_record.Host(
        cpus=own.cpus,
        cpu_model=own.cpu_model,
        memory_gib=own.memory_gib,
        system=own.system,
        kernel=own.host_kernel,
        qemu=own.qemu,
        compiler=own.compiler,
        engines=tuple(
            run_record.ProvedEngine(name=one.engine, works=one.works, reason=one.reason)
            for one in report.engines
        ),
    )


def _ends(found: Interval | None) -> tuple[float | None, float | None] | None:
    return (_finite(found.low), _finite(found.high)) if found else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _revision(folder: Path = PROJECT) -> str:
    """The lab's own commit, where it is a git checkout."""
    try:
        return run_command(["git", "describe", "--always", "--dirty"], cwd=folder).output.strip()
    except LabError:
        return ""
