# SPDX-License-Identifier: GPL-2.0-or-later
"""From patch series to verdicts: kernels, experiments, boots, findings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from lab.base.errors import LabError
from lab.base.progress import Progress
from lab.build.kernel import Kernel
from lab.inputs import series
from lab.inputs.profile import Profile
from lab.inputs.series import Series
from lab.judge import experiment, verdict
from lab.judge.experiment import Experiment
from lab.judge.verdict import Evidence, Failure, Judged
from lab.measure import session
from lab.measure.boot_store import BootStore
from lab.measure.cell import Cell
from lab.measure.host import Report
from lab.measure.runner import Outcome, Rounds, Runner, Task, Testbed

INSTRUMENT = "instrument"
# Controls: what holds of a series must not hold of these.
CONTROLS = {"reversed": series.turned_round, "no-op": series.emptied}


@dataclass(frozen=True)
class Judgement:
    """What was found of several series, and the machine; None when nothing could be measured."""

    series: tuple[Judged, ...]
    host: Report | None


@dataclass(frozen=True)
class Case:
    """A series with all that is needed to measure it: its experiments and a task for each cell."""

    name: str
    series: Series
    testbed: Testbed
    experiments: tuple[Experiment, ...]
    tasks: dict[Cell, Task]

    def same(self, asked: Experiment) -> bool:
        """Whether an experiment compares an arm with itself, under another name."""
        sides = {replace(self.tasks[cell], cell=replace(cell, arm="")) for cell in asked.cells}
        return bool(asked.expectation.change) and len(sides) == 1

    def seeds(self, asked: Experiment, cell: Cell, profile: Profile) -> list[Task]:
        """A cell's task as often as it is run: with the exact engine once for each seed.

        Draws are for what is measured; what is counted asks whether the patch does what it says.
        """
        task = self.tasks[cell]
        if not cell.engine.sealed or cell.counters:
            return [task]
        count = max(profile.seeds, self.series.claims[asked.claim].seeds)
        return [replace(task, cell=replace(cell, seed=number)) for number in range(count)]

    def running(self, *, timed: bool) -> list[Experiment]:
        """The experiments that need boots: with rounds, or without."""
        return [
            asked
            for asked in self.experiments
            if asked.runs and not self.same(asked) and asked.timed == timed
        ]


def judge(
    names: Sequence[str],
    profile: Profile,
    store: BootStore,
    progress: Progress,
    *,
    claims: Collection[tuple[str, str]] = (),
    control: str = "",
    spec: str = "",
) -> Judgement:
    """Judge series by name and return what was found of each, in that order.

    claims are the pairs of series and claim that are wanted; none means all. spec is a source to
    judge them on in the place of their own.

    What the store already has is not measured again. A series that cannot be prepared (its patches
    do not apply, a kernel does not build) is reported as such; the others are judged.
    """
    cases: list[Case] = []
    judged: dict[str, Judged] = {}
    for name in names:
        progress.say(f"{name}:")
        own = series.get(name)
        own = own.model_copy(update={"tree": spec}) if spec else own
        own = CONTROLS[control](own) if control else own
        try:
            cases.append(prepare(name, own, profile, progress, claims))
        except LabError as exc:
            progress.say(f"lab: {exc}")
            judged[name] = Judged(name, own, (), str(exc))
    if cases:
        evidence = measure(cases, profile, store, progress)
        asked = [(asked, evidence[asked]) for case in cases for asked in case.experiments]
        arms = [case.series.all_arms for case in cases for _ in case.experiments]
        found = verdict.judge(asked, arms, profile.alpha)
        for case in cases:
            own_findings = tuple(f for f in found if f.experiment.series == case.name)
            judged[case.name] = Judged(case.name, case.series, own_findings)
    host = cases[0].testbed.host if cases else None
    return Judgement(tuple(judged[name] for name in names), host)


def prepare(
    name: str,
    own: Series,
    profile: Profile,
    progress: Progress,
    claims: Collection[tuple[str, str]] = (),
) -> Case:
    """The experiments of a series, and all kernels that they need, built.

    Raises UsageError for a series that is not well formed, BuildError for patches that do not
    apply or build.
    """
    experiment.check(name, own)
    testbed = session.prepare(own.tree, (), own.kernel, progress)
    asked = experiment.experiments(name, own, profile, testbed.host)
    asked = [found for found in asked if not claims or (name, found.claim) in claims]
    kernels: dict[tuple[str, bool], Kernel] = {}
    tasks = {}
    for cell in (cell for found in asked if found.runs for cell in found.cells):
        level, counted = own.all_arms[cell.arm].patches, bool(cell.counters)
        if (level, counted) not in kernels:
            fragments = (*own.kernel, INSTRUMENT) if counted else own.kernel
            patches = series.patches(name, level)
            kernels[level, counted] = session.prepare_kernel(own.tree, patches, fragments, progress)
        tasks[cell] = Task(cell, kernels[level, counted])
    return Case(name, own, testbed, tuple(asked), tasks)


def measure(
    cases: Sequence[Case], profile: Profile, store: BootStore, progress: Progress
) -> dict[Experiment, Evidence]:
    """Measure what the experiments of several series need: exact cells first, then rounds."""
    testbed = cases[0].testbed
    single = {case.name: case.running(timed=False) for case in cases}
    tasks = [
        task
        for case in cases
        for asked in single[case.name]
        for cell in asked.cells
        for task in case.seeds(asked, cell, profile)
    ]
    sealed = list(dict.fromkeys(task for task in tasks if task.cell.engine.sealed))
    counted = list(dict.fromkeys(task for task in tasks if not task.cell.engine.sealed))
    timed = any(case.running(timed=True) for case in cases)
    with session.measuring(
        testbed, store, progress, sealed=bool(sealed), timed=timed or bool(counted)
    ):
        runner = Runner(testbed, store, progress)
        outcomes = dict(zip(sealed, runner.all(sealed, 1, sealed=True), strict=True))
        again = runner.all(counted, profile.counted_boots, sealed=False)
        outcomes |= dict(zip(counted, again, strict=True))
        found: dict[Experiment, Evidence] = {}
        for case in cases:
            for asked in case.experiments:
                found[asked] = Evidence(same=asked.runs and case.same(asked))
            for asked in single[case.name]:
                by_arm = [
                    [outcomes[task] for task in case.seeds(asked, cell, profile)]
                    for cell in asked.cells
                ]
                found[asked] = _evidence(asked, by_arm)
            found |= _rounds(case, profile, runner)
    return found


def _rounds(case: Case, profile: Profile, runner: Runner) -> dict[Experiment, Evidence]:
    """Run the rounds of a case's wall-clock experiments."""
    timed = case.running(timed=True)
    found: dict[Experiment, Evidence] = {}
    for cells in experiment.rounds_of(timed):
        own = set(map(_machine, cells))
        answered = [asked for asked in timed if set(map(_machine, asked.cells)) <= own]
        wanted = max(_wanted(asked, case.series, profile) for asked in answered)
        rounds = runner.rounds([case.tasks[cell] for cell in cells], wanted)
        found |= {asked: _paired_evidence(asked, rounds) for asked in answered}
    return found


