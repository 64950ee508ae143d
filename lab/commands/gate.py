# SPDX-License-Identifier: GPL-2.0-or-later
"""The nightly gate: branches against their baselines, red for a regression, else green.

Exact cells decide by themselves. A cell of host time is red only when rounds that were booted
after the first suspicion say the same.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import Field

from lab.base.errors import BuildError, LabError, UsageError, nearest
from lab.base.process import CommandError, run
from lab.base.progress import Progress
from lab.base.stats import Interval
from lab.base.toml import Model, load
from lab.build import source
from lab.build.kernel import Kernel
from lab.commands import cost_diff
from lab.commands.cost_diff import METRIC, CellChange
from lab.commands.gate_history import GateHistory
from lab.inputs import series, workload
from lab.inputs.profile import Profile
from lab.inputs.terms import Engine, Level, Verdict
from lab.measure import matrix, session
from lab.measure.boot_store import BootStore
from lab.measure.cell import Cell
from lab.measure.matrix import Selection
from lab.measure.runner import Runner, Task, Testbed
from lab.report import arm_table, run_record
from lab.report.run_builder import RunBuilder

# Half of the regression that must not pass, and more than what chance leaves of equal code when
# only functions count that seeds tell apart (docs/gate.md).
USUAL_THRESHOLD = "0.25%"
# Of host time: less would need more rounds than a night has.
USUAL_TIME = "5%"
_LAST_GOOD = "last good"
_MERGE_BASE = "merge-base:"
# Of a cell's own history: this many standard deviations are noise.
_SIGMAS = 4.0
_HISTORY = 5


class Branch(Model):
    """A branch that is gated."""

    source: str = Field(description="git:PATH@BRANCH")
    baseline: str = Field(
        default=_LAST_GOOD,
        description="'last good', 'merge-base:REVISION', or a source such as git:PATH@v6.12",
    )


class Gate(Model):
    """The gate's configuration: what is measured and when it is red."""

    profile: str = "quick"
    kernel: tuple[str, ...] = Field(default=(), description="kernel fragments; the profile's")
    topologies: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    threshold: str = Field(
        default=USUAL_THRESHOLD, description="more kernel instructions per I/O than this are red"
    )
    wall_clock: tuple[str, ...] = Field(
        default=(), description="cells TOPOLOGY/SCHEDULER/WORKLOAD to be judged by host time, too"
    )
    wall_clock_threshold: str = USUAL_TIME
    branches: dict[str, Branch] = Field(min_length=1)

    @property
    def limit(self) -> float:
        """The threshold as a fraction."""
        return fraction(self.threshold)


@dataclass(frozen=True)
class Tools:
    """What judging a branch needs beside its configuration."""

    gate: Gate
    profile: Profile
    store: BootStore
    history: GateHistory
    recorder: RunBuilder
    testbed: Testbed
    progress: Progress


@dataclass(frozen=True)
class Result:
    """What became of a branch: its record, its state as a source (empty when the lab failed), and
    the changes of its exact cells.
    """

    name: str
    series: run_record.Series
    state: str
    changes: Mapping[str, float | None]

    @property
    def red(self) -> bool:
        """Whether there is a regression, or a kernel that does not build or breaks."""
        return self.series.verdict == Verdict.REFUTED


def fraction(text: str) -> float:
    """A threshold such as '0.25%' as a fraction. Raises UsageError for anything else."""
    try:
        return series.bound(f"<= {text}", percent=True).high
    except ValueError as exc:
        raise UsageError(f"not a threshold: {text!r}", hint="write for example '0.25%'") from exc


def read(path: Path) -> Gate:
    """The gate's configuration. Raises UsageError for what is wrong in it."""
    found = load(path, Gate)
    for text in (found.threshold, found.wall_clock_threshold):
        fraction(text)
    return found


def judge(tools: Tools) -> list[Result]:
    """Build, measure and judge every branch; one that fails does not keep the others from it."""
    found = []
    for name, branch in tools.gate.branches.items():
        tools.progress.say(f"{name}:")
        try:
            found.append(_judged(name, branch, tools))
        except LabError as exc:
            tools.progress.say(f"lab: {exc}")
            # A branch that does not build is red; a lab that fails is neither red nor green.
            verdict = Verdict.REFUTED if isinstance(exc, BuildError) else Verdict.ERROR
            broken = _series(name, branch, "", verdict, (), error=str(exc))
            found.append(Result(name, broken, "", {}))
    return found


def remember(results: Sequence[Result], run_id: str, history: GateHistory) -> None:
    """Write down the judged branches; what the lab failed at leaves no trace."""
    for one in results:
        if one.state:
            red = [claim.name for claim in one.series.claims if claim.verdict == Verdict.REFUTED]
            reason = f"dearer: {', '.join(red)}" if red else ""
            history.add(one.name, one.state, run_id, reason, one.changes)


