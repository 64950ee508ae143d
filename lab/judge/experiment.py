# SPDX-License-Identifier: GPL-2.0-or-later
"""Experiments: an expectation of a claim, with the cells that have to be measured to answer it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lab.base.errors import UsageError
from lab.base.stats import SEED_COUNTS
from lab.inputs import machine_model, topology, workload
from lab.inputs.claims import Claim, Expectation
from lab.inputs.profile import Profile
from lab.inputs.series import BASE, Series
from lab.inputs.terms import Engine, Level
from lab.inputs.workload import Value
from lab.judge import well_formed
from lab.judge.well_formed import arms_of, level_of
from lab.measure import cost, fio_cell
from lab.measure.cell import Cell, resolved
from lab.measure.host import Report


@dataclass(frozen=True)
class Side:
    """An arm of an experiment and its cell; patched: more than base/ is applied."""

    arm: str
    cell: Cell
    patched: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Experiment:
    """One expectation to be answered; every experiment is itself only.

    There are two sides for a change, one for a value. subtract is the side whose value is taken
    off theirs, if one is. swept names the parameters that tell the expectation from others of its
    claim, conditions are what it is shown with. together is equal for experiments whose arms are
    booted in the same rounds; rounds is how many there are at most, questions how many of the
    claim's expectations are judged by rounds.

    is_check tells that the lab supposes it and nobody published it.

    lacking says why this host cannot give the answer even when it measures the cells, skipped
    why the profile measures nothing; measurable tells whether the engine works here.
    """

    series: str
    claim: str
    expectation: Expectation
    level: Level
    sides: tuple[Side, ...]
    seeds: int = 1
    rounds: int = 1
    questions: int = 1
    subtract: Side | None = None
    swept: tuple[str, ...] = ()
    conditions: Mapping[str, Value] = field(default_factory=dict)
    together: Hashable = ()
    measurable: bool = True
    lacking: str = ""
    skipped: str = ""
    is_check: bool = False

    @property
    def runs(self) -> bool:
        """Whether there is something to measure: its engine works and the profile wants it."""
        return self.measurable and not self.skipped

    @property
    def timed(self) -> bool:
        """Whether the answer needs rounds of paired boots; else cells are booted with seeds."""
        return self.level is Level.WALL

    @property
    def asks_for_no_change(self) -> bool:
        """Whether it holds where the arms do the same."""
        bound = self.expectation.bound
        return bound.is_change and bound.interval.low < 0 < bound.interval.high

    @property
    def seed_counts(self) -> tuple[int, ...]:
        """How many seeds a cell is booted with: first, and while it is open."""
        return tuple(count for count in SEED_COUNTS if count <= self.seeds) or (1,)

    @property
    def booted(self) -> tuple[Side, ...]:
        """All sides that have to be measured."""
        return (*self.sides, self.subtract) if self.subtract else self.sides

    @property
    def arms(self) -> tuple[str, ...]:
        """The names of the arms, in the order in which they are compared."""
        return tuple(side.arm for side in self.sides)

    @property
    def engine(self) -> Engine:
        """What executes all sides."""
        return self.sides[0].cell.engine

    @property
    def workload(self) -> str:
        """What all sides run."""
        return self.sides[0].cell.workload


def experiments(
    series: Series, profile: Profile, report: Report, *, host_time: bool = False
) -> list[Experiment]:
    """Every expectation of a series as an experiment.

    Without host_time nothing is timed by the clock of a host that emulates the guest's CPUs.
    Raises UsageError for what does not exist: metric, topology, scheduler, workload, parameter.
    """
    well_formed.check(series)
    every = [
        _experiment(series, title, expectation, profile, report, host_time=host_time)
        for title, claim in series.all_claims.items()
        for expectation in claim.expect
    ]
    if not profile.checks:
        every = _without_boots_of_checks(every)
    return _with_questions(_with_all_counters(every))


def fragments(series: Series, cell: Cell) -> tuple[str, ...]:
    """What a cell of a series needs its kernel to be configured with: the series' own fragments,
    and those that its disk and its job need.
    """
    needed = (*topology.get(cell.topology).kernel, *workload.get(cell.workload).kernel)
    return (*series.kernel, *(name for name in dict.fromkeys(needed) if name not in series.kernel))


def in_rounds(timed: Sequence[Experiment]) -> list[tuple[list[Experiment], list[Side]]]:
    """Wall-clock experiments that are booted in the same rounds, and all their sides.

    So what is compared was measured in the same minutes.
    """
    groups: dict[Hashable, list[Experiment]] = {}
    for experiment in timed:
        groups.setdefault(experiment.together, []).append(experiment)
    return [
        (group, list(dict.fromkeys(side for experiment in group for side in experiment.sides)))
        for group in groups.values()
    ]


def _engine(expectation: Expectation, level: Level, report: Report) -> tuple[Engine, str]:
    """The engine to use, the first of those wanted that works, and why it will not do, if so."""
    usual = (Engine.KVM, Engine.TCG) if level is Level.WALL else (Engine.EXACT,)
    wanted = (Engine.SIM,) if expectation.machine else expectation.engine or usual
    for engine in wanted:
        if report.works(engine):
            return engine, ""
    why = next((e.reason for e in report.engines if e.engine is wanted[0]), "not tried")
    return wanted[0], f"needs the engine {' or '.join(wanted)}; on this host: {why}"


def _experiment(
    series: Series,
    title: str,
    expectation: Expectation,
    profile: Profile,
    report: Report,
    *,
    host_time: bool,
) -> Experiment:
    claim = series.all_claims[title]
    level = level_of(expectation)
    engine, refusal = _engine(expectation, level, report)
    parameters = _parameters(claim, expectation, profile)
    counted = (expectation.metric,) if level is Level.MECHANISM else ()
    # Path length needs no second CPU.
    usual_cpus = 1 if expectation.metric in cost.METRICS else 0
    # What wants a host of so many CPUs wants a guest of as many.
    cpus = expectation.cpus or claim.cpus or expectation.needs_cpus or usual_cpus

    def side(arm: str) -> Side:
        settings = series.all_arms[arm]
        cell = resolved(
            topology_name=settings.topology or claim.topology,
            scheduler=settings.scheduler or claim.scheduler,
            workload=claim.workload,
            parameters=parameters,
            engine=engine,
            cpus=cpus,
            hw_queues=settings.hw_queues,
            kernel_parameters=settings.kernel_parameters,
            counters=counted,
            machine=expectation.machine,
            variants=tuple(machine_model.SENSITIVITY) if level is Level.SIMULATED else (),
        )
        fio_cell.require_possible(cell, f"{series.file}: {title}")
        return Side(arm, cell, settings.patches != BASE)

    skipped = _skip_reason(claim, expectation, profile)
    if not skipped and not host_time and level is Level.WALL and engine is not Engine.KVM:
        skipped = f"the wall clock of {engine} is the emulator's; --host-time measures it"
    common = (claim.topology, claim.scheduler, claim.workload, tuple(parameters.items()))
    return Experiment(
        series=series.name,
        claim=title,
        expectation=expectation,
        level=level,
        sides=tuple(map(side, arms_of(claim, expectation))),
        # A claim asks for seeds because its cost or time is near a bound.
        seeds=max(profile.seeds, claim.seeds, expectation.seeds),
        rounds=profile.rounds,
        subtract=side(expectation.subtract) if expectation.subtract else None,
        swept=_swept(claim, expectation),
        conditions=_conditions(expectation, cpus),
        together=(series.name, common, engine, cpus),
        measurable=not refusal,
        lacking=refusal or _lacking(expectation, report),
        skipped=skipped,
        is_check=claim.is_check,
    )


def _conditions(expectation: Expectation, cpus: int) -> dict[str, Value]:
    """What an expectation is shown with."""
    conditions = dict(expectation.parameters)
    if cpus > 1:
        conditions["cpus"] = cpus
    if expectation.subtract:
        conditions["subtract"] = expectation.subtract
    return conditions


def _lacking(expectation: Expectation, report: Report) -> str:
    """What the host lacks to answer an expectation, although its engine works."""
    if expectation.needs_cpus > report.facts.cpus:
        return f"needs {expectation.needs_cpus} host CPUs, not {report.facts.cpus}"
    machine = expectation.published.machine if expectation.published else ""
    model = expectation.machine
    if machine and model and machine not in machine_model.get(model).published_as:
        return f"published on {machine}, of which {model} is no model"
    return ""


def _swept(claim: Claim, expectation: Expectation) -> tuple[str, ...]:
    """The expectation's own parameters that the workload is run for several values of."""
    usual = workload.get(claim.workload).parameters
    return tuple(sorted(n for n in expectation.parameters if isinstance(usual.get(n), tuple)))


