# SPDX-License-Identifier: GPL-2.0-or-later
"""Experiments: an expectation of a claim, with the cells that have to be measured to answer it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lab.base.errors import UsageError
from lab.base.stats import SEED_COUNTS
from lab.build import tcg_plugin
from lab.inputs import counters, machine_model, topology, workload
from lab.inputs.claims import Claim, Expectation
from lab.inputs.profile import Profile
from lab.inputs.series import BASE, Series
from lab.inputs.terms import Engine, Level
from lab.inputs.workload import Value
from lab.judge import well_formed
from lab.judge.well_formed import arms_of, level_of
from lab.measure import cost
from lab.measure.call_counts import wants_log
from lab.measure.cell import Cell, resolved
from lab.measure.host import Report
from lab.measure.job import counts_calls

# What a kernel needs to be counted.
INSTRUMENT = "instrument"


@dataclass(frozen=True)
class Side:
    """An arm of an experiment and its cell; patched: more than base/ is applied."""

    arm: str
    cell: Cell
    patched: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Experiment:
    """One expectation to be answered; every experiment is itself only.

    There are two sides for a change, one for a value. over is the side whose value is taken off
    theirs, if one is. swept names the parameters that tell the
    expectation from others of its claim, conditions are what it is shown with. together is equal
    for experiments whose arms are booted in the same rounds; rounds is how many there are at most,
    questions how many of the claim's expectations are judged by rounds.

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
        """Whether the answer needs rounds of paired boots."""
        return self.level is Level.WALL

    @property
    def is_seeded(self) -> bool:
        """Whether its cells are booted with seeds, which differ by chance."""
        return self.level is not Level.WALL and self.engine.deterministic

    @property
    def seed_counts(self) -> tuple[int, ...]:
        """How many seeds a deterministic cell is booted with: first, and while it is open."""
        if not self.engine.deterministic or self.seeds < SEED_COUNTS[0]:
            return (1,)
        return tuple(count for count in SEED_COUNTS if count <= self.seeds)

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
    found = [
        _experiment(series, title, expectation, profile, report, host_time=host_time)
        for title, claim in series.all_claims.items()
        for expectation in claim.expect
    ]
    if not profile.checks:
        found = _without_boots_of_checks(found)
    return _with_questions(_with_all_counters(found))


def fragments(own: Series, cell: Cell) -> tuple[str, ...]:
    """What a cell of a series needs its kernel to be configured with."""
    wanted = (*own.kernel, *workload.get(cell.workload).kernel)
    return (*wanted, INSTRUMENT) if cell.counters else wanted


def in_rounds(timed: Sequence[Experiment]) -> list[tuple[list[Experiment], list[Side]]]:
    """Wall-clock experiments that are booted in the same rounds, and all their sides.

    So what is compared was measured in the same minutes.
    """
    groups: dict[Hashable, list[Experiment]] = {}
    for asked in timed:
        groups.setdefault(asked.together, []).append(asked)
    return [
        (own, list(dict.fromkeys(side for asked in own for side in asked.sides)))
        for own in groups.values()
    ]


@dataclass(frozen=True)
class _Choice:
    """An engine, and why it will not do when none of those wanted works."""

    engine: Engine
    refusal: str = ""


def _engine(expectation: Expectation, level: Level, report: Report) -> _Choice:
    """The engine to use: the first of those wanted that works."""
    usual = (Engine.KVM, Engine.TCG) if level is Level.WALL else (Engine.EXACT,)
    wanted = (Engine.SIM,) if expectation.machine else expectation.engine or usual
    for engine in wanted:
        if report.works(engine):
            return _Choice(engine)
    why = next((e.reason for e in report.engines if e.engine is wanted[0]), "not tried")
    refusal = f"needs the engine {' or '.join(wanted)}; on this host: {why}"
    return _Choice(wanted[0], refusal)


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
    choice = _engine(expectation, level, report)
    parameters, qemu = _parameters(claim, expectation, profile), report.facts.qemu_version
    # Path length needs no second CPU.
    usual_cpus = 1 if expectation.metric in cost.METRICS else 0
    # What wants a host of so many CPUs wants a guest of as many.
    cpus = expectation.cpus or claim.cpus or expectation.needs_cpus or usual_cpus

    def side(arm: str) -> Side:
        own = series.all_arms[arm]
        hardware = own.topology or claim.topology
        probed, called = counted(expectation.metric, choice.engine, hardware, claim.workload, qemu)
        cell = resolved(
            topology_name=hardware,
            scheduler=own.scheduler or claim.scheduler,
            workload=claim.workload,
            parameters=parameters,
            engine=choice.engine,
            cpus=cpus,
            hw_queues=own.hw_queues,
            kernel_parameters=own.kernel_parameters,
            counters=probed,
            calls=called,
            machine=expectation.machine,
            variants=machine_model.SENSITIVITY if level is Level.SIMULATED else (),
        )
        return Side(arm, cell, own.patches != BASE)

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
        together=(series.name, common, choice.engine, cpus),
        measurable=not choice.refusal,
        lacking=choice.refusal or _lacking(expectation, report),
        skipped=_skip_reason(claim, expectation, profile)
        or ("" if host_time else _emulated_clock(level, choice.engine)),
        is_check=claim.is_check,
    )


