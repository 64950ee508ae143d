# SPDX-License-Identifier: GPL-2.0-or-later
"""From series on disk to verdicts, on fake guests: which boots are run, and what they say."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import examples
import guests as fakes
import pytest
from guests import FakeSession, Guests

from lab.base.errors import BuildError, GuestError, LabError, UsageError
from lab.build.kernel import Kernel
from lab.guest.host_noise import LIMITS, PREFIX
from lab.inputs import profile, series
from lab.inputs.series import Series
from lab.inputs.terms import Engine, Verdict
from lab.judge import case, judge
from lab.judge.finding import Finding
from lab.judge.verdict import Judged
from lab.measure import cost, determinism
from lab.measure.boot_store import BootStore
from lab.measure.job import Job
from lab.report.run_builder import RunBuilder

QUICK = profile.get("quick")
EIGHT = QUICK.model_copy(update={"rounds": 8})
SEEDED = QUICK.model_copy(update={"seeds": 3})
NOISE = {f"{PREFIX}steal": LIMITS["steal"] + 1}
HEAD = 'title = "t"\norigin = "o"\n[arms.raw]\npatches = "base"\nkernel_parameters = ["a.b=1"]\n'
IOPS = 'metric = "iops"\nchange = ">= +20%"\n'
COST = 'metric = "kernel_insns_per_io"\nchange = "<= -1%"\n'
MERGES = 'metric = "stable_merges"\nvalue = ">= 5"\n'
SWITCHES = 'metric = "switches"\nchange = "<= -10%"\n'
HCTXS = 'metric = "hctxs_run"\nvalue = ">= 5"\n'
BASE, PATCHED = "6.12+0001-base", "6.12+0001-base+0001-own"
claim = partial(examples.claim_text, topology="nullb_mq")
# One after another: KVM's guests cannot take turns.
ENGINES = (Engine.KVM, Engine.EXACT)

Write = Callable[..., Series]
Judge = Callable[..., list[Finding]]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """A function: claims as text -> a series with these, one patch in base/, one in series/."""
    monkeypatch.setattr(series, "FOLDER", tmp_path / "patches")

    def written(*claims: str, name: str = "own") -> Series:
        for path in ("base/0001-base.patch", f"series/0001-{name}.patch"):
            patch = tmp_path / "patches" / name / path
            patch.parent.mkdir(parents=True, exist_ok=True)
            patch.write_text("")
        (tmp_path / "patches" / name / "series.toml").write_text(HEAD + "".join(claims))
        return series.get(name)

    return written


@pytest.fixture
def session(guests: Guests) -> FakeSession:
    """A session in which the patched kernel is faster by half and a tenth cheaper."""
    guests.cost_of = lambda kernel: fakes.insns(submit_bio=900.0 if is_patched(kernel) else 1000.0)
    guests.says = says
    return FakeSession(QUICK, engines=ENGINES)


def before_kernels(session: FakeSession, act: Callable[[str], None]) -> None:
    """Act before each kernel is built, on the paths of its patches."""
    build = session.kernel

    def kernel(*what: Any, **how: Any) -> Kernel:
        act(str(what[1]))
        return build(*what, **how)

    session.kernel = kernel  # type: ignore[method-assign]


def is_patched(kernel: str) -> bool:
    """Whether a kernel has the series' own patch."""
    return "+0001-own" in kernel


def says(job: Job) -> dict[str, float]:
    patched = is_patched(job.task.kernel.id)
    counters = {"stable_merges": 9.0 if patched else 1.0}
    counters["switches"] = 1.0 if patched else 2.0
    counters["hctxs_run"] = 9.0
    return {
        "iops": 150.0 if patched else 100.0,
        **{name: counters[name] for name in job.cell.counters},
    }


@pytest.fixture
def judged(session: FakeSession, write: Write) -> Judge:
    """A function: claims as text -> the findings on a series with these."""
    return lambda *claims: findings_of(judge.judge([write(*claims)], session))


def findings_of(judged: tuple[Judged, ...]) -> list[Finding]:
    return [finding for judged_series in judged for finding in judged_series.findings]


def verdicts(judged: tuple[Judged, ...]) -> list[Verdict]:
    return [finding.verdict for finding in findings_of(judged)]


