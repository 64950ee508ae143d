# SPDX-License-Identifier: GPL-2.0-or-later
"""Somebody's patches without a claim: what changes, where, by how much, and which patch breaks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lab.base.errors import BuildError, LabError
from lab.base.progress import Progress
from lab.build.kernel import Kernel
from lab.commands import cost_diff
from lab.commands.cost_diff import CellChange
from lab.inputs.profile import Profile
from lab.measure import session
from lab.measure.boot_store import BootStore
from lab.measure.cell import Cell
from lab.measure.runner import Outcome, Runner, Task, Testbed


@dataclass(frozen=True)
class SeriesStep:
    """What a step of a series changes; broken names the patch whose kernel fails, and how."""

    title: str
    patches: tuple[Path, ...]
    found: tuple[CellChange, ...]
    broken: str = ""


@dataclass(frozen=True)
class Subject:
    """Patches on a tree, with the kernel options to build it with."""

    spec: str
    patches: tuple[Path, ...]
    fragments: tuple[str, ...]


def run(
    subject: Subject,
    wanted: Sequence[Cell],
    profile: Profile,
    store: BootStore,
    progress: Progress,
    *,
    each: bool = False,
) -> tuple[Testbed, list[SeriesStep]]:
    """Measure the tree without and with the patches; with each, after every patch.

    Raises BuildError naming the patch that does not apply or build, LabError when the kernel
    without patches fails.
    """
    testbed = session.prepare(subject.spec, (), subject.fragments, progress)
    levels = range(len(subject.patches) + 1) if each else (0, len(subject.patches))
    kernels = {level: _kernel(subject, level, testbed, progress) for level in levels}
    steps = []
    for before, after in itertools.pairwise(levels):
        own = subject.patches[before:after]
        title = own[0].name if each else f"{len(own)} patch(es)"
        progress.say(f"{title}:")
        pair = (kernels[before], kernels[after])
        found = cost_diff.measure(testbed, pair, wanted, store, progress)
        cost_diff.require_sound_base(found)
        _, failed = cost_diff.failures(found)
        broken = ""
        if failed:
            broken = _broken(subject, (before, after), failed[0], testbed, store, progress)
        steps.append(SeriesStep(title, own, tuple(found), broken))
        if broken:
            break
    return testbed, steps


def _kernel(subject: Subject, level: int, testbed: Testbed, progress: Progress) -> Kernel:
    """The kernel with the first patches; BuildError names the patch that does not build."""
    if level == 0:
        return testbed.kernel
    try:
        return _built(subject, level, progress)
    except BuildError as exc:
        if exc.where in {str(patch) for patch in subject.patches}:
            raise  # it does not apply, and says which one that is
        last = exc
    for number in range(1, level):
        progress.say(f"which patch does not build? {subject.patches[number - 1].name}")
        try:
            _built(subject, number, progress)
        except BuildError as exc:
            level, last = number, exc
            break
    patch = subject.patches[level - 1]
    raise BuildError(
        f"{patch.name} (patch {level} of {len(subject.patches)}) does not build: {last.what}",
        where=last.where,
        hint=last.hint,
    ) from last


def _built(subject: Subject, level: int, progress: Progress) -> Kernel:
    patches = subject.patches[:level]
    return session.prepare_kernel(subject.spec, patches, subject.fragments, progress)


def _broken(
    subject: Subject,
    levels: tuple[int, int],
    failed: Outcome,
    testbed: Testbed,
    store: BootStore,
    progress: Progress,
) -> str:
    """Which patch between two levels makes a cell fail, and what the guest said."""
    before, after = levels
    found = failed
    for number in range(before + 1, after):
        progress.say(f"which patch breaks it? {subject.patches[number - 1].name}")
        try:
            kernel = _built(subject, number, progress)
        except LabError:
            continue  # it does not build by itself; a later one may
        task = Task(replace(failed.cell, arm="after"), kernel)
        with session.measuring(testbed, store, progress, sealed=True, timed=False):
            (outcome,) = Runner(testbed, store, progress).all([task], 1, sealed=True)
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
