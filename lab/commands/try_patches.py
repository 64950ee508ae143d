# SPDX-License-Identifier: GPL-2.0-or-later
"""Somebody's patches without a claim: what changes, where, by how much, and which patch breaks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lab.base.errors import BuildError, LabError
from lab.build.config_diff import changed_options
from lab.build.kernel import Kernel
from lab.commands import cost_diff
from lab.commands.cost_diff import CellChange
from lab.inputs.terms import Verdict
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
    found: tuple[CellChange, ...]
    broken: str = ""
    warned: str = ""
    configuration: tuple[str, ...] = ()


@dataclass(frozen=True)
class Subject:
    """Patches on a tree, with the kernel options to build it with."""

    spec: str
    patches: tuple[Path, ...]
    fragments: tuple[str, ...]


def run(
    subject: Subject, wanted: Sequence[PlannedCell], session: Session, *, each: bool = False
) -> list[SeriesStep]:
    """Measure the tree without and with the patches; with each, after every patch.

    Raises BuildError naming the patch that does not apply or build, LabError when the kernel
    without patches fails.
    """
    base = session.prove(subject.spec, subject.fragments).proof
    levels = range(len(subject.patches) + 1) if each else (0, len(subject.patches))
    kernels = {level: _kernel(subject, level, session) if level else base for level in levels}
    steps = []
    for before, after in itertools.pairwise(levels):
        own = subject.patches[before:after]
        title = own[0].name if each else f"{len(own)} patch(es)"
        session.progress.say(f"{title}:")
        pair = (kernels[before], kernels[after])
        found = cost_diff.measure(session, pair, wanted, cost_diff.CHANGED)
        cost_diff.require_sound_base(found)
        _, failed = cost_diff.failures(found)
        broken = _broken(subject, (before, after), failed[0], session) if failed else ""
        old, new = (session.store.ends({kernels[level].id}) for level in (before, after))
        known = None if broken else blame(new, old, session.profile.alpha)
        if known and known.verdict is Verdict.REFUTED:
            broken = known.reason
        warned = known.reason if known else ""
        steps.append(SeriesStep(title, tuple(found), broken, warned, changed_options(*pair)))
        if broken:
            break
    return steps


def _kernel(subject: Subject, level: int, session: Session) -> Kernel:
    """The kernel with the first patches; BuildError names the patch that does not build."""
    try:
        return _built(subject, level, session)
    except BuildError as exc:
        if exc.where in {str(patch) for patch in subject.patches}:
            raise  # it does not apply, and says which one that is
        last = exc
    for number in range(1, level):
        session.progress.say(f"which patch does not build? {subject.patches[number - 1].name}")
        try:
            _built(subject, number, session)
        except BuildError as exc:
            level, last = number, exc
            break
    patch = subject.patches[level - 1]
    raise BuildError(
        f"{patch.name} (patch {level} of {len(subject.patches)}) does not build: {last.what}",
        where=last.where,
        hint=last.hint,
    ) from last


def _built(subject: Subject, level: int, session: Session) -> Kernel:
    return session.kernel(subject.spec, subject.patches[:level], subject.fragments)


def _broken(subject: Subject, levels: tuple[int, int], failed: Outcome, session: Session) -> str:
    """Which patch between two levels makes a cell fail, and what the guest said."""
    before, after = levels
    found = failed
    for number in range(before + 1, after):
        session.progress.say(f"which patch breaks it? {subject.patches[number - 1].name}")
        try:
            kernel = _built(subject, number, session)
        except LabError:
            continue  # it does not build by itself; a later one may
        (outcome,) = session.outcomes([replace(failed.task, kernel=kernel)])
        if outcome.error:
            after, found = number, outcome
            break
    error = found.error
    assert error is not None
    patch = subject.patches[after - 1]
    return (
        f"{patch.name} (patch {after} of {len(subject.patches)}) breaks the kernel: "
        f"{error.outcome}: {error.what}\n  where: {error.where}"
    )