def test_every_level_of_evidence_comes_to_its_verdict(
    session: FakeSession, guests: Guests, write: Write
) -> None:
    (judged_series,) = judge.judge([write(claim(IOPS, COST, HCTXS, SWITCHES))], session)
    timed, exact, hctxs, switches = judged_series.findings
    assert [f.verdict for f in judged_series.findings] == [Verdict.HOLDS] * 4
    assert (judged_series.verdict(), judged_series.error) == (Verdict.HOLDS, "")
    assert timed.evidence.values == ((100.0,) * 8, (150.0,) * 8)
    assert timed.measured_change == pytest.approx(0.5)
    assert exact.measured == (1000.0, 900.0)
    assert (hctxs.measured, switches.measured) == ((9.0,), (2.0, 1.0))
    # Exact cells come first, what is counted in one boot together; then the rounds.
    both = ("hctxs_run", "switches")
    exactly = sorted((job.cell.counters, job.task.arm) for job in guests.booted[:4])
    assert exactly == [
        *(((), "after"), ((), "before")),
        *((both, "after"), (("switches",), "before")),
    ]
    assert [job.cell.engine for job in guests.booted] == [Engine.EXACT] * 4 + [Engine.KVM] * 16
    assert len(guests.checks) == 2


def test_counters_are_counted_in_the_boot_that_tells_the_cost(
    session: FakeSession, guests: Guests, write: Write
) -> None:
    wide = f"{MERGES}cpus = 1\n"
    (judged_series,) = judge.judge([write(claim(COST, wide, MERGES))], session)
    assert [finding.measured for finding in judged_series.findings] == [
        (1000.0, 900.0),
        (9.0,),
        (9.0,),
    ]
    booted = sorted((job.cell.cpus, job.task.arm, job.cell.counters) for job in guests.booted)
    merges = ("stable_merges",)
    assert booted == [(1, "after", merges), (1, "before", ()), (2, "after", merges)]
    assert {(job.cell.cpus, job.cell.cost) for job in guests.booted} == {(1, True), (2, False)}


