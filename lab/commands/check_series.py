# SPDX-License-Identifier: GPL-2.0-or-later
"""Every patch of a series by itself: kernel style, and whether each step builds and boots."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.base import archive, cache, sandbox
from lab.base.errors import LabError
from lab.base.process import run
from lab.base.progress import Progress
from lab.base.sandbox import View
from lab.build import source
from lab.build.kernel import Kernel
from lab.build.source import git
from lab.inputs import workload
from lab.inputs.claims import Claim
from lab.inputs.profile import Profile
from lab.inputs.series import SERIES, Series
from lab.inputs.terms import Engine
from lab.judge import well_formed
from lab.measure.cell import Cell, Task, resolved
from lab.measure.runner import Outcome
from lab.measure.session import Session

_SCRIPTS = ("checkpatch.pl", "spelling.txt", "const_structs.checkpatch")
_PATIENCE_S = 600.0  # chosen: a patch takes seconds
_TOTAL = re.compile(r"^total: (\d+) errors, (\d+) warnings(?:, (\d+) checks)?", re.MULTILINE)


@dataclass(frozen=True)
class Commit:
    """What was found of a patch, with all before it applied.

    style is checkpatch's total, booted what its kernels said; error is empty when all is well.
    """

    patch: Path
    style: str
    booted: str
    error: str = ""
    outcomes: tuple[Outcome, ...] = ()


@dataclass(frozen=True)
class _Step:
    """A patch, its style, and the debug kernel with it and all before it; error is why there
    is none, or what is wrong with its style.
    """

    patch: Path
    style: str
    kernel: Kernel | None
    error: str


def check(series: Series, session: Session) -> list[Commit]:
    """Check every patch of a series: checkpatch --strict, a build, and boots with I/O of the debug
    kernel.

    All are built before the first is booted, so that boots have all CPUs of the host. A patch with
    complaints does not keep the others from being checked.
    """
    well_formed.check(series)
    session.check_engines(series.tree, series.kernel)
    with _checkpatch(series.tree, session.progress) as script:
        steps = [
            _built(series, patches, patch, script, session) for patches, patch in _steps(series)
        ]
    cells = _cells(series, session.profile)
    tasks = [Task(cell=cell, kernel=step.kernel) for step in steps if step.kernel for cell in cells]
    outcomes = session.outcomes(tasks) if tasks else []
    return [_booted(step, outcomes, session) for step in steps]


def _built(
    series: Series, patches: tuple[Path, ...], patch: Path, script: Path, session: Session
) -> _Step:
    session.progress.say(f"{series.name}: {patch.parent.name}/{patch.name}")
    style, clean = _style(script, patch)
    try:
        session.kernel(series.tree, patches, series.kernel)
        kernel = session.kernel(series.tree, patches, (*series.kernel, "debug"))
    except LabError as exc:
        return _Step(patch, style, None, exc.what)
    return _Step(patch, style, kernel, "" if clean else "checkpatch complains")


def _booted(step: _Step, outcomes: Sequence[Outcome], session: Session) -> Commit:
    if not step.kernel:
        return Commit(step.patch, step.style, "not built", step.error)
    step_outcomes = tuple(
        outcome for outcome in outcomes if outcome.task.kernel.id == step.kernel.id
    )
    errors = [outcome.error.what for outcome in step_outcomes if outcome.error]
    booted = f"{len(step_outcomes) - len(errors)} of {len(step_outcomes)} boots"
    errors += session.store.complaints(step.kernel.id)
    return Commit(step.patch, step.style, booted, "; ".join(errors) or step.error, step_outcomes)


def _steps(series: Series) -> Iterator[tuple[tuple[Path, ...], Path]]:
    """Every patch once, the last of those that are applied with it."""
    seen = set()
    for level in (SERIES, *series.levels):
        patches = series.patches(level)
        for number, patch in enumerate(patches, start=1):
            if patch not in seen:
                seen.add(patch)
                yield patches[:number], patch


def _cells(series: Series, profile: Profile) -> list[Cell]:
    """What the claims have checked, else a short run on every topology and scheduler they name."""
    claims = series.all_claims.values()
    debug_claims = [claim for claim in claims if workload.get(claim.workload).kernel]
    places = {(claim.topology, claim.scheduler): claim for claim in debug_claims or claims}
    return [_cell(claim, profile) for claim in places.values()]


def _cell(claim: Claim, profile: Profile) -> Cell:
    """A claim's workload with the profile's parameters, of a swept one the first value.

    A debug check is one of a deterministic guest: a slow host is no reason that it fails.
    """
    work = workload.get(claim.workload)
    merged = {**work.parameters, **profile.parameters.get(claim.workload, {}), **claim.parameters}
    return resolved(
        topology_name=claim.topology,
        scheduler=claim.scheduler,
        workload=claim.workload,
        parameters={n: v[0] if isinstance(v, tuple) else v for n, v in merged.items()},
        engine=Engine.EXACT if work.kernel else Engine.TCG,
    )


@contextmanager
def _checkpatch(spec: str, progress: Progress) -> Iterator[Path]:
    """The tree's own checkpatch.pl, in a folder for the block."""
    tree = source.resolve(spec, progress).tree
    with cache.scratch() as folder:
        scripts = folder / "scripts.tar"
        git("archive", f"--output={scripts}", tree, *(f"scripts/{name}" for name in _SCRIPTS))
        with scripts.open("rb") as packed:
            archive.unpack(packed, folder)
        yield folder / "scripts/checkpatch.pl"


def _style(script: Path, patch: Path) -> tuple[str, bool]:
    """Checkpatch's total for a patch, and whether there is nothing to complain about."""
    # The source has no history in which a commit that is named could be looked up.
    options = ["--strict", "--no-tree", "--no-color", "--ignore=UNKNOWN_COMMIT_ID"]
    checkpatch = ["perl", str(script), *options, str(patch)]
    # The script is the tree's own, and so somebody else's.
    view = View(read=(script.parent, patch), env={"LC_ALL": "C", "HOME": "/nowhere"})
    done = run(sandbox.confined(checkpatch, view), check=False, merge=True, timeout_s=_PATIENCE_S)
    total = _TOTAL.search(done.output)
    if not total:
        return "checkpatch said nothing", False
    return total[0].removeprefix("total: "), not any(int(n or 0) for n in total.groups())