def _offered(claim: Claim, profile: Profile) -> dict[str, Value | tuple[Value, ...]]:
    """The values of a workload's parameters that a profile runs."""
    usual = workload.get(claim.workload).parameters
    return {**usual, **profile.parameters.get(claim.workload, {})}


def _skip_reason(claim: Claim, expectation: Expectation, profile: Profile) -> str:
    """Why the profile leaves an expectation out, if it does."""
    wanted = workload.get(claim.workload).kernel
    if unbuilt := [name for name in wanted if name in profile.without]:
        return f"the profile builds no kernel with {unbuilt[0]}"
    chosen = {**claim.parameters, **expectation.parameters}
    for name, value in sorted(_offered(claim, profile).items()):
        if name in chosen and isinstance(value, tuple) and chosen[name] not in value:
            return f"the profile leaves out {name}={chosen[name]}"
    return ""


def _parameters(claim: Claim, expectation: Expectation, profile: Profile) -> dict[str, Value]:
    """The workload's parameters for an expectation, sorted by name."""
    chosen = {**claim.parameters, **expectation.parameters}
    parameters: dict[str, Value] = {}
    for name, value in sorted(_offered(claim, profile).items()):
        if name in chosen:
            parameters[name] = chosen[name]
        elif isinstance(value, tuple):
            raise UsageError(
                f"the profile runs {claim.workload} for several values of {name}",
                hint=f"choose one in the claim: parameters = {{ {name} = {value[0]} }}",
            )
        else:
            parameters[name] = value
    return parameters


