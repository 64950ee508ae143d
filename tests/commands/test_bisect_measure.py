# SPDX-License-Identifier: GPL-2.0-or-later
"""What a bisection measures by: exact where it can be, and wall clock with its errors bounded."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import guests as fakes
import pytest
from guests import FakeSession, Guests

from lab.base.errors import BuildError, GuestError, LabError, UsageError
from lab.commands import bisect_search
from lab.commands.bisect_measure import (
    ByCounter,
    ByFunction,
    ByTime,
    CommitMeasure,
    CommitTree,
    of_cell,
    of_claim,
)
from lab.inputs import profile
from lab.inputs.terms import Engine
from lab.measure.boot_store import StoredBoot
from lab.measure.cell import Task
from lab.measure.cost import Cost
from lab.measure.runner import Rounds, Runner

QUICK = profile.get("quick")
EXACT = fakes.planned(fakes.cell("nullb_mq", "none", engine=Engine.EXACT, cpus=1))
COUNTED = fakes.planned(fakes.cell(engine=Engine.EXACT, counters=("lock_acquisitions",)))
TIMED = fakes.planned(fakes.cell("raid64", work="seqread_streams"))

Speed = float | GuestError


class Pairs(Runner):
    """Rounds of kernels that are as fast as they are told to be, give or take some noise.

    As in the store, the rounds of the same arms are there when they are asked for again.
    """

    speeds: dict[str, Speed]
    spread: float
    noise: random.Random
    known: dict[tuple[str, ...], list[dict[str, StoredBoot]]]
    rounds_run: int

    def rounds(
        self,
        tasks: Sequence[Task],
        most: int,
        decided: Callable[[Rounds], bool] = lambda rounds: False,
    ) -> Rounds:
        known = self.known.setdefault(tuple(task.kernel.id for task in tasks), [])
        for task in tasks:
            speed = self.speeds[re.sub(r"#\d+", "", task.kernel.id)]
            if isinstance(speed, GuestError):
                return Rounds({each.arm: () for each in tasks}, 0, task.arm, speed)
        while True:
            rounds = Rounds({t.arm: tuple(boots[t.arm] for boots in known) for t in tasks})
            if len(known) >= most or decided(rounds):
                return rounds
            self.rounds_run += 1
            known.append({task.arm: self._pair(task) for task in tasks})

    def _pair(self, task: Task) -> StoredBoot:
        speed = self.speeds[re.sub(r"#\d+", "", task.kernel.id)]
        assert isinstance(speed, float)
        value = speed * math.exp(self.noise.gauss(0, self.spread))
        return StoredBoot("boot", task.kernel.id, "r", 1.0, 1.0, {}, {"iops": value})


@dataclass
class TimedSession(FakeSession):
    """A session whose rounds are Pairs."""

    speeds: dict[str, Speed] = field(default_factory=lambda: {"good": 1000.0, "bad": 800.0})

    def __post_init__(self) -> None:
        self.pairs = Pairs(self.check_engines(), self.store, self.progress)
        self.pairs.speeds, self.pairs.spread = self.speeds, 0.02
        self.pairs.noise, self.pairs.known, self.pairs.rounds_run = random.Random(1), {}, 0

    @contextmanager
    def measuring(self, tasks: Sequence[Task]) -> Iterator[Runner]:
        yield self.pairs

    def measure(self, decisions: int = 1) -> ByTime:
        return ByTime(tree(self), TIMED, 0.05, "iops", decisions)


def tree(session: FakeSession) -> CommitTree:
    """Commits of a repository, built in a session."""
    return CommitTree(Path("/linux"), session)


@pytest.fixture
def session() -> FakeSession:
    return FakeSession(QUICK)


@pytest.fixture
def timed() -> TimedSession:
    return TimedSession(QUICK)


@pytest.fixture
def by_time(timed: TimedSession) -> ByTime:
    """A measure by time that knows its two ends."""
    measure = timed.measure()
    measure.compare("good", "bad")
    return measure


def test_time_tells_commits_that_are_like_one_end(timed: TimedSession, by_time: ByTime) -> None:
    timed.speeds |= {"early": 1003.0, "late": 795.0}
    values = [by_time.value(commit) for commit in ("good", "early", "late", "bad")]
    assert values[0] == 0.0
    assert [bool(value and value < math.log(0.9)) for value in values] == [False] * 2 + [True] * 2
    assert by_time.shown(math.log(0.8)) == "iops -20.0 %"
    assert by_time.conclusion("good", "bad").startswith("iops +0.0 % -> iops -")


def test_a_commit_that_executes_the_same_is_not_booted(
    timed: TimedSession, by_time: ByTime
) -> None:
    before = timed.pairs.rounds_run
    timed.codes |= {"comment": "good", "typo": "bad"}
    assert by_time.value("comment") == 0.0
    assert by_time.value("typo") == by_time.value("bad")
    assert timed.pairs.rounds_run == before


@pytest.mark.slow
def test_what_cannot_be_told_is_skipped_and_seldom_called_wrongly(
    timed: TimedSession, by_time: ByTime
) -> None:
    """A commit half-way is neither: at the level alpha it may be called, else not."""
    whole = by_time.value("bad")
    assert whole is not None
    timed.speeds["half"] = 1000.0 * math.exp(whole / 2)
    timed.pairs.spread = 0.1
    called = sum(by_time.value(f"half#{number}") is not None for number in range(300))
    # alpha = 5 %: 15 of 300 at most on average; more than 28 once in 1,000 trials.
    assert called <= 28
    assert "the rounds of this profile do not tell" in timed.said


def test_rounds_are_added_until_they_tell_or_the_profile_has_no_more(
    timed: TimedSession, by_time: ByTime
) -> None:
    timed.speeds["half"] = 1000.0 * math.sqrt(0.8)
    assert by_time.value("half") is None
    ends, half = (len(rounds) for rounds in timed.pairs.known.values())
    assert 6 <= ends < QUICK.rounds
    assert half == QUICK.rounds
    assert timed.pairs.rounds_run == ends + half


def test_more_decisions_want_more_rounds(timed: TimedSession) -> None:
    timed.measure(1).compare("good", "bad")
    few = timed.pairs.rounds_run
    timed.pairs.known.clear()
    timed.measure(30).compare("good", "bad")
    assert timed.pairs.rounds_run - few > few


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (1000.0, "cannot be told apart"),
        (1200.0, "nothing to find.*-[12]"),
        (970.0, "nothing to find.*differ by more than 5 %"),
        (GuestError("panic", "BUG"), "the bad end fails"),
    ],
    ids=["equal", "faster", "little", "broken"],
)
def test_ends_that_are_no_regression_are_refused(
    timed: TimedSession, bad: Speed, message: str
) -> None:
    timed.speeds["bad"] = bad
    timed.pairs.spread = 0.001
    with pytest.raises(LabError) as caught:
        timed.measure().compare("good", "bad")
    assert re.search(message, str(caught.value), re.DOTALL)


def test_broken_commits_are_skipped_and_a_broken_good_end_is_an_error(
    timed: TimedSession, by_time: ByTime
) -> None:
    timed.speeds["panics"] = GuestError("panic", "BUG")
    timed.failing["broken"] = BuildError("expected ;")
    assert by_time.value("panics") is None
    assert by_time.value("broken") is None
    timed.speeds |= {"good": GuestError("panic", "BUG"), "other": 1.0}
    with pytest.raises(LabError, match="good end"):
        by_time.value("other")


def test_rounds_of_guests_tell_a_commit_too(guests: Guests) -> None:
    """The same, but by the real runner, whose store has the rounds of earlier looks."""
    speeds = {"good": 1000.0, "mid": 1000.0, "bad": 800.0}
    guests.says = lambda job: {"iops": speeds[job.task.kernel.id] + len(guests.booted) % 3}
    by_time = ByTime(tree(FakeSession(QUICK, engines=(Engine.KVM,))), KVM, 0.05, "iops", 1)
    by_time.compare("good", "bad")
    ends = len(guests.booted)
    assert by_time.value("mid") == pytest.approx(0.0, abs=0.01)
    booted = len(guests.booted)
    assert booted > ends
    by_time.compare("good", "bad")
    assert len(guests.booted) == booted


KVM = fakes.planned(fakes.cell("raid64", work="seqread_streams", engine=Engine.KVM))
COSTS = {
    "good": {"submit_bio": 100.0, "free": 900.0},
    "like_good": {"submit_bio": 100.0, "free": 500.0},
    "like_bad": {"submit_bio": 120.0, "free": 700.0},
    "bad": {"submit_bio": 120.0, "free": 900.0},
}


@pytest.fixture
def functions(guests: Guests, session: FakeSession) -> ByFunction:
    """A measure of commits that cost what COSTS says."""
    guests.cost_of = lambda kernel: fakes.insns(**COSTS[kernel]) if kernel in COSTS else None
    return ByFunction(tree(session), EXACT, 0.0025)


def test_functions_that_the_ends_do_not_differ_in_do_not_count(functions: ByFunction) -> None:
    functions.compare("good", "bad")
    values = [functions.value(commit) for commit in COSTS]
    assert values == [100.0, 100.0, 120.0, 120.0]
    assert functions.shown(120.0) == "120.00 insns/I/O"
    assert functions.conclusion("good", "bad") == "100.00 insns/I/O -> 120.00 insns/I/O"
    (change,) = functions.changes("good", "bad")
    assert [row.function for row in change.functions] == ["submit_bio"]
    assert change.change == pytest.approx(0.02)


def test_a_bisection_by_function_finds_the_commit(functions: ByFunction) -> None:
    line = [*COSTS]
    functions.compare(line[0], line[-1])
    result = bisect_search.search(line, functions.value)
    assert (result.suspects, result.last_good) == (("like_bad",), "like_good")


def test_a_commit_takes_one_boot_and_the_ends_one_for_each_seed(
    functions: ByFunction, guests: Guests
) -> None:
    functions.compare("good", "bad")
    ends = len(guests.booted)
    assert ends == 2 * (3 + 3)  # what was found is asked again
    functions.value("like_bad")
    functions.value("good")
    functions.changes("good", "bad")
    assert len(guests.booted) == ends + 1


@pytest.mark.slow
def test_a_change_that_no_function_surely_has_is_looked_for_in_the_block_layer(
    functions: ByFunction, guests: Guests
) -> None:
    """Forty functions whose work is chance, each costs a little more at the bad end."""
    numbers = random.Random(1)

    def cost_of(kernel: str) -> Cost:
        more = {"good": 0.0, "like_good": 0.1, "middle": 1.3, "like_bad": 2.0, "bad": 2.0}[kernel]
        return fakes.insns(**{f"f{n}": 100 + more + numbers.gauss(0, 0.5) for n in range(40)})

    guests.cost_of = cost_of
    functions.compare("good", "bad")
    booted = len(guests.booted)
    line = ("good", "like_good", "middle", "like_bad", "bad")
    values = [functions.value(commit) for commit in line]
    assert all(value is not None and value > 4000 - 40 for value in values)
    assert len(guests.booted) - booted >= 3 + 1 + 1  # between the ends one seed does not tell
    result = bisect_search.search(line, functions.value)
    assert result.suspects == ("middle",)


@pytest.mark.parametrize(
    ("good", "bad", "error", "message"),
    [
        ("good", "good", None, "nothing to find"),
        ("bad", "good", None, r"nothing to find: the bad end is worse by -1\.961 %"),
        ("good", "broken", GuestError("panic", "BUG"), "the bad end cannot be measured"),
        ("broken", "bad", GuestError("panic", "BUG"), "failed: BUG"),
        ("good", "broken", GuestError("died", "QEMU ended"), "failed: QEMU ended"),
    ],
)
def test_ends_that_functions_cannot_tell_apart_are_refused(
    functions: ByFunction,
    guests: Guests,
    good: str,
    bad: str,
    error: GuestError | None,
    message: str,
) -> None:
    guests.says = lambda job: error if error and job.task.kernel.id == "broken" else {}
    with pytest.raises(LabError, match=message):
        functions.compare(good, bad)


def test_commits_that_do_not_build_or_boot_have_no_cost(
    functions: ByFunction, session: FakeSession, guests: Guests
) -> None:
    functions.compare("good", "bad")
    session.failing["unbuilt"] = BuildError("expected ;")
    guests.says = lambda job: GuestError("panic", "BUG: x")
    assert functions.value("unbuilt") is None
    assert functions.value("panics") is None
    assert "skipped: expected ;" in session.said
    assert "skipped: BUG: x" in session.said


def test_counters_may_differ_in_either_direction(guests: Guests, session: FakeSession) -> None:
    counts: dict[str, fakes.Answer] = {
        "good": {"lock_acquisitions": 1.25},
        "bad": {"lock_acquisitions": 2.13},
        "panics": GuestError("panic", "BUG"),
    }
    guests.says = lambda job: counts[job.task.kernel.id]
    by_counter = ByCounter(tree(session), COUNTED, 0.05, "lock_acquisitions")
    by_counter.compare("good", "bad")
    by_counter.compare("bad", "good")
    assert [by_counter.value("good"), by_counter.value("bad")] == [1.25, 2.13]
    assert by_counter.shown(2.13) == "2.13 acquisitions/request"
    assert by_counter.conclusion("good", "bad") == (
        "1.25 acquisitions/request -> 2.13 acquisitions/request"
    )
    assert by_counter.value("panics") is None
    with pytest.raises(LabError, match="nothing to find"):
        by_counter.compare("good", "good")


@pytest.mark.parametrize(
    ("make", "text", "timed", "kind"),
    [
        (of_cell, "nullb_mq/none/randread_burst", False, ByFunction),
        (of_cell, "nullb_mq/none/randread_burst", True, ByTime),
        (of_cell, "megasas/bfq/randread_burst", False, ByFunction),
        (of_cell, "raid64/bfq/dbench_xfs", False, ByTime),
        (of_claim, "sq_batch_dispatch/deadline_lock", False, ByCounter),
        (of_claim, "sq_batch_dispatch/deadline_lock/kernel_insns_per_io", False, ByFunction),
        (of_claim, "bfq_burst_merge/randread_throughput", True, ByTime),
    ],
)
def test_cells_and_claims_are_measured_exactly_where_that_can_be(
    session: FakeSession, make: Callable[..., CommitMeasure], text: str, timed: bool, kind: type
) -> None:
    assert type(make(text, tree(session), None, 5, timed=timed)) is kind


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ("sq_batch_dispatch/deadline_lok", "deadline_lock"),
        ("sq_batch_dispatch/deadline_lock/p99", "another claim, metric or profile"),
    ],
)
def test_a_claim_that_cannot_be_measured_is_the_users_error(
    session: FakeSession, claim: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        of_claim(claim, tree(session), None, 5, timed=False)
    assert message in str(caught.value)