def _emulated_clock(level: Level, engine: Engine) -> str:
    """Why the wall clock of an engine is not measured unasked; empty where it is."""
    if level is not Level.WALL or engine is Engine.KVM:
        return ""
    return f"the wall clock of {engine} is the emulator's; --host-time measures it"


def counted(
    metric: str, engine: Engine, hardware: str, work: str, qemu: tuple[int, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What an instrumented kernel has to count for a metric, and what QEMU counts on any.

    qemu is its version; none stands for one that is not known yet, and new enough.
    """
    if metric not in counters.known():
        return (), ()
    told = counters.by_calls([metric], topology.get(hardware).disk.value)
    if not told or not counts_calls(engine, workload.get(work)):
        return (metric,), ()
    one_by_one = any(wants_log(one, engine) for one in told.values())
    too_old = bool(qemu) and qemu < tcg_plugin.ARGUMENTS
    return ((metric,), ()) if one_by_one and too_old else ((), (metric,))


def _conditions(expectation: Expectation, cpus: int) -> dict[str, Value]:
    """What an expectation is shown with."""
    found = dict(expectation.parameters)
    if cpus > 1:
        found["cpus"] = cpus
    if expectation.subtract:
        found["subtract"] = expectation.subtract
    return found


def _lacking(expectation: Expectation, report: Report) -> str:
    """What the host lacks to answer an expectation, although its engine works."""
    if expectation.needs_cpus > report.facts.cpus:
        return f"needs {expectation.needs_cpus} host CPUs, not {report.facts.cpus}"
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
    given = {**claim.parameters, **expectation.parameters}
    for name, value in sorted(_offered(claim, profile).items()):
        if name in given and isinstance(value, tuple) and given[name] not in value:
            return f"the profile leaves out {name}={given[name]}"
    return ""


def _parameters(claim: Claim, expectation: Expectation, profile: Profile) -> dict[str, Value]:
    """The workload's parameters for an expectation, sorted by name."""
    given = {**claim.parameters, **expectation.parameters}
    found: dict[str, Value] = {}
    for name, value in sorted(_offered(claim, profile).items()):
        if name in given:
            found[name] = given[name]
        elif isinstance(value, tuple):
            raise UsageError(
                f"the profile runs {claim.workload} for several values of {name}",
                hint=f"choose one in the claim: parameters = {{ {name} = {value[0]} }}",
            )
        else:
            found[name] = value
    return found


def _without_boots_of_checks(found: Sequence[Experiment]) -> list[Experiment]:
    """The experiments, checks skipped but for those that the boots of claims answer as well."""
    booted: dict[Side, int] = {}
    for one in found:
        for side in one.booted if one.runs and not one.is_check else ():
            booted[_uncounted(side)] = max(one.seeds, booted.get(_uncounted(side), 0))

    def answered(one: Experiment) -> bool:
        return all(one.seeds <= booted.get(_uncounted(side), 0) for side in one.booted)

    return [
        replace(one, skipped="the profile boots nothing for checks of the lab's own")
        if one.is_check and not one.skipped and not answered(one)
        else one
        for one in found
    ]


def _uncounted(side: Side) -> Side:
    """A side whatever is counted in it: what differs in that alone shares a boot."""
    return replace(side, cell=replace(side.cell, counters=(), calls=(), cost=True))


def _with_questions(found: Sequence[Experiment]) -> list[Experiment]:
    """The experiments, each with how many of its claim are judged by rounds as it is.

    What the host cannot answer must not make the others harder to answer.
    """
    kinds = [(one.claim, one.timed and one.runs, bool(one.lacking)) for one in found]
    return [
        replace(one, questions=kinds.count(kind)) for one, kind in zip(found, kinds, strict=True)
    ]


def _with_all_counters(found: Sequence[Experiment]) -> list[Experiment]:
    """The experiments, all that is counted in one cell counted in one boot: calls in the one that
    tells its cost, if that is asked for.
    """
    wanted: dict[Side, tuple[set[str], set[str]]] = {}
    costs = {side for one in found for side in one.booted if side.cell.cost}

    for experiment in found:
        for side in experiment.booted:
            own = wanted.setdefault(_uncounted(side), (set(), set()))
            own[0].update(side.cell.counters)
            own[1].update(side.cell.calls)

    def merged(side: Side) -> Side:
        probes, calls = (tuple(sorted(own)) for own in wanted[_uncounted(side)])
        if side.cell.counters:
            return replace(side, cell=replace(side.cell, counters=probes))
        cost = _uncounted(side) in costs
        return replace(side, cell=replace(side.cell, calls=calls, cost=cost))

    return [
        replace(
            one,
            sides=tuple(map(merged, one.sides)),
            subtract=merged(one.subtract) if one.subtract else None,
        )
        for one in found
    ]
