# SPDX-License-Identifier: GPL-2.0-or-later
"""Every patch of a series by itself: kernel style, and whether each step builds and boots."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
    kernel is the debug kernel, None where one was not built.
    """

    patch: Path
    style: str
    booted: str
    error: str = ""
    kernel: Kernel | None = None
    outcomes: tuple[Outcome, ...] = ()


def check(series: Series, session: Session) -> list[Commit]:
    """Check every patch of a series: checkpatch --strict, a build, and boots with I/O of the debug
    kernel.

    All are built before the first is booted, so that boots have all CPUs of the host. A patch with
    complaints does not keep the others from being checked.
    """
    well_formed.check(series)
    session.check_engines(series.tree, series.kernel)
    with _checkpatch(series.tree, session.progress) as script:
        commits = [
            _built(series, patches, patch, script, session) for patches, patch in _steps(series)
        ]
    cells = _cells(series, session.profile)
    kernels = [commit.kernel for commit in commits if commit.kernel]
    tasks = [Task(cell=cell, kernel=kernel) for kernel in kernels for cell in cells]
    outcomes = session.outcomes(tasks) if tasks else []
    return [_booted(commit, outcomes, session) for commit in commits]


def _built(
    series: Series, patches: tuple[Path, ...], patch: Path, script: Path, session: Session
) -> Commit:
    """A patch whose kernels are built, not booted; error tells a style that is wrong, too."""
    session.progress.say(f"{series.name}: {patch.parent.name}/{patch.name}")
    style, clean = _style(script, patch)
    try:
        session.kernel(series.tree, patches, series.kernel)
        kernel = session.kernel(series.tree, patches, (*series.kernel, "debug"))
    except LabError as exc:
        return Commit(patch, style, "not built", exc.brief)
    return Commit(patch, style, "", "" if clean else "checkpatch complains", kernel)


def _booted(commit: Commit, outcomes: Sequence[Outcome], session: Session) -> Commit:
    if not commit.kernel:
        return commit
    of_commit = tuple(o for o in outcomes if o.task.kernel.id == commit.kernel.id)
    errors = [outcome.error.what for outcome in of_commit if outcome.error]
    booted = f"{len(of_commit) - len(errors)} of {len(of_commit)} boots"
    errors += session.store.complaints(commit.kernel.id)
    error = "; ".join(errors) or commit.error
    return replace(commit, booted=booted, error=error, outcomes=of_commit)


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
