# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands for somebody's own patches and branches: try, bisect."""

from __future__ import annotations

import math
import shutil
import time
from functools import cached_property
from pathlib import Path

import click

from lab import (
    bisect,
    cache,
    cli_report,
    difference,
    gate,
    mbox,
    options,
    pipeline,
    profile,
    record,
    recorder,
    trial,
)
from lab.cli_series import judged
from lab.errors import BuildError, LabError
from lab.kernel import Kernel
from lab.plan import Cell, Selection
from lab.progress import Progress, duration
from lab.qemu import Engine
from lab.runner import Bench
from lab.store import Store
from lab.trial import Subject

_REFUTED = 1
_SKIP = 125  # what `git bisect run` takes for "cannot be judged"


@click.command("try")
@click.argument("source")
@options.tree
@options.fragments
@options.profile
@options.selection
@click.option(
    "--claims",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A series.toml whose claims are to be judged; without it: what changes?",
)
@click.option("--each", is_flag=True, help="Measure after every patch, not only after the last.")
def try_(
    source: str,
    spec: str | None,
    fragments: tuple[str, ...],
    profile_name: str,
    selection: Selection,
    claims: Path | None,
    each: bool,
) -> int:
    """Judge somebody's patches.

    SOURCE is a mailbox (as b4 writes it, cover letter and replies included), a folder of patches,
    one patch, git:PATH@A..B, or - for a mailbox on standard input.

    Without --claims every cell of the profile that the exact engine can measure is measured
    without and with the patches, and what changed is shown by size and by function. Exit codes: 0
    done, 1 the patched kernel breaks or a claim is refuted, 2 no patch found, 3 a patch does not
    apply or build, 4 a claim is inconclusive.

    Examples: b4 am -o - MESSAGE-ID | lab try -; lab try git:~/linux@master..mine --each
    """
    progress, started, chosen = Progress(), time.time(), profile.get(profile_name)
    patches = mbox.collect(source)
    for number, patch in enumerate(patches, start=1):
        progress.say(f"{number:>3}  {patch.name}")
    if claims:
        folder = _series(patches, claims)
        return judged((str(folder),), chosen, progress, spec=spec or "")
    subject = Subject(spec or chosen.tree, patches, fragments or chosen.kernel)
    wanted, store = difference.cells(chosen, selection), Store()
    bench, trials = trial.run(subject, wanted, chosen, store, progress, each=each)
    summary = "\n".join(f"{one.title}\n\n{difference.text(one.found)}" for one in trials)
    summary += "".join(f"\nREFUTED: {one.broken}\n" for one in trials if one.broken)
    outcomes = [side for one in trials for c in one.found for side in (c.before, c.after)]
    title = f"What {source} changes"
    made = recorder.Recorder(store, chosen, bench.host, title).measured(outcomes, started)
    record.save(made, store.folder, summary)
    click.echo(f"\n{summary}\nTime of each phase\n{progress.summary()}")
    click.echo(f"Report: {cli_report.write_html(made, store)}")
    return _REFUTED if any(one.broken for one in trials) else 0


@click.command("bisect")
@click.argument("good")
@click.argument("bad")
@click.option(
    "--cell",
    required=True,
    metavar="TOPOLOGY/SCHEDULER/WORKLOAD",
    help="What became dearer, such as nullb_mq/none/randread_burst.",
)
@click.option(
    "--repo",
    default=Path(),
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The git tree; default: the current folder.",
)
@click.option(
    "--threshold",
    default=100 * gate.fraction(gate.USUAL_THRESHOLD),
    show_default=True,
    type=click.FloatRange(0),
    help="Per cent by which the ends must differ.",
)
@click.option(
    "--here",
    is_flag=True,
    help="Judge only the commit that is checked out: 0 good, 1 bad, 125 cannot be judged.",
)
@options.fragments
@options.profile
def bisect_command(
    good: str,
    bad: str,
    cell: str,
    repo: Path,
    threshold: float,
    here: bool,
    fragments: tuple[str, ...],
    profile_name: str,
) -> int:
    """Find the commit that made an I/O dearer, by the exact engine: one boot a step.

    GOOD and BAD are commits of a git tree; those between that do not build or boot are skipped.
    With --here it is a command for `git bisect run`.

    Examples: lab bisect v6.12 HEAD --cell nullb_mq/none/randread_burst;
    git bisect run lab bisect v6.12 mine --cell nullb_mq/none/randread_burst --here
    """
    progress, store, chosen = Progress(), Store(), profile.get(profile_name)
    own = gate.parse_cell(cell, chosen, Engine.ICOUNT)
    line = bisect.commits(repo, good, bad)
    steps = _Steps(repo, own, fragments or chosen.kernel, store, progress)
    started = time.monotonic()
    steps.compare(line[0], line[-1], threshold / 100)
    if here:
        low, high, value = (steps.value(commit) for commit in (line[0], line[-1], "HEAD"))
        if low is None or high is None or value is None:
            return _SKIP
        return int(bisect.is_bad(low, high, value))
    found = bisect.search(line, steps.value)
    click.echo(f"\n{_steps_text(found, line)}")
    click.echo(
        f"{len(found.steps)} commits looked at of {len(line)}, {steps.builds} kernels built, "
        f"{duration(time.monotonic() - started)}"
    )
    for suspect in found.suspects:
        click.echo(bisect.subject(repo, suspect))
    if len(found.suspects) == 1:
        pair = (steps.kernel(found.last_good), steps.kernel(found.suspects[0]))
        changed = difference.measure(steps.bench, pair, [own], store, progress)
        click.echo(f"\n{difference.text(changed)}")
    return 0


