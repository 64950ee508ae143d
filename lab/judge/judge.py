# SPDX-License-Identifier: GPL-2.0-or-later
"""From patch series to verdicts: kernels, experiments, boots, findings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import (
    FIRST_EXCEPTION,
    CancelledError,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from operator import sub
from threading import Lock

from lab.base.errors import LabError
from lab.base.stats import half_width
from lab.inputs.series import Series, no_op, reverse
from lab.inputs.terms import Verdict
from lab.judge import verdict
from lab.judge.case import Case, cheapest_first, prepare
from lab.judge.experiment import Experiment, Side, in_rounds
from lab.judge.finding import Evidence, Failure
from lab.judge.problem import with_problems
from lab.judge.seed_noise import SEEDS
from lab.judge.verdict import Judged
from lab.measure import cost, sim_counts
from lab.measure.runner import Outcome, Rounds, Runner
from lab.measure.session import Session

# Rounds that are run however early they decide. Chosen: a kernel that breaks in one boot of eight
# is to show it.
FEWEST = 8
# Seeds on record tell their noise with so many degrees of freedom. Chosen: four of one kernel.
_DEGREES = 3
# Controls: what holds of a series must not hold of these.
CONTROLS = {"reversed": reverse, "no-op": no_op}


def judge(
    wanted: Sequence[Series],
    session: Session,
    *,
    claims: Collection[tuple[str, str]] = (),
    finished: Callable[[Judged], None] = lambda judged: None,
) -> tuple[Judged, ...]:
    """Judge series, and return what was found of each, in that order.

    claims are the pairs of series and claim that are wanted; none means all. finished is called,
    from one thread at a time, with each series as soon as its verdict is there. The series that
    needs the fewest boots comes first; while its guests run, the kernels of the next one are built.

    What the store already has is not measured again. A series that cannot be prepared (its patches
    do not apply, a kernel does not build) is reported as such; the others are judged.
    """
    judged_by_name: dict[str, Judged] = {}
    lock = Lock()

    def keep(judged: Judged) -> None:
        with lock:
            judged_by_name[judged.series.name] = judged
            finished(judged)

    with ThreadPoolExecutor(len(wanted) or 1) as threads, ExitStack() as opened:
        stream: _Stream | None = None
        for urgency, series in enumerate(cheapest_first(wanted, session, claims)):
            session.progress.say(f"{series.name}:")
            try:
                case = prepare(series, session, claims)
            except LabError as exc:
                session.progress.say(f"lab: {exc}")
                keep(Judged(series, (), str(exc)))
                continue
            if stream is None:
                runner = opened.enter_context(session.opened())
                stream = _Stream(session, runner, threads, keep)
            stream.begin(case, urgency)
        if stream:
            stream.complete()
    return tuple(judged_by_name[series.name] for series in wanted)


@dataclass
class _Stream:
    """Measures series while the kernels of others are built.

    What is deterministic runs beside anything. What the host's clock times waits until all else is
    done, and has the host for itself. keep is called with each series that is judged.
    """

    session: Session
    runner: Runner
    threads: ThreadPoolExecutor
    keep: Callable[[Judged], None]
    running: list[Future[None]] = field(default_factory=list)
    unfinished: dict[int, tuple[Case, dict[Experiment, Evidence]]] = field(default_factory=dict)

    def begin(self, case: Case, urgency: int) -> None:
        """Measure what is deterministic of a case, from now on; the lower its urgency's number, the
        earlier. Raises what went wrong with a case before.
        """
        self._raise_failure(future for future in self.running if future.done())
        self.running.append(self.threads.submit(self._measure, case, urgency))

    def complete(self) -> None:
        """Wait for all cases, and measure what has the host for itself."""
        self._raise_failure(wait(self.running, return_when=FIRST_EXCEPTION).done)
        # In the order they began in, whichever thread ended first.
        for _, (case, evidence) in sorted(self.unfinished.items()):
            evidence |= _rounds(case, self.runner, self.session.profile.alpha)
            self._finish(case, evidence)

    def _measure(self, case: Case, urgency: int) -> None:
        deterministic = case.running(timed=False)
        self.runner.require_exact(
            [case.tasks[side] for experiment in deterministic for side in experiment.booted]
        )
        evidence = {
            experiment: Evidence(same=experiment.runs and case.same(experiment))
            for experiment in case.experiments
        }
        evidence |= _seeded(case, deterministic, self.runner, self.session, urgency)
        if case.running(timed=True):
            self.unfinished[urgency] = (case, evidence)
        else:
            self._finish(case, evidence)

    def _finish(self, case: Case, evidence: Mapping[Experiment, Evidence]) -> None:
        """Judge a case of which everything is measured."""
        store, alpha = self.session.store, self.session.profile.alpha
        known = [
            (experiment, replace(e, ends=case.ends(experiment, store)))
            for experiment, e in evidence.items()
        ]
        judged = with_problems(case.series, verdict.judge(known, alpha))
        self.keep(Judged(case.series, judged, configuration=case.configuration))

    @staticmethod
    def _raise_failure(done: Iterable[Future[None]]) -> None:
        """Raise what a thread raised, if one did; guests that were ended for it are no failure."""
        raised = [error for future in done if (error := future.exception())]
        for error in sorted(raised, key=lambda error: isinstance(error, CancelledError)):
            raise error


def _seeded(
    case: Case,
    experiments: Sequence[Experiment],
    runner: Runner,
    session: Session,
    urgency: int,
) -> dict[Experiment, Evidence]:
    """Boot what needs no rounds, all side by side, and with more seeds what is still open."""
    evidence: dict[Experiment, Evidence] = {}
    waiting, stage = list(experiments), 0
    while waiting:
        seeded = {each: case.seeds(each, each.seed_counts[stage]) for each in waiting}
        by_side = [side_tasks for by_arm in seeded.values() for side_tasks in by_arm]
        tasks = [*dict.fromkeys(chain.from_iterable(by_side))]
        boots = runner.all(tasks, urgency=urgency, title=case.series.name)
        outcomes = dict(zip(tasks, boots, strict=True))
        for experiment, by_arm in seeded.items():
            known = seed_evidence(
                experiment, [[outcomes[task] for task in arm_tasks] for arm_tasks in by_arm]
            )
            evidence[experiment] = replace(
                known,
                noise=_noise(experiment, known, session),
                unchanged=case.unchanged(experiment, known, session.store),
            )
        stage += 1
        judged = verdict.judge(
            [(experiment, evidence[experiment]) for experiment in waiting], session.profile.alpha
        )
        # A question that is recorded as open needs no more seeds to be so, and what the host lacks
        # no seed brings.
        waiting = [
            finding.experiment
            for finding in judged
            if finding.verdict is Verdict.INCONCLUSIVE
            and not finding.open_as_recorded
            and not finding.experiment.lacking
            and len(finding.experiment.seed_counts) > stage
        ]
    return evidence


def _noise(experiment: Experiment, known: Evidence, session: Session) -> float | None:
    """How far two seeds of an experiment's cells may be apart, by all that are on record; asked
    only where the seeds that are known are too few to tell that themselves.
    """
    if min(map(len, known.values)) >= SEEDS:
        return None
    metric = experiment.expectation.metric
    cells = dict.fromkeys(side.cell for side in experiment.sides)
    groups = [group for cell in cells for group in session.store.by_seed(cell, metric)]
    if sum(len(group) - 1 for group in groups) < _DEGREES:
        return None
    return half_width(groups, 1, session.profile.alpha)


def _rounds(case: Case, runner: Runner, alpha: float) -> dict[Experiment, Evidence]:
    """Run the rounds of a case's wall-clock experiments, each until it is decided."""
    timed = case.running(timed=True)
    evidence: dict[Experiment, Evidence] = {}
    for answered, sides in in_rounds(timed):
        tasks = [case.tasks[side] for side in sides]
        # One round is enough where this host cannot give the answer anyway.
        most = max(1 if experiment.lacking else experiment.rounds for experiment in answered)
        answerable = [experiment for experiment in answered if not experiment.lacking]
        rounds = runner.rounds(tasks, most, partial(decided, answerable, alpha))
        failure = failed_round(sides, rounds)
        evidence |= {
            experiment: paired_evidence(experiment, rounds, failure) for experiment in answered
        }
    return evidence