def _without_boots_of_checks(experiments: Sequence[Experiment]) -> list[Experiment]:
    """The experiments, checks skipped but for those that the boots of claims answer as well."""
    booted: dict[Side, int] = {}
    for experiment in experiments:
        for side in experiment.booted if experiment.runs and not experiment.is_check else ():
            booted[_uncounted(side)] = max(experiment.seeds, booted.get(_uncounted(side), 0))

    def answered(experiment: Experiment) -> bool:
        return all(
            experiment.seeds <= booted.get(_uncounted(side), 0) for side in experiment.booted
        )

    return [
        replace(experiment, skipped="the profile boots nothing for checks of the lab's own")
        if experiment.is_check and not experiment.skipped and not answered(experiment)
        else experiment
        for experiment in experiments
    ]


def _uncounted(side: Side) -> Side:
    """A side whatever is counted in it: what differs in that alone shares a boot."""
    return replace(side, cell=replace(side.cell, counters=(), cost=True))


def _with_questions(experiments: Sequence[Experiment]) -> list[Experiment]:
    """The experiments, each with how many of its claim are judged by rounds as it is.

    What the host cannot answer must not make the others harder to answer.
    """
    kinds = [
        (experiment.claim, experiment.timed and experiment.runs, bool(experiment.lacking))
        for experiment in experiments
    ]
    return [
        replace(experiment, questions=kinds.count(kind))
        for experiment, kind in zip(experiments, kinds, strict=True)
    ]


def _with_all_counters(experiments: Sequence[Experiment]) -> list[Experiment]:
    """The experiments, all that is counted in one cell counted in one boot: in the one that tells
    its cost, if that is asked for.
    """
    # What this QEMU cannot count would keep it from counting the rest.
    measured = [
        side for experiment in experiments if experiment.measurable for side in experiment.booted
    ]
    costs = {side for side in measured if side.cell.cost}
    wanted: dict[Side, set[str]] = {}
    for side in measured:
        wanted.setdefault(_uncounted(side), set()).update(side.cell.counters)

    def merged(side: Side) -> Side:
        alone = _uncounted(side)
        cell = replace(side.cell, counters=tuple(sorted(wanted[alone])), cost=alone in costs)
        return replace(side, cell=cell)

    return [
        replace(
            experiment,
            sides=tuple(map(merged, experiment.sides)),
            subtract=merged(experiment.subtract) if experiment.subtract else None,
        )
        if experiment.measurable
        else experiment
        for experiment in experiments
    ]
