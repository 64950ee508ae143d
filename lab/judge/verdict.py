# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts: what measured values say about expectations, and expectations about claims.

A wall-clock expectation HOLDS when chance alone would hardly show what was seen if the change lay
outside of its bound, and is REFUTED when the same is true of the inside; the rest is INCONCLUSIVE.
What is exact needs no chance: the value lies within the bound or not.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lab.base.errors import KERNEL_FAILURES
from lab.base.stats import Interval, Paired, Seeds, paired
from lab.inputs.series import Series
from lab.inputs.terms import Level, Verdict
from lab.judge.blame import blame
from lab.judge.experiment import Experiment
from lab.judge.finding import Evidence, Failure, Finding
from lab.judge.problem import with_level
from lab.judge.seed_noise import SEEDS, change_of, seed_margin


@dataclass(frozen=True)
class Judged:
    """A series and what was found of it; error says why it could not be judged at all.

    configuration has the options that differ from the kernels with base/ alone, by the folder of
    the patches that change them.
    """

    series: Series
    findings: tuple[Finding, ...]
    error: str = ""
    configuration: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def claims(self) -> dict[str, tuple[Finding, ...]]:
        """The findings by claim."""
        names = dict.fromkeys(finding.experiment.claim for finding in self.findings)
        return {n: tuple(f for f in self.findings if f.experiment.claim == n) for n in names}

    def verdict(self) -> Verdict:
        """The verdict on the series: that of its published claims together.

        A check informs; but a patched kernel that breaks in one refutes the series, and what the
        lab could not measure is an error.
        """
        if self.error:
            return Verdict.ERROR
        return together(finding.verdict for finding in self.findings if decides(finding))

    def counts_as(self, *, strict: bool = False) -> Verdict:
        """The verdict that decides the exit code: known misses are as expected; with strict the
        checks count like claims.
        """
        if self.error:
            return Verdict.ERROR
        return together(
            finding.counts_as for finding in self.findings if strict or decides(finding)
        )


def judge(experiments: Sequence[tuple[Experiment, Evidence]], alpha: float) -> list[Finding]:
    """The findings for experiments of any claims.

    A verdict depends on what its own claim asks, and on nothing that is judged beside it: a wrong
    HOLDS of a claim by the wall clock, and a wrong REFUTED, has at most the chance alpha.
    """
    findings = (_from_evidence(experiment, evidence, alpha) for experiment, evidence in experiments)
    return [with_blame(_with_lacking(with_level(finding)), alpha) for finding in findings]


def decides(finding: Finding) -> bool:
    """Whether a finding has a part in the verdict on its series."""
    return not finding.experiment.is_check or finding.broken or finding.verdict is Verdict.ERROR


def of_claim(findings: Sequence[Finding]) -> Verdict:
    """The verdict on a claim from those on its expectations."""
    return together(finding.verdict for finding in findings)


def together(several: Iterable[Verdict]) -> Verdict:
    """One verdict of several expectations.

    One that is refuted refutes them all; they hold when all that were measured hold.
    """
    verdicts = {*several} - {Verdict.SKIPPED}
    for strongest in (Verdict.ERROR, Verdict.REFUTED, Verdict.INCONCLUSIVE):
        if strongest in verdicts:
            return strongest
    return Verdict.HOLDS if verdicts else Verdict.SKIPPED


def with_blame(finding: Finding, alpha: float) -> Finding:
    """Failures of the patched kernels count, however the others of their boots came out."""
    if finding.verdict in (Verdict.ERROR, Verdict.SKIPPED) or finding.evidence.failure:
        return finding
    known = blame(*finding.evidence.ends, alpha)
    if known is None:
        return finding
    if known.verdict is None or (
        known.verdict is Verdict.INCONCLUSIVE and finding.verdict is not Verdict.HOLDS
    ):
        return replace(finding, reason=f"{finding.reason}; {known.reason}")
    broken = known.verdict is Verdict.REFUTED
    return replace(finding, verdict=known.verdict, reason=known.reason, broken=broken)


def _from_evidence(experiment: Experiment, evidence: Evidence, alpha: float) -> Finding:
    """The finding by what was measured, the host's lacks and other boots left aside."""
    finding = Finding(
        experiment=experiment, evidence=evidence, verdict=Verdict.INCONCLUSIVE, reason=""
    )
    expectation = experiment.expectation
    if experiment.skipped:
        return replace(finding, verdict=Verdict.SKIPPED, reason=experiment.skipped)
    if not experiment.runs:
        return replace(finding, reason=experiment.lacking)
    if evidence.failure:
        return _failed(finding, evidence.failure, alpha)
    if expectation.bound.is_change and evidence.same:
        verdict = Verdict.HOLDS if experiment.asks_for_no_change else Verdict.REFUTED
        reason = "both arms are the same kernel with the same settings: nothing was changed"
        return _unchanged(replace(finding, verdict=verdict, reason=reason))
    if not all(values and all(values) for values in (evidence.values, *evidence.variants.values())):
        reason = (
            f"the host disturbed every round ({evidence.rejected} rejected)"
            if experiment.timed
            else f"the guests gave no {expectation.metric}; `lab doctor` says why"
        )
        return replace(finding, reason=reason)
    if evidence.unchanged:
        reason = f"none of the {evidence.unchanged:,} functions that both kernels executed differs"
        measured = tuple(map(statistics.fmean, evidence.values))
        return _unchanged(replace(finding, verdict=Verdict.HOLDS, reason=reason, measured=measured))
    known = _sensitive(_measured(finding, evidence.values, alpha), alpha)
    if evidence.doubt and known.verdict.decided:
        return replace(known, verdict=Verdict.INCONCLUSIVE, reason=evidence.doubt)
    return _without_moved_code(known, alpha)