def accept(gate: Gate, name: str, reason: str, history: GateHistory, progress: Progress) -> str:
    """Make a branch's present state its baseline and return it.

    Raises UsageError for an unknown branch.
    """
    if name not in gate.branches:
        raise UsageError(f"no branch is called {name!r}", hint=nearest(name, gate.branches))
    state = _state(gate.branches[name].source, progress)
    history.accept(name, state, reason)
    return state


def _judged(name: str, branch: Branch, tools: Tools) -> Result:
    state, base = _state(branch.source, tools.progress), _baseline(name, branch, tools)
    fragments = tools.gate.kernel or tools.profile.kernel
    try:
        before = session.prepare_kernel(base, (), fragments, tools.progress)
    except BuildError as exc:
        if base == state:
            raise
        raise LabError(f"the baseline does not build: {exc.what}", where=exc.where) from exc
    after = session.prepare_kernel(state, (), fragments, tools.progress)
    gate = tools.gate
    selection = Selection(gate.topologies, gate.schedulers, gate.workloads)
    cells = cost_diff.cells(tools.profile, selection)
    kernels = (before, after)
    changes = cost_diff.measure(tools.testbed, kernels, cells, tools.store, tools.progress)
    cost_diff.require_sound_base(changes)
    claims = [_claim(name, one, tools) for one in changes]
    claims += [_timed(text, kernels, tools) for text in gate.wall_clock]
    red = any(claim.verdict == Verdict.REFUTED for claim in claims)
    verdict = Verdict.REFUTED if red else Verdict.HOLDS
    known = {_title(one.cell): one.change for one in changes}
    return Result(name, _series(name, branch, base, verdict, tuple(claims)), state, known)


def _state(spec: str, progress: Progress) -> str:
    """A source whose branch or tag is replaced by the commit that it is now."""
    found = source.resolve(spec, progress)
    if not spec.startswith("git:"):
        return spec
    return f"{spec.rpartition('@')[0]}@{found.version}"


def _baseline(name: str, branch: Branch, tools: Tools) -> str:
    """The source that a branch is compared with; of a new branch its own state."""
    if branch.baseline.startswith(_MERGE_BASE):
        path, _, revision = branch.source.removeprefix("git:").rpartition("@")
        other = branch.baseline.removeprefix(_MERGE_BASE)
        command = ["git", "-C", str(Path(path).expanduser()), "merge-base", revision, other]
        try:
            return f"git:{path}@{run(command).output.strip()}"
        except CommandError as exc:
            raise UsageError(f"{name}: no merge base with {other}", where=path) from exc
    if branch.baseline != _LAST_GOOD:
        return branch.baseline
    good = tools.history.last_good(name)
    if good is None:
        tools.progress.say("    nothing was good before: this state becomes the baseline")
    return good or _state(branch.source, tools.progress)


def _limit(branch: str, one: CellChange, tools: Tools) -> float:
    """The threshold of a cell: the gate's, or what its own history calls noise when that is more.

    The history are the changes from kernel to kernel that were judged good.
    """
    changes = tools.history.good_changes(branch, _title(one.cell))[-50:]
    if len(changes) < _HISTORY:
        return tools.gate.limit
    return max(tools.gate.limit, _SIGMAS * statistics.stdev(changes))


def _claim(branch: str, one: CellChange, tools: Tools) -> run_record.Claim:
    """A cell of the exact engine as a claim: it costs no more than the threshold allows."""
    limit, recorder = _limit(branch, one, tools), tools.recorder
    outcomes = (one.before, one.after)
    arms = ("before", "after")
    places = tuple(
        recorder.place(replace(one.cell, arm=arm), tuple(boot.id for boot in outcome.boots))
        for arm, outcome in zip(arms, outcomes, strict=True)
    )
    values = tuple(
        tuple(boot.values[METRIC] for boot in outcome.boots)
        for outcome in outcomes
        if outcome.boots
    )
    if one.change is None:
        error = one.after.error
        verdict, reason = Verdict.REFUTED, f"the kernel breaks: {error.brief if error else ''}"
    elif one.change > limit:
        verdict, reason = Verdict.REFUTED, _blame(one)
    else:
        verdict, reason = Verdict.HOLDS, "no dearer than the threshold allows"
    if one.change:
        recorder.cost(f"{branch}.{_title(one.cell)}", (places[0], places[1]))
    finding = run_record.Finding(
        level=Level.COST,
        engine=one.cell.engine,
        metric=METRIC,
        unit="insns/I/O",
        conditions={},
        published="",
        expected=f"<= {100 * limit:+.2f}%",
        because="more, in functions that seeds tell apart, is a regression",
        verdict=verdict,
        reason=reason,
        arms=arms,
        cells=places,
        values=values,
        measured=tuple(map(statistics.fmean, values)),
        change=one.change,
    )
    return _as_claim(one.cell, finding)


