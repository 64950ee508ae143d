# SPDX-License-Identifier: GPL-2.0-or-later
"""Experiments: an expectation of a claim, with the cells that have to be measured to answer it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lab.base.errors import UsageError, nearest
from lab.inputs import counters, series, topology, workload
from lab.inputs.profile import Profile
from lab.inputs.series import Arm, Claim, Expectation, Series
from lab.inputs.terms import Engine, Level
from lab.inputs.workload import Value
from lab.measure import cost, dbench, fio
from lab.measure.cell import Cell
from lab.measure.host import Report
from lab.measure.matrix import require_known, require_possible


@dataclass(frozen=True, eq=False)
class Experiment:
    """One expectation to be answered; every experiment is itself only.

    cells has a cell for each arm: two for a change, one for a value; topology is the claim's.
    lacking says why this host cannot give the answer even when it measures the cells, left_out
    why the profile measures nothing.
    """

    series: str
    claim: str
    expectation: Expectation
    topology: str
    level: Level
    engine: Engine
    cells: tuple[Cell, ...]
    lacking: str = ""
    left_out: str = ""

    @property
    def runs(self) -> bool:
        """Whether there is something to measure: its engine works and the profile wants it."""
        return not self.left_out and not self.lacking.startswith("needs the engine")

    @property
    def timed(self) -> bool:
        """Whether the answer needs rounds of paired boots."""
        return self.level is Level.WALL


def experiments(name: str, judged: Series, profile: Profile, report: Report) -> list[Experiment]:
    """Every expectation of the series called name as an experiment.

    Raises UsageError for what does not exist: metric, topology, scheduler, workload, parameter.
    """
    check(name, judged)
    found = []
    for title, claim in judged.claims.items():
        for expectation in claim.expect:
            level = _level(claim, expectation)
            engine, lacking = _engine(expectation, level, report)
            if not lacking and expectation.needs_cpus > report.facts.cpus:
                lacking = f"needs {expectation.needs_cpus} host CPUs, not {report.facts.cpus}"
            if not lacking and expectation.needs:
                lacking = f"needs {expectation.needs}"
            parameters, left_out = _parameters(claim, expectation, profile)
            cells = tuple(
                _cell(judged.all_arms[arm], arm, claim, expectation, engine, parameters)
                for arm in _arms(claim, expectation)
            )
            found.append(
                Experiment(
                    *(name, title, expectation, claim.topology, level, engine, cells),
                    *(lacking, left_out),
                )
            )
    return _with_all_counters(found)


def check(name: str, judged: Series) -> None:
    """Raise UsageError, with the place in series.toml, unless all that the claims name exists."""
    path = series.file(name)
    for title, arm in judged.all_arms.items():
        if arm.topology and arm.topology not in topology.known():
            raise UsageError(
                f"no topology is called {arm.topology!r}",
                where=f"{path}: arms.{title}.topology",
                hint=nearest(arm.topology, topology.known()),
            )
    for title, claim in judged.claims.items():
        where = f"{path}: claims.{title}"
        require_known((claim.topology,), (claim.scheduler,), (claim.workload,), where)
        require_possible(claim.workload, claim.topology, where)
        work = workload.get(claim.workload)
        for number, expectation in enumerate(claim.expect):
            where = f"{path}: claims.{title}.expect.{number}"
            for arm_name in _arms(claim, expectation):
                if arm_name not in judged.all_arms:
                    raise UsageError(
                        f"no arm is called {arm_name!r}",
                        where=where,
                        hint=nearest(arm_name, judged.all_arms),
                    )
            given = {**claim.parameters, **expectation.parameters}
            work.checked(given, where)
            for parameter, usual in work.parameters.items():
                if isinstance(usual, tuple) and parameter not in given:
                    raise UsageError(
                        f"{claim.workload} is run for several values of {parameter}",
                        where=where,
                        hint=f"choose one: parameters = {{ {parameter} = {usual[0]} }}",
                    )
            metrics = [*_metrics(claim), *counters.known()]
            if expectation.metric not in metrics:
                raise UsageError(
                    f"{claim.workload} has no metric {expectation.metric!r}",
                    where=where,
                    hint=nearest(expectation.metric, metrics),
                )
            if expectation.metric in cost.UNITS and {*expectation.engine} - {Engine.ICOUNT}:
                raise UsageError(
                    f"only the engine {Engine.ICOUNT} gives {expectation.metric}",
                    where=where,
                    hint="leave out the key engine",
                )


def rounds_of(asked: Sequence[Experiment]) -> list[tuple[Cell, ...]]:
    """The cells of one series' wall-clock experiments; those that differ only in the arm together.

    They are booted in turn, so that what is compared was measured in the same minutes.
    """
    together: dict[tuple[str, str, Cell], dict[str, Cell]] = {}
    for experiment in asked:
        arms = together.setdefault(conditions(experiment), {})
        for cell in experiment.cells:
            arms.setdefault(cell.arm, cell)
    return [tuple(arms.values()) for arms in together.values()]


def conditions(asked: Experiment) -> tuple[str, str, Cell]:
    """What the arms of an experiment share: equal for experiments with the same rounds."""
    cell = replace(asked.cells[0], arm="", topology="", hw_queues=0, kernel_parameters=(), swept=())
    return asked.series, asked.topology, cell


def _arms(claim: Claim, expectation: Expectation) -> tuple[str, ...]:
    """The arms whose values are needed."""
    compared = expectation.compare or claim.compare
    return compared if expectation.change else (expectation.arm or compared[1],)


def _metrics(claim: Claim) -> list[str]:
    tool = workload.get(claim.workload).tool
    return [*fio.UNITS, *cost.UNITS] if tool == "fio" else [*dbench.UNITS]


def _level(claim: Claim, expectation: Expectation) -> Level:
    if expectation.metric in counters.known():
        return Level.MECHANISM
    exact = expectation.metric in cost.UNITS or expectation.engine == ("icount",)
    return Level.COST if exact else Level.WALL


def _engine(expectation: Expectation, level: Level, report: Report) -> tuple[Engine, str]:
    """The engine to use, and why it will not do when none of those wanted works."""
    usual = ("kvm", "tcg") if level is Level.WALL else ("icount",)
    wanted = [Engine(name) for name in expectation.engine or usual]
    for engine in wanted:
        if report.works(engine):
            return engine, ""
    why = next((e.reason for e in report.engines if e.engine is wanted[0]), "not tried")
    return wanted[0], f"needs the engine {' or '.join(wanted)}; on this host: {why}"


def _parameters(
    claim: Claim, expectation: Expectation, profile: Profile
) -> tuple[tuple[tuple[str, Value], ...], str]:
    """The workload's parameters for an expectation; and why the profile leaves it out, if so."""
    usual = workload.get(claim.workload).parameters
    offered = {**usual, **profile.parameters.get(claim.workload, {})}
    given = {**claim.parameters, **expectation.parameters}
    found: dict[str, Value] = {}
    left_out = ""
    for name, value in sorted(offered.items()):
        if name in given:
            found[name] = given[name]
            if isinstance(value, tuple) and given[name] not in value:
                left_out = f"the profile leaves out {name}={given[name]}"
        elif isinstance(value, tuple):
            raise UsageError(
                f"the profile runs {claim.workload} for several values of {name}",
                hint=f"choose one in the claim: parameters = {{ {name} = {value[0]} }}",
            )
        else:
            found[name] = value
    return tuple(found.items()), left_out