def _unchanged(finding: Finding) -> Finding:
    """A finding of arms of which it is known that they do the same."""
    return replace(finding, measured_change=0.0, interval=Interval(0.0, 0.0))


def _without_moved_code(finding: Finding, alpha: float) -> Finding:
    """A verdict on the block layer's cost must not hang on code that moved out of it.

    So it has to be the same with all that the rest of the kernel surely costs more added to the
    block layer of the second arm.
    """
    rest, values = finding.evidence.rest, finding.evidence.values
    if len(rest) != 2 or not finding.verdict.decided or finding.measured_change is None:
        return finding
    more = _surely_more(*rest, seed_margin(finding.experiment, finding.evidence.noise), alpha)
    moved = (values[0], tuple(value + more for value in values[1]))
    adjusted = _measured(finding, moved, alpha)
    if not more or adjusted.verdict is finding.verdict:
        return finding
    less = statistics.fmean(values[0]) - statistics.fmean(values[1])
    return replace(finding, verdict=Verdict.INCONCLUSIVE, reason=moved_code(less, more))


def moved_code(less: float, more: float) -> str:
    """Why a change of the block layer's cost, in instructions, proves no saving of the kernel's."""
    layer = f"{abs(less):,.1f} instructions an I/O {'less' if less >= 0 else 'more'}"
    return (
        f"the block layer costs {layer}, but the rest of the kernel {more:,.1f} more: code may "
        "have moved out of the block layer"
    )


def _surely_more(
    before: Sequence[float], after: Sequence[float], margin: float, alpha: float
) -> float:
    """How much more the second arm costs at least, as seeds tell that may be off by margin."""
    if min(before) <= 0 or min(after) <= 0:
        return max(0.0, min(after) - max(before))
    change = change_of(before, after, Interval(-math.inf, 0.0), margin, alpha)
    return max(0.0, change.low) * statistics.fmean(before)


def _sensitive(finding: Finding, alpha: float) -> Finding:
    """A simulated verdict must be the same with the other costs that a machine may have."""
    variants = {
        scaled: _measured(finding, values, alpha)
        for scaled, values in finding.evidence.variants.items()
    }
    changes = {
        scaled: variant.measured[0] if variant.measured_change is None else variant.measured_change
        for scaled, variant in variants.items()
    }
    unclear = [variant for variant in variants.values() if variant.measured_change is None]
    if unclear and finding.measured_change is not None:
        return replace(finding, verdict=Verdict.INCONCLUSIVE, reason=unclear[0].reason)
    known = replace(finding, sensitivity=changes)
    bound = finding.experiment.expectation.bound.interval
    flips = [
        scaled
        for scaled, change in changes.items()
        if finding.verdict.decided
        and (finding.verdict is Verdict.HOLDS) != Interval(change, change).within(bound)
    ]
    if not flips:
        return known
    opposite = Verdict.REFUTED if finding.verdict is Verdict.HOLDS else Verdict.HOLDS
    reason = f"sensitive to the machine model: {opposite} with {' and '.join(flips)}"
    return replace(known, verdict=Verdict.INCONCLUSIVE, reason=reason)


def _measured(finding: Finding, values: tuple[tuple[float, ...], ...], alpha: float) -> Finding:
    """The finding on values that are there, in the place of its evidence's own."""
    measured = tuple(map(statistics.fmean, values))
    evidence = replace(finding.evidence, values=values)
    finding = replace(finding, evidence=evidence, measured=measured)
    experiment, expectation = finding.experiment, finding.experiment.expectation
    if not expectation.bound.is_change:
        # What is counted in whole numbers is no more than 8 when 7, 8 and 8 were seen, however far
        # the mean of such seeds may be off.
        whole = experiment.level is Level.MECHANISM and all(value % 1 == 0 for value in values[0])
        if len(values[0]) < SEEDS or whole:
            interval = Interval(min(values[0]), max(values[0]))
        else:
            interval = Seeds(values[0]).interval(expectation.bound.interval, alpha)
        return _bounded(replace(finding, interval=interval), "value")
    before, after = values
    if min(before) <= 0 or (experiment.timed and min(after) <= 0):
        which = "first" if min(before) <= 0 else "second"
        return replace(finding, reason=f"the {which} arm's value is 0: there is no ratio to judge")
    if experiment.timed:
        return _timed(finding, paired(before, after), alpha)
    if experiment.level is Level.MECHANISM and not max(after) and not expectation.may_be_zero:
        # What finds nothing may look for the wrong thing.
        reason = (
            f"nothing was counted in arm {experiment.arms[1]}: the function may have another name "
            "there; where none is right, write may_be_zero = true in the expectation"
        )
        return replace(finding, reason=reason, measured_change=-1.0)
    change = finding.measured[1] / finding.measured[0] - 1
    margin = seed_margin(experiment, evidence.noise)
    interval = change_of(before, after, expectation.bound.interval, margin, alpha)
    known = _bounded(replace(finding, measured_change=change, interval=interval), "change")
    return _wider_than_published(known)


