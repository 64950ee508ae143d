# SPDX-License-Identifier: GPL-2.0-or-later
"""Somebody's patches without a claim: what changes, where, by how much, and which patch breaks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lab.base.errors import BuildError, LabError
from lab.build import definitions
from lab.build.config_diff import changed_options
from lab.build.kernel import Kernel
from lab.commands import cost_diff, try_answers
from lab.commands.cost_diff import CellChange
from lab.commands.try_answers import Answer
from lab.commands.try_trial import Trial
from lab.inputs.terms import Engine, Verdict
from lab.judge.blame import blame
from lab.measure.cell import PlannedCell
from lab.measure.runner import Outcome
from lab.measure.session import Session


@dataclass(frozen=True)
class SeriesStep:
    """What a step of a series changes; broken names the patch whose kernel fails, and how, warned
    is what its kernel complained of, or how it failed now and then, without being refuted by it;
    configuration are the options in which the kernels differ.
    """

    title: str
    changes: tuple[CellChange, ...]
    broken: str = ""
    warned: str = ""
    configuration: tuple[str, ...] = ()


@dataclass(frozen=True)
class Subject:
    """Patches on a tree."""

    spec: str
    patches: tuple[Path, ...]

    def title(self, before: int, after: int) -> str:
        """The patches of a step, by the numbers that are applied before and after it."""
        patches = self.patches[before:after]
        return patches[0].name if len(patches) == 1 else f"{len(patches)} patches"


@dataclass(frozen=True)
class Tried:
    """A step of a series by all engines: its title, what was found, the options in which the
    kernels differ, and what of it breaks the kernel or loses data, with the patch that does.
    """

    title: str
    trial: Trial
    configuration: tuple[str, ...] = ()
    broken: str = ""

    @property
    def answers(self) -> list[Answer]:
        """What was found, the worst first."""
        return try_answers.ordered(self.trial.answers)


# Measures what differs between two kernels; True: all patches are applied.
_Measure = Callable[[Trial, bool], None]


def examine(
    subject: Subject,
    planned: Sequence[PlannedCell],
    session: Session,
    *,
    each: bool = False,
    debug: bool = True,
) -> list[Tried]:
    """Ask all engines of the tree without and with the patches what the changed code makes worth
    asking; with each, after every patch. planned are the exact cells to choose from.

    Raises as run does.
    """

    def measure(trial: Trial, is_last: bool) -> None:
        trial.measure(planned)
        if debug and is_last and not trial.failed:
            trial.debug(subject.spec, subject.patches)

    return _tried(subject, session, measure, each=each)


def examine_cells(
    subject: Subject, planned: Sequence[PlannedCell], session: Session, *, each: bool = False
) -> list[Tried]:
    """Measure chosen cells on the tree without and with the patches; some are simulated or check
    data. Raises as run does.
    """

    def measure(trial: Trial, is_last: bool) -> None:
        trial.measure_cells(planned)

    return _tried(subject, session, measure, each=each, engines={p.cell.engine for p in planned})


def _tried(
    subject: Subject,
    session: Session,
    measure: _Measure,
    *,
    each: bool,
    engines: Collection[Engine] = (),
) -> list[Tried]:
    """The steps of a series, until one breaks."""
    tried: list[Tried] = []
    for (before, after), pair in _steps(subject, session, each=each, engines=engines):
        trial = Trial(session, pair)
        if trial.compare(definitions.files(subject.patches[before:after])):
            measure(trial, after == len(subject.patches))
            trial.conclude()
        broken = next((str(answer) for answer in trial.answers if answer.breaks), "")
        if trial.failed:
            broken = _broken(subject, (before, after), trial.failed, session)
        tried.append(Tried(subject.title(before, after), trial, changed_options(*pair), broken))
        if trial.failed:
            break
    return tried


def _steps(
    subject: Subject, session: Session, *, each: bool, engines: Collection[Engine] = ()
) -> Iterator[tuple[tuple[int, int], tuple[Kernel, Kernel]]]:
    """The steps of a series: how many patches are applied before and after each, and both kernels,
    all of which are built before the first step.
    """
    base = session.check_engines(subject.spec).probe_kernel
    for engine in engines:
        session.testbed.host.require(engine)
    count = len(subject.patches)
    levels = range(count + 1) if each else (0, count)
    kernels = {level: _kernel(subject, level, session) if level else base for level in levels}
    for before, after in itertools.pairwise(levels):
        session.progress.say(f"{subject.title(before, after)}:")
        yield (before, after), (kernels[before], kernels[after])


def run(
    subject: Subject, wanted: Sequence[PlannedCell], session: Session, *, each: bool = False
) -> list[SeriesStep]:
    """Measure the tree without and with the patches; with each, after every patch.

    Raises BuildError naming the patch that does not apply or build, LabError when the kernel
    without patches fails.
    """
    steps = []
    for levels, pair in _steps(subject, session, each=each):
        changes = cost_diff.measure(session, pair, wanted, cost_diff.CHANGED)
        cost_diff.require_sound_base(changes)
        _, failed = cost_diff.failures(changes)
        broken = _broken(subject, levels, failed[0], session) if failed else ""
        old, new = (session.store.ends({kernel.id}) for kernel in pair)
        known = None if broken else blame(new, old, session.profile.alpha)
        if known and known.verdict is Verdict.REFUTED:
            broken = known.reason
        warned = known.reason if known else ""
        options = changed_options(*pair)
        title = subject.title(*levels)
        steps.append(SeriesStep(title, tuple(changes), broken, warned, options))
        if broken:
            break
    return steps


def _kernel(subject: Subject, level: int, session: Session) -> Kernel:
    """The kernel with the first patches; BuildError names the patch that does not build."""
    try:
        return session.kernel(subject.spec, subject.patches[:level])
    except BuildError as exc:
        if exc.where in {str(patch) for patch in subject.patches}:
            raise  # it does not apply, and says which one that is
        last = exc
    for number in range(1, level):
        session.progress.say(f"which patch does not build? {subject.patches[number - 1].name}")
        try:
            session.kernel(subject.spec, subject.patches[:number])
        except BuildError as exc:
            level, last = number, exc
            break
    patch = subject.patches[level - 1]
    raise BuildError(
        f"{patch.name} (patch {level} of {len(subject.patches)}) does not build: {last.what}",
        where=last.where,
        hint=last.hint,
    ) from last


def _broken(subject: Subject, levels: tuple[int, int], failed: Outcome, session: Session) -> str:
    """Which patch between two levels makes a cell fail, and what the guest said."""
    before, after = levels
    failure = failed
    for number in range(before + 1, after):
        session.progress.say(f"which patch breaks it? {subject.patches[number - 1].name}")
        try:
            fragments = failed.task.kernel.fragments
            kernel = session.kernel(subject.spec, subject.patches[:number], fragments)
        except LabError:
            continue  # it does not build by itself; a later one may
        (outcome,) = session.outcomes([replace(failed.task, kernel=kernel)])
        if outcome.error:
            after, failure = number, outcome
            break
    error = failure.error
    assert error is not None
    patch = subject.patches[after - 1]
    return (
        f"{patch.name} (patch {after} of {len(subject.patches)}) breaks the kernel: "
        f"{error.outcome}: {error.what}\n  where: {error.where}"
    )