def _blame(one: CellChange) -> str:
    """The functions that a regression is in, without those that do not matter beside the first."""
    largest = max(change.difference for change in one.functions)
    dearer = [change for change in one.functions if change.difference > largest / 20][:3]
    return ", ".join(f"{change.function} {change.difference:+.1f}" for change in dearer)


def _timed(text: str, kernels: tuple[Kernel, Kernel], tools: Tools) -> run_record.Claim:
    """A cell judged by host time; a suspicion must be confirmed by as many rounds again."""
    gate, profile, testbed, recorder = tools.gate, tools.profile, tools.testbed, tools.recorder
    engine = testbed.host.best_wall_clock()
    cell = parse_cell(text, profile, engine)
    arms = ("before", "after")
    tasks = [Task(replace(cell, arm=a), k) for a, k in zip(arms, kernels, strict=True)]
    metric = workload.get(cell.workload).metric
    slower = _slower(metric, fraction(gate.wall_clock_threshold))
    with session.measuring(testbed, tools.store, tools.progress, sealed=False, timed=True):
        runner = Runner(testbed, tools.store, tools.progress)
        rounds = runner.rounds(tasks, profile.rounds)
        first = rounds.paired(metric, slice(0, profile.rounds))
        suspicious = first is not None and first.interval(profile.alpha).within(slower)
        if suspicious:
            tools.progress.say("    slower: rounds are run again to confirm it")
            rounds = runner.rounds(tasks, 2 * profile.rounds)
    places = tuple(
        recorder.place(task.cell, tuple(boot.id for boot in rounds.boots[task.cell.arm]))
        for task in tasks
    )
    second = rounds.paired(metric, slice(profile.rounds, None))
    confirmed = suspicious and second is not None and second.interval(profile.alpha).within(slower)
    shown = second if second else first
    if rounds.error:
        verdict, reason = Verdict.REFUTED, f"arm {rounds.failed_arm}: {rounds.error.brief}"
    elif confirmed:
        verdict, reason = Verdict.REFUTED, "slower, and slower again when it was confirmed"
    elif not shown:
        verdict, reason = Verdict.INCONCLUSIVE, "the host disturbed every round"
    else:
        verdict, reason = Verdict.HOLDS, "not slower beyond the threshold, as far as can be seen"
    values = tuple(tuple(b.values[metric] for b in rounds.boots[arm]) for arm in arms)
    interval = shown.interval(profile.alpha) if shown else None
    ends = (interval.low, interval.high) if interval else None
    finding = run_record.Finding(
        level=Level.WALL,
        engine=engine,
        metric=metric,
        unit=workload.get(cell.workload).unit,
        conditions={},
        published="",
        expected=_bound_text(slower),
        because="slower is a regression; confirmed by rounds of its own",
        verdict=verdict,
        reason=reason,
        arms=arms,
        cells=places,
        values=values,
        measured=tuple(statistics.fmean(own) for own in values if own),
        change=shown.change if shown else None,
        interval=ends if ends and all(map(math.isfinite, ends)) else None,
        rejected=rounds.rejected,
    )
    return _as_claim(cell, finding)


def _slower(metric: str, limit: float) -> Interval:
    """The changes of a metric that are a regression beyond a limit."""
    if arm_table.higher_is_better(metric):
        return Interval(-1.0, -limit)
    return Interval(limit, math.inf)


def _bound_text(slower: Interval) -> str:
    if slower.low == -1.0:
        return f">= {100 * slower.high:+.2f}%"
    return f"<= {100 * slower.low:+.2f}%"


def parse_cell(text: str, profile: Profile, engine: Engine) -> Cell:
    """A cell out of TOPOLOGY/SCHEDULER/WORKLOAD. Raises UsageError for what is none."""
    parts = text.split("/")
    if len(parts) != 3:
        raise UsageError(f"not a cell: {text!r}", hint="write TOPOLOGY/SCHEDULER/WORKLOAD")
    selection = Selection((parts[0],), (parts[1],), (parts[2],))
    return matrix.cells(profile, selection, engine)[0]


def _title(cell: Cell) -> str:
    return "/".join((cell.topology, cell.scheduler, f"{cell.workload} {cell.sweep}".strip()))


def _as_claim(cell: Cell, finding: run_record.Finding) -> run_record.Claim:
    return run_record.Claim(
        name=_title(cell),
        verdict=finding.verdict,
        published="no regression against the baseline",
        topology=cell.topology,
        scheduler=cell.scheduler,
        workload=cell.workload,
        findings=(finding,),
    )


def _series(
    name: str,
    branch: Branch,
    base: str,
    verdict: Verdict,
    claims: tuple[run_record.Claim, ...],
    error: str = "",
) -> run_record.Series:
    return run_record.Series(
        name=name,
        title=f"{branch.source} against {base or branch.baseline}",
        origin=f"baseline: {branch.baseline}",
        tree=branch.source,
        verdict=verdict,
        error=error,
        claims=claims,
    )
