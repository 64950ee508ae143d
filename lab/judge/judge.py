# SPDX-License-Identifier: GPL-2.0-or-later
"""From patch series to verdicts: kernels, experiments, boots, findings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import sub

from lab.base.errors import LabError
from lab.base.stats import half_width
from lab.build.config_diff import changed_options
from lab.build.kernel import Kernel
from lab.inputs import series
from lab.inputs.series import Series
from lab.inputs.terms import Verdict
from lab.judge import experiment, verdict, well_formed
from lab.judge.experiment import Experiment, Side
from lab.judge.verdict import Evidence, Failure, Judged
from lab.measure import cost, sim_counts
from lab.measure.boot_store import BootStore, Ends
from lab.measure.cell import Task
from lab.measure.job import has_block_layer
from lab.measure.runner import Outcome, Rounds, Runner
from lab.measure.session import Session

# Rounds that are run however early they decide. Chosen: a kernel that breaks in one boot of eight
# is to show it.
FEWEST = 8
# Seeds on record tell their noise with so many degrees of freedom. Chosen: four of one kernel.
_DEGREES = 3
# Controls: what holds of a series must not hold of these.
CONTROLS = {"reversed": series.reverse, "no-op": series.no_op}


@dataclass(frozen=True)
class Case:
    """A series with all that is needed to measure it: its experiments, and a task for each side.

    configuration is what Judged has.
    """

    series: Series
    experiments: tuple[Experiment, ...]
    tasks: Mapping[Side, Task]
    configuration: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def same(self, asked: Experiment) -> bool:
        """Whether an experiment compares an arm with itself, under another name."""
        ran = {(self.tasks[side].cell, self.tasks[side].kernel) for side in asked.sides}
        return bool(asked.expectation.change) and len(ran) == 1

    def seeds(self, asked: Experiment, count: int) -> list[list[Task]]:
        """The tasks of an experiment, by side: with a sealed engine one for each of count seeds."""
        own = [self.tasks[side] for side in asked.booted]
        if not asked.engine.sealed:
            return [[task] for task in own]
        return [[task.seeded(seed) for seed in range(1, count + 1)] for task in own]

    def ends(self, asked: Experiment, store: BootStore) -> tuple[Ends, Ends]:
        """How all boots on record of an experiment's patched kernels ended, and of the others that
        the series has of that configuration.
        """
        configured = experiment.fragments(self.series, asked.sides[0].cell)
        patched = {self.tasks[s].kernel.id for s in asked.sides if s.patched and s in self.tasks}
        base = {
            task.kernel.id
            for side, task in self.tasks.items()
            if not side.patched and experiment.fragments(self.series, side.cell) == configured
        }
        return store.ends(patched), store.ends(base - patched)

    def running(self, *, timed: bool) -> list[Experiment]:
        """The experiments that need boots: with rounds, or without."""
        return [
            asked
            for asked in self.experiments
            if asked.runs and not self.same(asked) and asked.timed == timed
        ]


def judge(
    wanted: Sequence[Series],
    session: Session,
    *,
    claims: Collection[tuple[str, str]] = (),
) -> tuple[Judged, ...]:
    """Judge series, and return what was found of each, in that order.

    claims are the pairs of series and claim that are wanted; none means all.

    What the store already has is not measured again. A series that cannot be prepared (its patches
    do not apply, a kernel does not build) is reported as such; the others are judged.
    """
    cases: dict[str, Case] = {}
    errors: dict[str, str] = {}
    for own in wanted:
        session.progress.say(f"{own.name}:")
        try:
            cases[own.name] = prepare(own, session, claims)
        except LabError as exc:
            session.progress.say(f"lab: {exc}")
            errors[own.name] = str(exc)
    evidence = measure(list(cases.values()), session) if cases else {}
    found = verdict.judge(list(evidence.items()), session.profile.alpha)
    return tuple(
        Judged(
            own,
            tuple(one for one in found if one.experiment.series == own.name),
            errors.get(own.name, ""),
            cases[own.name].configuration if own.name in cases else {},
        )
        for own in wanted
    )


def prepare(own: Series, session: Session, claims: Collection[tuple[str, str]] = ()) -> Case:
    """The experiments of a series, and all kernels that they need, built.

    Raises UsageError for a series that is not well formed, BuildError for patches that do not
    apply or build.
    """
    well_formed.check(own)
    testbed = session.prove(own.tree, own.kernel)
    every = experiment.experiments(own, session.profile, testbed.host, host_time=session.host_time)
    asked = [one for one in every if not claims or (own.name, one.claim) in claims]
    kernels: dict[tuple[str, tuple[str, ...]], Kernel] = {}
    tasks: dict[Side, Task] = {}
    for one in asked:
        for side in one.booted if one.runs else ():
            level, wanted = own.all_arms[side.arm].patches, experiment.fragments(own, side.cell)
            if (level, wanted) not in kernels:
                kernels[level, wanted] = session.kernel(own.tree, own.patches(level), wanted)
            kernel = kernels[level, wanted]
            task = Task(cell=side.cell, kernel=kernel, arm=side.arm, swept=one.swept)
            # No patch decides what the block layer is, not even one of base/.
            if has_block_layer(side.cell):
                task = task.beside(session.kernel(own.tree, (), wanted))
            tasks[side] = task
    return Case(own, tuple(asked), tasks, _configuration(kernels))


def _configuration(
    kernels: Mapping[tuple[str, tuple[str, ...]], Kernel],
) -> dict[str, tuple[str, ...]]:
    """In which options kernels with patches differ from those of the same fragments without."""
    found: dict[str, tuple[str, ...]] = {}
    for (level, fragments), kernel in kernels.items():
        if base := kernels.get((series.BASE, fragments)):
            changed = (*found.get(level, ()), *changed_options(base, kernel))
            found[level] = tuple(dict.fromkeys(changed))
    return {level: changed for level, changed in found.items() if changed}


def measure(cases: Sequence[Case], session: Session) -> dict[Experiment, Evidence]:
    """Measure what the experiments of several series need: exact cells first, then rounds."""
    single = {asked: case for case in cases for asked in case.running(timed=False)}
    first = [task for asked, case in single.items() for task in _tasks(asked, case, 0)]
    timed = [
        case.tasks[side]
        for case in cases
        for asked in case.running(timed=True)
        for side in asked.sides
    ]
    evidence = {
        asked: Evidence(same=asked.runs and case.same(asked))
        for case in cases
        for asked in case.experiments
    }
    with session.measuring([*first, *timed]) as runner:
        evidence |= _drawn(single, runner, session)
        for case in cases:
            evidence |= _rounds(case, runner, session.profile.alpha)
    ends = {asked: case.ends(asked, session.store) for case in cases for asked in case.experiments}
    return {asked: replace(one, ends=ends[asked]) for asked, one in evidence.items()}


def _drawn(
    asked: Mapping[Experiment, Case], runner: Runner, session: Session
) -> dict[Experiment, Evidence]:
    """Boot what needs no rounds, all side by side, and with more seeds what is still open."""
    profile = session.profile
    found: dict[Experiment, Evidence] = {}
    waiting, look = dict(asked), 0
    while waiting:
        tasks = list(
            dict.fromkeys(t for one, case in waiting.items() for t in _tasks(one, case, look))
        )
        outcomes = dict(zip(tasks, runner.all(tasks, profile.counted_boots), strict=True))
        for one, case in waiting.items():
            by_arm = case.seeds(one, one.looks[look])
            known = drawn_evidence(one, [[outcomes[task] for task in own] for own in by_arm])
            found[one] = replace(known, noise=_noise(one, known, session))
        look += 1
        judged = verdict.judge([(one, found[one]) for one in waiting], profile.alpha)
        open_ = [one.experiment for one in judged if one.verdict is Verdict.INCONCLUSIVE]
        # What the host lacks no seed brings.
        waiting = {one: asked[one] for one in open_ if len(one.looks) > look and not one.lacking}
    return found


def _noise(asked: Experiment, known: Evidence, session: Session) -> float | None:
    """How far two seeds of an experiment's cells may be apart, by all that are on record; asked
    only where the seeds that are known are too few to tell that themselves.
    """
    if not asked.drawn or min(map(len, known.values)) >= verdict.SEEDS:
        return None
    metric, cells = asked.expectation.metric, dict.fromkeys(side.cell for side in asked.sides)
    groups = [own for cell in cells for own in session.store.draws(cell, metric)]
    if sum(len(own) - 1 for own in groups) < _DEGREES:
        return None
    return half_width(groups, 1, session.profile.alpha)


def _tasks(asked: Experiment, case: Case, look: int) -> list[Task]:
    return [task for own in case.seeds(asked, asked.looks[look]) for task in own]


def _rounds(case: Case, runner: Runner, alpha: float) -> dict[Experiment, Evidence]:
    """Run the rounds of a case's wall-clock experiments, each until it is decided."""
    timed = case.running(timed=True)
    found: dict[Experiment, Evidence] = {}
    for answered, sides in experiment.in_rounds(timed):
        tasks = [case.tasks[side] for side in sides]
        # One round is enough where this host cannot give the answer anyway.
        most = max(1 if asked.lacking else asked.rounds for asked in answered)
        answerable = [asked for asked in answered if not asked.lacking]
        rounds = runner.rounds(tasks, most, partial(decided, answerable, alpha))
        failure = failed_round(sides, rounds)
        found |= {asked: paired_evidence(asked, rounds, failure) for asked in answered}
    return found