def _wanted(asked: Experiment, own: Series, profile: Profile) -> int:
    """How many rounds an experiment gets: one where this host cannot give the answer anyway."""
    if asked.lacking:
        return 1
    return max(profile.rounds, own.claims[asked.claim].rounds)


def _machine(cell: Cell) -> Cell:
    """A cell without what only names it."""
    return replace(cell, swept=())


def _paired_evidence(asked: Experiment, rounds: Rounds) -> Evidence:
    metric = asked.expectation.metric
    arms = [cell.arm for cell in asked.cells]
    failure = None
    if rounds.error:
        error = rounds.error
        failure = Failure(rounds.failed_arm, error.outcome, error.brief)
    values = tuple(tuple(boot.values[metric] for boot in rounds.boots[arm]) for arm in arms)
    boots = tuple(tuple(boot.id for boot in rounds.boots[arm]) for arm in arms)
    return Evidence(values, rounds.rejected, failure, boots=boots)


def _evidence(asked: Experiment, by_arm: Sequence[Sequence[Outcome]]) -> Evidence:
    """What the boots of an experiment without rounds say; a failure of a base arm comes first."""
    values, boots, failures = [], [], []
    for outcomes in by_arm:
        for outcome in outcomes:
            if outcome.error:
                error, arm = outcome.error, outcome.cell.arm
                failures.append(Failure(arm, error.outcome, error.brief))
        boots_of_arm = [boot for outcome in outcomes for boot in outcome.boots]
        known = [boot for boot in boots_of_arm if asked.expectation.metric in boot.values]
        values.append(tuple(boot.values[asked.expectation.metric] for boot in known))
        boots.append(tuple(boot.id for boot in known))
    failure = failures[0] if failures else None
    return Evidence(tuple(values), failure=failure, boots=tuple(boots))