def _wider_than_published(finding: Finding) -> Finding:
    """Say so where nothing is decided because the seeds tell less than what was published."""
    published, seen = finding.experiment.expectation.published, finding.interval
    effect = published.single_change if published else None
    seeds = min(map(len, finding.evidence.values))
    if finding.verdict is not Verdict.INCONCLUSIVE or not effect or not seen or seeds < SEEDS:
        return finding
    if effect <= -1 or seen.low <= -1 or not math.isfinite(seen.high):
        return finding
    if math.log((1 + seen.high) / (1 + seen.low)) <= abs(math.log1p(effect)):
        return finding
    shown = f"[{100 * seen.low:+.0f}, {100 * seen.high:+.0f}] %"
    reason = (
        f"the interval of {seeds} seeds, {shown}, is wider than the published effect, "
        f"{100 * effect:+.3g} %"
    )
    return replace(finding, reason=reason)


def _bounded(finding: Finding, what: str) -> Finding:
    """The verdict on everything that was seen: all within the bound, none, or some."""
    bound, seen = finding.experiment.expectation.bound.interval, finding.interval
    assert seen is not None
    if seen.within(bound):
        return replace(finding, verdict=Verdict.HOLDS, reason=f"the {what} is as expected")
    if seen.apart(bound):
        return replace(finding, verdict=Verdict.REFUTED, reason=f"the {what} is not as expected")
    reason = f"some boots give a {what} as expected, some do not"
    margin = 100 * seed_margin(finding.experiment, finding.evidence.noise)
    if margin and len(finding.evidence.values[-1]) < SEEDS:
        reason = f"the {what} is nearer to the bound than {margin:g} %, by which seeds differ"
    return replace(finding, verdict=Verdict.INCONCLUSIVE, reason=reason)


def _failed(finding: Finding, failure: Failure, alpha: float) -> Finding:
    """A patched kernel that breaks is refuted, unless others do as often; a base kernel that does
    is an error of the lab.
    """
    reason = f"arm {failure.arm} failed: {failure.what}"
    known = blame(*finding.evidence.ends, alpha)
    breaks = failure.outcome in KERNEL_FAILURES and (known is None or known.verdict is not None)
    resets = failure.outcome == "died" and known and known.verdict is Verdict.REFUTED
    if failure.patched and (breaks or resets):
        reason = f"the patched kernel breaks in arm {failure.arm}: {failure.what}"
        return replace(finding, verdict=Verdict.REFUTED, reason=reason, broken=True)
    if failure.patched and known:
        reason = f"{reason}; {known.reason}"
    return replace(finding, verdict=Verdict.ERROR, reason=reason)


def _timed(finding: Finding, pairs: Paired, alpha: float) -> Finding:
    """The verdict of paired boots.

    A claim holds when all its expectations do, which makes none of them easier to believe wrongly
    (the intersection-union test of R. L. Berger, Technometrics 24, 1982); one is enough to refute
    it, so each must be as sure as all together have to be (Bonferroni).
    """
    experiment = finding.experiment
    bound, questions = experiment.expectation.bound.interval, experiment.questions
    for_it, against = pairs.p_outside(bound), min(1.0, questions * pairs.p_inside(bound))
    known = replace(finding, measured_change=pairs.change, interval=pairs.interval(alpha))
    holds = pairs.decides(bound, alpha, questions)
    if holds:
        return replace(known, verdict=Verdict.HOLDS, reason="it is as expected", p=for_it)
    if holds is False:
        return replace(known, verdict=Verdict.REFUTED, reason="it is not as expected", p=against)
    more = pairs.more(bound, alpha, questions)
    count = f"about {more:.0f} more" if math.isfinite(more) else "more like these would not, either"
    reason = f"{pairs.pairs} rounds do not decide it: {count}"
    return replace(known, reason=reason, p=min(for_it, against))


def _with_lacking(finding: Finding) -> Finding:
    """What the host lacks makes a finding inconclusive, however the measurement came out.

    A kernel that breaks is refuted on any host.
    """
    lacking = finding.experiment.lacking
    judged = finding.verdict not in (Verdict.ERROR, Verdict.SKIPPED)
    if lacking and judged and not finding.evidence.failure:
        return replace(finding, verdict=Verdict.INCONCLUSIVE, reason=lacking)
    return finding