def test_options_that_patches_change_are_told(
    session: FakeSession, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(before: Kernel, after: Kernel) -> tuple[str, ...]:
        differ = is_patched(after.id) and not is_patched(before.id)
        return ("CONFIG_KASAN: n -> y",) if differ else ()

    monkeypatch.setattr(case, "changed_options", changed)
    (judged_series,) = judge.judge([write(claim(COST))], session)
    assert judged_series.configuration == {"series": ("CONFIG_KASAN: n -> y",)}
    record = RunBuilder(session, "x").judged([judged_series])
    assert record.series[0].configuration == judged_series.configuration


def test_what_an_arm_takes_is_taken_off_the_others(
    session: FakeSession, guests: Guests, write: Write
) -> None:
    """1000 and 900 instructions over 800 are 200 and 100: half."""
    guests.says = lambda job: {cost.KERNEL: 800.0} if job.cell.scheduler == "none" else says(job)
    arm = '[arms.free]\npatches = "base"\nscheduler = "none"\n'
    text = 'metric = "kernel_insns_per_io"\nchange = "<= -40%"\nsubtract = "free"\n'
    (judged_series,) = judge.judge([write(claim(text, more="seeds = 3"), arm)], session)
    (finding,) = judged_series.findings
    assert finding.measured == (200.0, 100.0)
    assert finding.measured_change == pytest.approx(-0.5)
    assert finding.verdict is Verdict.HOLDS
    assert [len(boots) for boots in finding.evidence.boots] == [3, 3]
    assert len(guests.booted) == 9


def test_what_a_finding_names_are_the_boots_that_its_values_come_from(
    judged: Judge, session: FakeSession
) -> None:
    for finding in judged(claim(IOPS, COST, MERGES)):
        evidence = finding.evidence
        for ids, values in zip(evidence.boots, evidence.values, strict=True):
            known = session.store.boots(ids)
            metric = finding.experiment.expectation.metric
            assert [known[identity].values[metric] for identity in ids] == list(values)


def test_kernels_are_those_of_the_arms_whatever_is_counted(
    session: FakeSession, guests: Guests, write: Write
) -> None:
    raw = f'{IOPS}compare = ["raw", "after"]\n'
    prepared = case.prepare(write(claim(IOPS, raw, MERGES)), session)
    kernels = {(task.arm, task.cell.counters): task.kernel.id for task in prepared.tasks.values()}
    assert kernels == {
        ("before", ()): BASE,
        ("raw", ()): BASE,
        ("after", ()): PATCHED,
        ("after", ("stable_merges",)): PATCHED,
    }
    # The engines are checked with a kernel without patches; each kernel is built once.
    assert sorted(session.requested) == sorted(["6.12", BASE, PATCHED])
    assert {side.arm: side.patched for side in prepared.tasks} == {
        "before": False,
        "raw": False,
        "after": True,
    }


def test_arms_of_several_expectations_are_booted_in_the_same_rounds(
    session: FakeSession, guests: Guests, write: Write
) -> None:
    raw = f'{IOPS}compare = ["raw", "after"]\n'
    latency = 'metric = "lat_mean_ms"\nchange = "<= 0%"\n'
    guests.says = lambda job: {**says(job), "lat_mean_ms": 2.0}
    judged = judge.judge([write(claim(IOPS, raw), claim(latency, name="other"))], session)
    assert len(guests.booted) == 3 * QUICK.rounds
    assert [finding.experiment.arms for finding in findings_of(judged)] == [
        ("before", "after"),
        ("raw", "after"),
        ("before", "after"),
    ]
    ids = [finding.evidence.boots for finding in findings_of(judged)]
    assert ids[0] == ids[2]
    assert ids[0][1] == ids[1][1]


def test_what_is_on_record_is_not_measured_again(
    session: FakeSession, guests: Guests, write: Write
) -> None:
    patch_series = write(claim(IOPS, COST, MERGES))
    first = verdicts(judge.judge([patch_series], session))
    boots = len(guests.booted)
    assert verdicts(judge.judge([patch_series], FakeSession(QUICK, engines=ENGINES))) == first
    assert len(guests.booted) == boots


def test_what_is_exact_is_measured_and_counted_with_several_seeds(
    judged: Judge, session: FakeSession, guests: Guests, write: Write
) -> None:
    session.profile = SEEDED
    (exact, merges) = judged(claim(COST, MERGES))
    assert [len(values) for values in exact.evidence.values] == [3, 3]
    assert [len(values) for values in merges.evidence.values] == [3]
    assert sorted(job.cell.seed for job in guests.booted) == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    prepared = case.prepare(write(claim(COST, MERGES)), session)
    before, after = prepared.seeds(prepared.experiments[0], 3)
    assert [task.cell.seed for task in before] == [1, 2, 3]
    assert [task.arm for task in after] == ["after"] * 3


def test_more_seeds_are_booted_for_what_is_open_alone(
    judged: Judge, session: FakeSession, guests: Guests
) -> None:
    session.profile = QUICK.model_copy(update={"seeds": 12})

    def says(job: Job) -> fakes.Answer:
        if job.task.arm == "before":
            return {"kernel_insns_per_io": 1000.0}
        noise = 20 * (job.cell.seed % 3 - 1) if job.cell.scheduler == "bfq" else 0
        return {"kernel_insns_per_io": 890.0 + noise}

    guests.says = says
    clear = claim(COST, name="clear").replace('"bfq"', '"none"')
    noisy, plain = judged(claim(COST) + clear)
    assert [len(values) for values in noisy.evidence.values] == [6, 6]
    assert [len(values) for values in plain.evidence.values] == [3, 3]
    assert (noisy.verdict, plain.verdict) == (Verdict.HOLDS, Verdict.HOLDS)


@pytest.mark.parametrize(
    ("spread", "gain", "verdict"),
    [(0.01, 0.04, Verdict.INCONCLUSIVE), (0.0001, 0.012, Verdict.HOLDS)],
    ids=["noisier than the workload says", "quieter"],
)
def test_one_seed_may_be_off_by_what_the_seeds_on_record_differ_by(
    judged: Judge,
    session: FakeSession,
    guests: Guests,
    write: Write,
    spread: float,
    gain: float,
    verdict: Verdict,
) -> None:
    """The workload says 0.5 %; of this very cell there are six seeds of another kernel."""
    seeds = itertools.count()
    guests.cost_of = lambda kernel: fakes.insns(f=1000.0 * (1 + spread * (next(seeds) % 3 - 1)))
    prepared = case.prepare(write(claim(COST)), session)
    (task, _) = prepared.tasks.values()
    session.outcomes([replace(task, kernel=fakes.kernel("other")).seeded(n) for n in range(1, 7)])
    guests.cost_of = lambda kernel: fakes.insns(
        f=1000.0 * (1 - gain) if is_patched(kernel) else 1000.0
    )
    (finding,) = judged(claim(COST))
    assert finding.verdict is verdict
    assert finding.evidence.noise == pytest.approx(spread * 2.57 * math.sqrt(2 * 0.8), rel=0.02)


def test_only_the_claims_that_are_wanted_are_judged_and_built_for(
    session: FakeSession, guests: Guests, write: Write
) -> None:
    both = [write(claim(IOPS), claim(MERGES, name="merges"), name=name) for name in ("own", "two")]
    judged = judge.judge(both, session, claims={("own", "merges")})
    assert [[f.experiment.claim for f in judged_series.findings] for judged_series in judged] == [
        ["merges"],
        [],
    ]
    assert [job.cell.counters for job in guests.booted] == [("stable_merges",)]
    assert not any("two" in name for name in session.requested)


def test_a_series_that_does_not_build_does_not_keep_others_from_their_verdicts(
    session: FakeSession, write: Write
) -> None:
    session.failing["0001-two.patch"] = BuildError("expected ;", where="blk-mq.c:1")
    judged = judge.judge([write(claim(IOPS), name=name) for name in ("two", "own")], session)
    assert [judged_series.series.name for judged_series in judged] == ["two", "own"]
    assert [judged_series.verdict() for judged_series in judged] == [Verdict.ERROR, Verdict.HOLDS]
    assert judged[0].error == "expected ;\n  where: blk-mq.c:1"
    assert judged[0].findings == ()


def test_a_series_that_is_not_well_formed_boots_and_builds_nothing(
    session: FakeSession, guests: Guests, write: Write
) -> None:
    wrong = write(claim(IOPS.replace("iops", "iopss")))
    with pytest.raises(UsageError, match="'iopss'"):
        case.prepare(wrong, session)
    (judged_series,) = judge.judge([wrong], session)
    assert "did you mean 'iops'" in judged_series.error
    assert (session.requested, guests.booted) == ([], [])


@pytest.mark.parametrize("expectation", [IOPS, COST, MERGES])
@pytest.mark.parametrize(
    ("patched", "outcome", "verdict"),
    [
        (True, "panic", Verdict.REFUTED),
        (True, "mismatch", Verdict.ERROR),
        (True, "died", Verdict.REFUTED),
        (False, "panic", Verdict.ERROR),
    ],
)
def test_a_failure_is_the_patches_when_only_they_can_be_the_cause(
    judged: Judge,
    guests: Guests,
    expectation: str,
    patched: bool,
    outcome: str,
    verdict: Verdict,
) -> None:
    def broken(job: Job) -> fakes.Answer:
        wrong = is_patched(job.task.kernel.id) == patched
        return GuestError(outcome, "BUG: x") if wrong else says(job)

    guests.says = broken
    (finding,) = judged(claim(expectation))
    counted_base = expectation == MERGES and not patched  # it needs no base kernel
    assert finding.verdict is (Verdict.HOLDS if counted_base else verdict)
    assert counted_base or "BUG: x" in finding.reason


@pytest.mark.parametrize("outcome", ["corrupt", "flooded", "endless"])
def test_a_patched_kernel_that_lies_is_refuted_and_the_other_claims_are_measured(
    session: FakeSession, guests: Guests, write: Write, outcome: str
) -> None:
    def lies(job: Job) -> fakes.Answer:
        forged = is_patched(job.task.kernel.id) and job.cell.scheduler == "bfq"
        return GuestError(outcome, "what nobody asked for") if forged else says(job)

    guests.says = lies
    honest = claim(COST, name="honest").replace('"bfq"', '"kyber"')
    (judged,) = judge.judge([write(claim(COST), honest)], session)
    lied, held = findings_of((judged,))
    assert lied.verdict is Verdict.REFUTED
    # Nothing holds of a kernel that lied elsewhere.
    assert held.verdict is Verdict.INCONCLUSIVE
    assert held.measured_change == pytest.approx(-0.1)
    assert f"{outcome} in 1 of 2 boots" in held.reason
    assert "the patched kernel breaks in arm after: what nobody asked for" in lied.reason


def test_work_that_moved_to_user_space_saves_nothing(judged: Judge, guests: Guests) -> None:
    def answer(job: Job) -> fakes.Answer:
        return {cost.USER: 2100.0 if is_patched(job.task.kernel.id) else 2000.0, cost.TIME: 7000.0}

    guests.says = answer
    (finding,) = judged(claim(COST))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.reason == "user space did other work: 2,000 and 2,100 instructions an I/O"


def test_when_both_arms_fail_it_is_the_labs_error(judged: Judge, guests: Guests) -> None:
    guests.says = lambda job: GuestError("panic", f"BUG in {job.task.arm}")
    (finding,) = judged(claim(COST))
    assert finding.verdict is Verdict.ERROR
    assert "BUG in before" in finding.reason


def test_without_a_whole_round_nothing_is_decided(judged: Judge, guests: Guests) -> None:
    guests.says = lambda job: {**says(job), **NOISE}
    (finding,) = judged(claim(IOPS))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.evidence.rejected == len(guests.booted) / 2
    assert "disturbed every round" in finding.reason


def test_the_same_kernel_under_two_names_is_not_booted(
    session: FakeSession, guests: Guests, write: Write
) -> None:
    patch_series = series.no_op(write(claim(IOPS, COST)))
    (timed, exact) = findings_of(judge.judge([patch_series], session))
    assert (timed.verdict, timed.measured_change) == (Verdict.REFUTED, 0.0)
    assert exact.verdict is Verdict.REFUTED
    assert guests.booted == []
    assert PATCHED not in session.requested


def test_what_holds_is_refuted_of_the_reversed_series(session: FakeSession, write: Write) -> None:
    patch_series = write(claim(IOPS, COST))
    assert verdicts(judge.judge([patch_series], session)) == [Verdict.HOLDS] * 2
    reverse = judge.judge([series.reverse(patch_series)], session)
    assert verdicts(reverse) == [Verdict.REFUTED] * 2
    assert findings_of(reverse)[0].evidence.values == ((150.0,) * 8, (100.0,) * 8)


def test_a_reversed_series_that_breaks_is_refuted_by_its_first_arm(
    session: FakeSession, guests: Guests, write: Write
) -> None:
    guests.says = lambda job: (
        GuestError("panic", "BUG: x") if is_patched(job.task.kernel.id) else says(job)
    )
    (finding,) = findings_of(judge.judge([series.reverse(write(claim(IOPS)))], session))
    assert finding.verdict is Verdict.REFUTED
    assert "in arm before" in finding.reason


def test_without_its_engine_nothing_is_built_or_booted(
    judged: Judge, session: FakeSession, guests: Guests
) -> None:
    session.engines = (Engine.EXACT,)
    (finding,) = judged(claim(IOPS))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.reason.startswith("needs the engine kvm or tcg")
    assert (session.requested, guests.booted) == (["6.12"], [])


def test_one_round_is_enough_where_the_host_cannot_answer_anyway(
    judged: Judge, guests: Guests
) -> None:
    (finding,) = judged(claim(f"{IOPS}needs_cpus = 16\n"))
    assert (finding.verdict, finding.reason) == (
        Verdict.INCONCLUSIVE,
        "needs 16 host CPUs, not 2",
    )
    assert len(guests.booted) == 2
    assert finding.measured_change == pytest.approx(0.5)


def test_nothing_that_is_wanted_boots_nothing(session: FakeSession, guests: Guests) -> None:
    assert judge.judge([], session) == ()
    assert guests.booted == []


def test_costs_by_function_are_on_record_for_what_was_judged(
    judged: Judge, session: FakeSession
) -> None:
    (finding,) = judged(claim(COST))
    before, after = (session.store.cost(ids[0]) for ids in finding.evidence.boots)
    assert before
    assert after
    (change,) = cost.changes([before], [after])
    assert (change.function, change.difference) == ("submit_bio", -100.0)
    assert math.isclose(finding.measured[1], after.kernel_total)


@pytest.mark.slow
@pytest.mark.parametrize(("outcome", "every"), [("hang", 5), ("panic", 8), ("died", 5)])
def test_a_kernel_that_breaks_now_and_then_never_holds(
    guests: Guests, write: Write, tmp_path: Path, outcome: str, every: int
) -> None:
    """60 labs, each looking twice: every so many boots of the patched kernel fail, then of both."""
    wanted = write(claim(IOPS))

    def looks(number: int, *, both: bool) -> list[Verdict]:
        fresh_session = FakeSession(
            EIGHT, BootStore(tmp_path / f"{both}-{number}"), engines=ENGINES
        )
        boots = {True: number % every, False: number // every % every}

        def now_and_then(job: Job) -> fakes.Answer:
            patched = is_patched(job.task.kernel.id)
            boots[patched] += 1
            fails = boots[patched] % every == 0 and (patched or both)
            return GuestError(outcome, "x") if fails else says(job)

        guests.says = now_and_then
        return [v for _ in range(2) for v in verdicts(judge.judge([wanted], fresh_session))]

    alone = [verdict for number in range(60) for verdict in looks(number, both=False)]
    assert len(alone) == 120
    assert Verdict.HOLDS not in alone
    alike = [verdict for number in range(60) for verdict in looks(number, both=True)]
    assert Verdict.REFUTED not in alike
    assert Verdict.HOLDS in alike


def test_what_a_kernel_complained_of_counts_although_its_guest_ended_well(
    judged: Judge, session: FakeSession, guests: Guests
) -> None:
    def complaining(job: Job) -> tuple[str, ...]:
        return ("WARNING in bfq_dispatch_request()",) if is_patched(job.task.kernel.id) else ()

    guests.complaints = complaining
    (finding,) = judged(claim(IOPS))
    assert finding.verdict is Verdict.REFUTED
    assert finding.reason.startswith("WARNING in bfq_dispatch_request() in 8 of 8 boots with")
    # It is not forgotten by a lab that looks again, and boots nothing.
    guests.complaints = lambda job: ()
    booted = len(guests.booted)
    assert verdicts(judge.judge([series.get("own")], session)) == [Verdict.REFUTED]
    assert len(guests.booted) == booted


def test_what_every_kernel_complains_of_is_not_held_against_the_patches(
    judged: Judge, guests: Guests
) -> None:
    guests.complaints = lambda job: ("WARNING in some_driver()",)
    (finding,) = judged(claim(IOPS))
    assert finding.verdict is Verdict.HOLDS
    assert "WARNING in some_driver() in 8 of 8 boots with the patches, in 8 of 8" in finding.reason


def test_each_series_is_told_as_soon_as_its_verdict_is_there(
    session: FakeSession, guests: Guests, write: Write
) -> None:
    """The one with fewer boots is first, and judged while the other one's kernels are built."""
    large, small = write(claim(COST, more="seeds = 3"), name="large"), write(claim(COST))
    reported: list[tuple[str, Verdict]] = []
    first = threading.Event()
    built: list[bool] = []

    def finished(judged: Judged) -> None:
        reported.append((judged.series.name, judged.verdict()))
        first.set()

    def building(patches: str) -> None:
        if "large" in patches:
            built.append(first.wait(20))

    before_kernels(session, building)
    judged = judge.judge([large, small], session, finished=finished)
    assert [judged_series.series.name for judged_series in judged] == ["large", "own"]
    assert reported == [("own", Verdict.HOLDS), ("large", Verdict.REFUTED)]
    assert built
    assert all(built)


def test_what_the_hosts_clock_times_waits_for_all_kernels_and_guests(
    session: FakeSession, guests: Guests, write: Write
) -> None:
    both = [write(claim(COST, IOPS)), write(claim(COST, IOPS, more="seeds = 3"), name="two")]
    last_kernel: list[int] = []

    def building(patches: str) -> None:
        last_kernel[:] = [sum(job.cell.engine is Engine.KVM for job in guests.booted)]

    before_kernels(session, building)
    reported: list[str] = []
    judge.judge(both, session, finished=lambda judged: reported.append(judged.series.name))
    engines = [job.cell.engine for job in guests.booted]
    assert engines == sorted(engines)
    assert last_kernel == [0]
    assert reported == ["own", "two"]


def test_an_interrupted_build_ends_the_guests_that_run_and_leaves_nothing_behind(
    session: FakeSession, guests: Guests, write: Write
) -> None:
    running, ended = threading.Event(), threading.Event()
    before = threading.enumerate()

    def on_boot() -> None:
        running.set()
        ended.wait(20)

    guests.on_boot = on_boot

    def building(patches: str) -> None:
        if "two" in patches:
            assert running.wait(20)
            threading.Timer(0.1, ended.set).start()
            raise KeyboardInterrupt

    before_kernels(session, building)
    two = write(claim(COST, more="seeds = 3"), name="two")
    with pytest.raises(KeyboardInterrupt):
        judge.judge([write(claim(COST)), two], session)
    assert [thread.name for thread in threading.enumerate() if thread not in before] == []
    booted = len(guests.booted)
    guests.on_boot = lambda: None
    again = judge.judge([series.get("own"), two], FakeSession(QUICK, engines=ENGINES))
    assert [judged_series.verdict() for judged_series in again] == [Verdict.HOLDS, Verdict.REFUTED]
    assert len(guests.booted) > booted


def test_an_engine_that_is_not_exact_ends_the_judging(
    session: FakeSession, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(determinism, "first_difference", lambda *_: "insns, line 2")
    two = [write(claim(COST), name=name) for name in ("own", "two")]
    with pytest.raises(LabError, match="does not repeat itself on this host: insns, line 2"):
        judge.judge(two, session)