class _Steps:
    """Builds and measures the commits of a bisection.

    The value of a commit is what an I/O costs in those functions that tell the two ends apart: one
    boot is enough, for the functions in which draws differ are not among them.
    """

    def __init__(
        self,
        repository: Path,
        cell: Cell,
        fragments: tuple[str, ...],
        store: Store,
        progress: Progress,
    ) -> None:
        self._repository = repository.absolute()
        self._cell = cell
        self._fragments = fragments
        self._store = store
        self._progress = progress
        self._functions: frozenset[str] = frozenset()
        self.builds = 0

    @cached_property
    def bench(self) -> Bench:
        """Guest and engines, proved with the kernel that the profile names."""
        chosen = profile.get("quick")
        return pipeline.prepare(chosen.tree, (), chosen.kernel, self._progress)

    def kernel(self, commit: str) -> Kernel:
        """The kernel of a commit."""
        spec = f"git:{self._repository}@{commit}"
        return pipeline.prepare_kernel(spec, (), self._fragments, self._progress)

    def compare(self, good: str, bad: str, threshold: float) -> None:
        """Find the functions in which the bad end is dearer.

        Raises LabError when an end fails, or they differ by less than threshold, a fraction.
        """
        pair = (self.kernel(good), self.kernel(bad))
        ends = difference.measure(self.bench, pair, [self._cell], self._store, self._progress)
        _, failed = difference.failures(ends)
        difference.require_sound_base(ends)
        change = ends[0].change
        if failed or change is None or change <= threshold:
            shown = "it fails" if change is None else f"{100 * change:+.3f} %"
            raise LabError(
                f"nothing to find: the bad end against the good one: {shown}",
                hint=f"the bad end must be dearer by more than {100 * threshold:g} %",
            )
        self._functions = frozenset(one.function for one in ends[0].functions)

    def value(self, commit: str) -> float | None:
        """Instructions per I/O of a commit where the ends differ; None when it does not work."""
        self._progress.say(bisect.subject(self._repository, commit))
        try:
            kernel = self.kernel(commit)
            self.builds += 1
        except BuildError as exc:
            self._progress.say(f"    skipped: {exc.brief}")
            return None
        found = difference.measure(
            self.bench, (kernel, kernel), [self._cell], self._store, self._progress
        )
        boots = found[0].after.boots
        known = self._store.cost(boots[0].id) if boots else None
        if known is None:
            self._progress.say("    skipped: it fails")
            return None
        value = math.fsum(known.kernel.get(name, 0.0) for name in self._functions)
        self._progress.say(f"    {value:,.2f} insns/I/O in {len(self._functions)} functions")
        return value


def _steps_text(found: bisect.Found, line: list[str]) -> str:
    lines = []
    for number, step in enumerate(found.steps, start=1):
        shown = "skipped" if step.value is None else f"{step.value:,.2f} insns/I/O"
        if step.value is not None:
            shown += ", bad" if bisect.is_bad(found.good, found.bad, step.value) else ", good"
        lines.append(
            f"{number:>3}  commit {line.index(step.commit):>4}  {step.commit[:12]}  {shown}"
        )
    return "\n".join(lines) + "\n"


def _series(patches: tuple[Path, ...], claims: Path) -> Path:
    """A folder as those of kernel-patches, with these patches and claims."""
    texts = [patch.read_text(errors="replace") for patch in patches]
    key = cache.key("claims", claims.read_text(), texts)
    folder = cache.root() / "series" / key / claims.absolute().parent.name
    if not folder.exists():
        with cache.building(folder) as aside:
            (aside / "series").mkdir()
            for number, patch in enumerate(patches, start=1):
                shutil.copy(patch, aside / "series" / f"{number:04}-{patch.name}")
            shutil.copy(claims, aside / "series.toml")
    return folder