def _cell(
    arm: Arm,
    name: str,
    claim: Claim,
    expectation: Expectation,
    engine: Engine,
    parameters: tuple[tuple[str, Value], ...],
) -> Cell:
    # Path length needs no second CPU.
    usual_cpus = 1 if expectation.metric in cost.UNITS else 0
    return Cell(
        arm.topology or claim.topology,
        claim.scheduler,
        claim.workload,
        parameters,
        engine,
        expectation.cpus or claim.cpus or usual_cpus,
        tuple(sorted({*expectation.parameters} & {"clients"})),
        name,
        arm.hw_queues,
        arm.kernel_parameters,
        (expectation.metric,) if expectation.metric in counters.known() else (),
    )


def _with_all_counters(found: Sequence[Experiment]) -> list[Experiment]:
    """The experiments, all that is counted in one cell counted in one boot."""
    wanted: dict[Cell, set[str]] = {}
    for experiment in found:
        for cell in experiment.cells:
            wanted.setdefault(replace(cell, counters=()), set()).update(cell.counters)

    def merged(cell: Cell) -> Cell:
        names = sorted(wanted[replace(cell, counters=())]) if cell.counters else ()
        return replace(cell, counters=tuple(names))

    return [replace(q, cells=tuple(map(merged, q.cells))) for q in found]