def decided(asked: Sequence[Experiment], alpha: float, rounds: Rounds) -> bool:
    """Whether rounds are enough for all of some experiments."""
    if rounds.complete < FEWEST:
        return False
    known = [(one, paired_evidence(one, rounds, None)) for one in asked]
    return bool(known) and all(one.verdict.decided for one in verdict.judge(known, alpha))


def failed_round(sides: Sequence[Side], rounds: Rounds) -> Failure | None:
    """The guest that ended the rounds, if one did."""
    if not rounds.error:
        return None
    patched = next(side.patched for side in sides if side.arm == rounds.failed_arm)
    return Failure(rounds.failed_arm, patched, rounds.error.outcome, rounds.error.brief)


def paired_evidence(asked: Experiment, rounds: Rounds, failure: Failure | None) -> Evidence:
    """What rounds say of an experiment."""
    metric, own = asked.expectation.metric, [rounds.boots[arm] for arm in asked.arms]
    values = tuple(tuple(boot.values[metric] for boot in arm) for arm in own)
    boots = tuple(tuple(boot.id for boot in arm) for arm in own)
    return Evidence(values, rounds.rejected, failure, boots=boots)


def drawn_evidence(asked: Experiment, by_arm: Sequence[Sequence[Outcome]]) -> Evidence:
    """What the boots of an experiment without rounds say; a failure of a base arm comes first."""
    metric, boots, failures = asked.expectation.metric, [], []
    for side, outcomes in zip(asked.booted, by_arm, strict=True):
        for outcome in outcomes:
            if error := outcome.error:
                failures.append(Failure(side.arm, side.patched, error.outcome, error.brief))
        found = [boot for outcome in outcomes for boot in outcome.boots]
        boots.append([boot for boot in found if metric in boot.values])

    def values(name: str, less: str = "") -> tuple[tuple[float, ...], ...]:
        known = [
            tuple(b.values[name] - (b.values[less] if less else 0.0) for b in arm) for arm in boots
        ]
        if not asked.over:
            return tuple(known)
        *compared, least = known
        # Seed by seed; where one is missing, a guest failed, and that is told.
        return tuple(tuple(map(sub, own, least)) for own in compared)

    exact = metric in (cost.KERNEL, cost.BLOCK_LAYER) and asked.expectation.change
    doubt = cost.other_work([[b.values for b in own] for own in boots]) if exact else ""
    # A base kernel that fails is the lab's error, and says more than a patched one that does too.
    failure = min(failures, key=lambda one: one.patched, default=None)
    return Evidence(
        values(metric),
        failure=failure,
        boots=tuple(tuple(boot.id for boot in arm) for arm in boots[: len(asked.sides)]),
        variants={
            factor: values(sim_counts.variant(metric, factor))
            for factor in asked.sides[0].cell.variants
        },
        doubt=doubt,
        rest=values(cost.KERNEL, cost.BLOCK_LAYER) if metric == cost.BLOCK_LAYER else (),
    )
