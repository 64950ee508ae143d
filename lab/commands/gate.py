# SPDX-License-Identifier: GPL-2.0-or-later
"""The gate: branches against their baselines, red for a regression, else green.

An exact cell that costs more is asked again with other seeds, a cell of wall-clock time for as many
rounds as it takes to be sure. What fails is judged as everywhere: a patched kernel that
breaks is a regression, a baseline that does is the lab's error.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lab.base.errors import BuildError, LabError, UsageError, nearest
from lab.base.progress import Progress
from lab.build import repository, source
from lab.build.config_diff import changed_options
from lab.build.kernel import Kernel
from lab.commands import cost_diff
from lab.commands.cost_diff import CellChange, Threshold
from lab.commands.gate_config import FIRST_GOOD, LAST_GOOD, MERGE_BASE, Branch, Gate, fraction
from lab.commands.gate_history import GateHistory
from lab.inputs import workload
from lab.inputs.bounds import Bound
from lab.inputs.claims import Expectation
from lab.inputs.profile import Profile
from lab.inputs.terms import Better, Level, Verdict
from lab.judge import verdict
from lab.judge.finding import Finding
from lab.judge.judge import decided, failed_round, paired_evidence
from lab.measure import cost, matrix, metrics
from lab.measure.cell import PlannedCell
from lab.measure.matrix import Selection
from lab.measure.session import Session
from lab.report import run_record
from lab.report.run_builder import RunBuilder

# With so many seeds of each kernel a cell is decided at most, and confirmed.
_SEEDS = 12
# Functions that cost more are named, at most so many, and none below this share of the first.
_NAMED = 3
_SHARE = 1 / 20


@dataclass(frozen=True)
class Gating:
    """What judging a branch needs beside its configuration."""

    config: Gate
    session: Session
    history: GateHistory
    builder: RunBuilder


@dataclass(frozen=True)
class BranchResult:
    """What became of a branch: its record, its state as a source (empty when the lab failed), the
    changes of its exact cells, and what an I/O costs in the block layer of each, in instructions;
    None where a cell failed.
    """

    series: run_record.SeriesRecord
    state: str
    changes: Mapping[str, float | None]
    values: Mapping[str, float | None]


def judge(gating: Gating) -> list[BranchResult]:
    """Build, measure and judge every branch; one that fails does not keep the others from it."""
    results = []
    for name, branch in gating.config.branches.items():
        gating.session.progress.say(f"{name}:")
        try:
            results.append(_judged(name, branch, gating))
        except LabError as exc:
            gating.session.progress.say(f"lab: {exc}")
            # A branch that does not build is red; a lab that fails is neither red nor green.
            broken = Verdict.REFUTED if isinstance(exc, BuildError) else Verdict.ERROR
            series = _series(name, branch, "", broken, (), error=str(exc))
            results.append(BranchResult(series, "", {}, {}))
    return results


def cells(config: Gate, profile: Profile) -> list[PlannedCell]:
    """The exact cells that a gate measures of every branch."""
    selection = Selection(config.topologies, config.schedulers, config.workloads)
    return cost_diff.cells(profile, selection)


def remember(results: Sequence[BranchResult], run_id: str, history: GateHistory) -> None:
    """Write down the judged branches; what the lab failed at leaves no trace.

    Only a state that was judged good becomes a baseline: one that is open does not.
    """
    for result in results:
        if result.state and result.series.verdict != Verdict.ERROR:
            red = [c.name for c in result.series.claims if c.verdict == Verdict.REFUTED]
            open_ = [c.name for c in result.series.claims if c.verdict == Verdict.INCONCLUSIVE]
            reason = f"not decided: {', '.join(open_)}" if open_ else ""
            reason = f"costs more: {', '.join(red)}" if red else reason
            history.add(
                result.series.name, result.state, run_id, reason, result.changes, result.values
            )


def known_branch(config: Gate, name: str) -> Branch:
    """The branch called name. Raises UsageError naming the nearest one."""
    if name not in config.branches:
        raise UsageError(f"no branch is called {name!r}", hint=nearest(name, config.branches))
    return config.branches[name]


def accept(
    config: Gate,
    name: str,
    judged: run_record.RunRecord,
    cells: Sequence[str],
    reason: str,
    history: GateHistory,
) -> str:
    """Make the state of a branch that was judged in a run its baseline, and return it.

    cells are what is accepted: all that was not good in that run, so that nothing else slips
    through with it. Raises UsageError for anything else.
    """
    if known_branch(config, name).baseline != LAST_GOOD:
        raise UsageError(
            f"the baseline of {name} is {config.branches[name].baseline!r}, whatever was good",
            hint="change it in the configuration",
        )
    state = history.judged(name, judged.id)
    series = next((record for record in judged.series if record.name == name), None)
    if state is None or series is None:
        raise UsageError(f"{name} was not judged in run {judged.id}", hint="choose another --run")
    bad = [claim.name for claim in series.claims if claim.verdict != Verdict.HOLDS]
    if not bad:
        raise UsageError(f"{name} was good in run {judged.id}: there is nothing to accept")
    if unknown := [cell for cell in cells if cell not in bad]:
        raise UsageError(
            f"{unknown[0]!r} was not red in run {judged.id}", hint=nearest(unknown[0], bad)
        )
    if left := [cell for cell in bad if cell not in cells]:
        named = " ".join(f"--cell {shlex.quote(cell)}" for cell in left)
        raise UsageError(
            f"{name} was not good in {len(left)} more: {', '.join(left)}",
            hint=f"mend it, or accept it, too: {named}",
        )
    history.accept(name, state, reason)
    return state


def _judged(name: str, branch: Branch, gating: Gating) -> BranchResult:
    config, session = gating.config, gating.session
    state = _state(branch.source, session.progress)
    base = _baseline(name, branch, state, gating)
    try:
        before = session.kernel(base)
    except BuildError as exc:
        if base == state:
            raise
        raise LabError(f"the baseline does not build: {exc.what}", where=exc.where) from exc
    kernels = (before, session.kernel(state))
    costs = _costs(name, kernels, gating)
    findings = {_title(cell.planned): finding for cell, finding in costs}
    findings |= _crept(name, branch, (base, state), kernels[1], gating)
    timed = {f"{text} (wall clock)": text for text in config.wall_clock}
    findings |= {title: _timed(name, text, kernels, gating) for title, text in timed.items()}
    claims = tuple(_claim(title, finding, gating) for title, finding in findings.items())
    judged = verdict.of_claim(list(findings.values()))
    series = _series(name, branch, base, judged, claims)
    if changed := changed_options(*kernels):
        series = series.model_copy(update={"configuration": {"branch": changed}})
    changes = {_title(cell.planned): cell.change for cell, _ in costs}
    values = {_title(cell.planned): cell.after.value(cost.BLOCK_LAYER) for cell, _ in costs}
    return BranchResult(series, state, changes, values)


def _costs(
    branch: str, kernels: tuple[Kernel, Kernel], gating: Gating
) -> list[tuple[CellChange, Finding]]:
    """The change of every exact cell, and what it says; what is red is so in some functions."""
    config, session = gating.config, gating.session
    threshold = Threshold(fraction(config.threshold), _SEEDS)
    changes = cost_diff.measure(session, kernels, cells(config, session.profile), threshold)
    cost_diff.require_sound_base(changes)
    before, after = (session.store.ends({kernel.id}) for kernel in kernels)
    costs = []
    for cell in changes:
        finding = replace(cell.finding, experiment=replace(cell.finding.experiment, series=branch))
        if not cell.failed:
            if finding.verdict is Verdict.REFUTED:
                finding = replace(finding, reason=_blame(cell))
            finding = replace(finding, evidence=replace(finding.evidence, ends=(after, before)))
        costs.append((cell, verdict.with_blame(finding, session.profile.alpha)))
    return costs


def _crept(
    name: str,
    branch: Branch,
    known: tuple[str, str],
    kernel: Kernel,
    gating: Gating,
) -> dict[str, Finding]:
    """The cells that cost more than they may since the branch's long-term baseline: many nights,
    each a little.

    known are the sources that kernel, the branch's, was compared with already.
    """
    baseline = branch.long_term_baseline
    if baseline == FIRST_GOOD:
        baseline = gating.history.first_good(name) or ""
    if not baseline or baseline in known:
        return {}
    first = gating.session.kernel(baseline)
    since = baseline.rpartition("@")[2][:12]
    return {
        f"{_title(cell.planned)} since {since}": finding
        for cell, finding in _costs(name, (first, kernel), gating)
        if cell.change is not None and finding.verdict is Verdict.REFUTED
    }


def _state(spec: str, progress: Progress) -> str:
    """A source whose branch or tag is replaced by the commit that it is now."""
    resolved = source.resolve(spec, progress)
    if not spec.startswith("git:"):
        return spec
    return f"{spec.rpartition('@')[0]}@{resolved.version}"


def _baseline(name: str, branch: Branch, state: str, gating: Gating) -> str:
    """The source that a branch is compared with; of a new branch its own state."""
    if branch.baseline.startswith(MERGE_BASE):
        path, _, revision = branch.source.removeprefix("git:").rpartition("@")
        upstream = branch.baseline.removeprefix(MERGE_BASE)
        return f"git:{path}@{repository.merge_base(Path(path), revision, upstream)}"
    if branch.baseline != LAST_GOOD:
        return branch.baseline
    good = gating.history.last_good(name)
    if good is None:
        gating.session.progress.say("    nothing was good before: this state becomes the baseline")
    return good or state


def _blame(cell: CellChange) -> str:
    """The functions that a regression is in, those that are sure before the others, without what
    does not matter beside the first.
    """
    more = [change for change in cell.functions if change.difference > 0]
    known = [change for change in more if change.sure] or more
    largest = max((change.difference for change in known), default=0.0)
    named = [change for change in known if change.difference > largest * _SHARE][:_NAMED]
    return ", ".join(f"{change.function} {change.difference:+.1f}" for change in named)


def _timed(branch: str, text: str, kernels: tuple[Kernel, Kernel], gating: Gating) -> Finding:
    """A cell judged by wall clock, in rounds until it is clear whether it got slower."""
    session = gating.session
    planned = matrix.parse_cell(text, session.profile, session.testbed.host.best_wall_clock())
    metric = workload.get(planned.cell.workload).metric
    limit = fraction(gating.config.wall_clock_threshold)
    higher = metrics.get(metric).better is Better.HIGHER
    expectation = Expectation(
        metric=metric,
        change=Bound(-limit, None, "%") if higher else Bound(None, limit, "%"),
        because="slower is a regression",
    )
    experiment = cost_diff.as_experiment(branch, planned, expectation, Level.WALL)
    tasks, alpha = cost_diff.tasks_of([planned], kernels), session.profile.alpha
    with session.measuring(tasks) as runner:
        rounds = runner.rounds(tasks, session.profile.rounds, partial(decided, [experiment], alpha))
    evidence = paired_evidence(experiment, rounds, failed_round(experiment.sides, rounds))
    before, after = (session.store.ends({task.kernel.id}) for task in tasks)
    (finding,) = verdict.judge([(experiment, replace(evidence, ends=(after, before)))], alpha)
    return finding


def _title(planned: PlannedCell) -> str:
    cell = planned.cell
    work = f"{cell.workload} {cell.sweep(planned.swept)}".strip()
    return "/".join((cell.topology, cell.scheduler, work))


def _claim(title: str, finding: Finding, gating: Gating) -> run_record.ClaimRecord:
    cell = finding.experiment.sides[0].cell
    return run_record.ClaimRecord(
        name=title,
        verdict=finding.verdict,
        counts_as=finding.verdict,
        statement="no regression against the baseline",
        topology=cell.topology,
        scheduler=cell.scheduler,
        workload=cell.workload,
        findings=(gating.builder.finding(finding),),
    )


def _series(
    name: str,
    branch: Branch,
    base: str,
    judged: Verdict,
    claims: tuple[run_record.ClaimRecord, ...],
    error: str = "",
) -> run_record.SeriesRecord:
    return run_record.SeriesRecord(
        name=name,
        title=f"{branch.source} against {base or branch.baseline}",
        origin=f"baseline: {branch.baseline}",
        tree=branch.source,
        verdict=judged,
        counts_as=judged,
        error=error,
        claims=claims,
    )