def decided(experiments: Sequence[Experiment], alpha: float, rounds: Rounds) -> bool:
    """Whether rounds are enough for all of some experiments."""
    if rounds.complete < FEWEST:
        return False
    known = [(experiment, paired_evidence(experiment, rounds, None)) for experiment in experiments]
    return bool(known) and all(finding.verdict.decided for finding in verdict.judge(known, alpha))


def failed_round(sides: Sequence[Side], rounds: Rounds) -> Failure | None:
    """The guest that ended the rounds, if one did."""
    if not rounds.error:
        return None
    patched = next(side.patched for side in sides if side.arm == rounds.failed_arm)
    return Failure(rounds.failed_arm, patched, rounds.error.outcome, rounds.error.brief)


def paired_evidence(experiment: Experiment, rounds: Rounds, failure: Failure | None) -> Evidence:
    """What rounds say of an experiment."""
    metric = experiment.expectation.metric
    boots_by_arm = [rounds.boots[arm] for arm in experiment.arms]
    values = tuple(tuple(boot.values[metric] for boot in arm) for arm in boots_by_arm)
    boots = tuple(tuple(boot.id for boot in arm) for arm in boots_by_arm)
    return Evidence(values, rounds.rejected, failure, boots=boots)


def seed_evidence(experiment: Experiment, by_arm: Sequence[Sequence[Outcome]]) -> Evidence:
    """What the boots of an experiment without rounds say; a failure of a base arm comes first."""
    metric, boots, failures = experiment.expectation.metric, [], []
    for side, outcomes in zip(experiment.booted, by_arm, strict=True):
        for outcome in outcomes:
            if error := outcome.error:
                failures.append(Failure(side.arm, side.patched, error.outcome, error.brief))
        side_boots = [boot for outcome in outcomes for boot in outcome.boots]
        boots.append([boot for boot in side_boots if metric in boot.values])

    def values(name: str, less: str = "") -> tuple[tuple[float, ...], ...]:
        known = [
            tuple(b.values[name] - (b.values[less] if less else 0.0) for b in arm) for arm in boots
        ]
        if not experiment.subtract:
            return tuple(known)
        *compared, least = known
        # Seed by seed; where one is missing, a guest failed, and that is told.
        return tuple(tuple(map(sub, arm, least)) for arm in compared)

    exact = metric in (cost.KERNEL, cost.BLOCK_LAYER) and experiment.expectation.bound.is_change
    doubt = cost.other_work([[b.values for b in arm] for arm in boots]) if exact else ""
    # A base kernel that fails is the lab's error, and says more than a patched one that does too.
    failure = min(failures, key=lambda failure: failure.patched, default=None)
    return Evidence(
        values(metric),
        failure=failure,
        boots=tuple(tuple(boot.id for boot in arm) for arm in boots[: len(experiment.sides)]),
        variants={
            scaled: values(sim_counts.variant(metric, scaled))
            for scaled in experiment.sides[0].cell.variants
        },
        doubt=doubt,
        rest=values(cost.KERNEL, cost.BLOCK_LAYER) if metric == cost.BLOCK_LAYER else (),
    )
