# SPDX-License-Identifier: GPL-2.0-or-later
"""Controls: whoever judges them wrongly is told so, one by one."""

from __future__ import annotations

import re

import guests as fakes
import pytest
from guests import FakeSession, Guests

from lab.base.errors import BuildError, GuestError
from lab.inputs import profile
from lab.inputs.terms import Engine, Verdict
from lab.measure import sim_counts
from lab.measure.job import Job
from lab.report import tables
from tools import planted

LAYER = 3486.0
# More requests than any control asks for.
MANY = 10_000.0
# What loses data, memory, or itself.
PROVED = {"use_after_free", "lost_write", "double_completion", "switch_deadlock", "stranded"}
# How guests end whose kernels have these patches.
FAULTS = {
    "lose-one-bio": GuestError("hang", "task fio blocked"),
    "look-at-what-was-freed": GuestError("panic", "KASAN: slab-use-after-free"),
    "lose-one-write": GuestError("failed", "verify: bad header"),
    "free-one-request-twice": GuestError("panic", "refcount_t: underflow"),
    "lock-what-is-locked": GuestError("hang", "possible recursive locking"),
    "run-only-the-hardware-queue": GuestError("hang", "task fio blocked"),
}
# What costs one CPU a few instructions, and many CPUs half of their throughput.
CONTENDED = {"count-all-bios-in-one-counter": 1.0, "take-the-lock-twice": 6.0}
# Which engine sees what: instructions the exact one, throughput the simulation.
SEEN = {
    "planted_twice": {"regression": Verdict.REFUTED, "throughput": Verdict.HOLDS},
    "shared_line": {"instructions": Verdict.HOLDS, "throughput": Verdict.REFUTED},
    "lock_twice": {"instructions": Verdict.HOLDS, "throughput": Verdict.REFUTED},
}


def numbers(job: Job) -> dict[str, float]:
    counted = dict.fromkeys(job.cell.counters, MANY)
    if not job.cell.engine.simulated:
        return counted
    iops = 50.0 if any(patch in job.task.kernel.id for patch in CONTENDED) else 100.0
    names = ("iops", *(sim_counts.variant("iops", scaled) for scaled in job.cell.variants))
    return counted | dict.fromkeys(names, iops)


@pytest.fixture
def session(guests: Guests) -> FakeSession:
    """Guests that behave as the controls' patches make them."""

    def more(kernel: str) -> float:
        match = re.search(r"execute-(\d+)-instructions", kernel)
        contended = (insns for patch, insns in CONTENDED.items() if patch in kernel)
        return float(match[1]) if match else sum(contended)

    def says(job: Job) -> fakes.Answer:
        for patch, error in FAULTS.items():
            if patch in job.task.kernel.id:
                return error
        return numbers(job)

    guests.cost_of = lambda kernel: fakes.insns(blk_mq_submit_bio=LAYER + more(kernel))
    guests.says = says
    return FakeSession(profile.get("quick"), engines=(Engine.TCG, Engine.EXACT, Engine.SIM))


def test_every_control_has_an_answer_and_patches_that_are_there() -> None:
    assert planted.names() == sorted(planted.EXPECTED)
    for name in planted.names():
        (patch,) = planted.control(name).patches("series")
        assert patch.read_text().startswith("From ")


@pytest.mark.slow
def test_guests_that_do_what_the_patches_say_get_the_right_verdicts(session: FakeSession) -> None:
    answers = planted.judge_controls(session)
    assert all(answer.right for answer in answers)
    by_name = {(answer.control, answer.claim): answer for answer in answers}
    assert by_name["planted_half", "regression"].verdict is Verdict.HOLDS
    for control, claims in SEEN.items():
        for claim, verdict in claims.items():
            assert by_name[control, claim].verdict is verdict
    assert "task fio blocked" in by_name["hangs", "regression"].reason
    assert by_name["renamed_lock", "lock"].verdict is Verdict.REFUTED
    shown = tables.text(planted.table(answers))
    assert "WRONG" not in shown
    assert re.search(r"nothing: 0 of 8 comparisons called a change: a rate of 0\.0 to 3\d", shown)


@pytest.mark.slow
def test_a_lab_that_forgives_a_hang_and_believes_in_nothing_is_wrong(
    session: FakeSession, guests: Guests
) -> None:
    guests.says = numbers
    wrong = [answer for answer in planted.judge_controls(session) if not answer.right]
    assert {answer.control for answer in wrong} == {"hangs", *PROVED}
    assert tables.text(planted.table(wrong)).count("WRONG") == 1 + len(PROVED)


@pytest.mark.slow
def test_a_control_that_does_not_build_is_no_answer(session: FakeSession) -> None:
    (patch,) = planted.control("planted_twice").patches("series")
    session.failing[patch.name] = BuildError("expected ;")
    (wrong,) = [answer for answer in planted.judge_controls(session) if not answer.right]
    assert (wrong.control, wrong.verdict) == ("planted_twice", Verdict.ERROR)
    assert "expected ;" in wrong.reason
