# SPDX-License-Identifier: GPL-2.0-or-later
"""What a bisection measures by: exact where it can be, and host time with its errors bounded."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from examples import HOST

from lab.base.errors import BuildError, GuestError, LabError, UsageError
from lab.base.progress import Progress
from lab.build.kernel import Kernel
from lab.commands import bisect_measure
from lab.commands.bisect_measure import ByCounter, ByFunction, ByTime, CommitMeasure, Tree
from lab.inputs import profile
from lab.inputs.terms import Engine
from lab.measure import session
from lab.measure.boot_store import BootStore, Stored
from lab.measure.cell import Cell
from lab.measure.host import EngineReport
from lab.measure.runner import Outcome, Rounds, Runner, Task, Testbed

CELL = Cell("raid64", "bfq", "seqread_streams", (), Engine.TCG)
COUNTED = replace(CELL, engine=Engine.ICOUNT, counters=("lock_acquisitions",))
KERNEL = Kernel("", "6.12", "tree", (), "gcc")


class Fake:
    """Kernels named by their commits, and guests that are as fast as they are told to be."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.speeds: dict[str, float | BaseException] = {"good": 1000.0, "bad": 800.0}
        self.codes: dict[str, str] = {}
        self.noise = random.Random(1)
        self.spread = 0.02
        self.rounds_run = 0
        engines = tuple(EngineReport(e, e is not Engine.KVM, "refused") for e in Engine)
        guest: Any = None
        testbed = Testbed(KERNEL, KERNEL, guest, replace(HOST, engines=engines))
        monkeypatch.setattr(session, "prepare", lambda *_, **__: testbed)
        monkeypatch.setattr(session, "prepare_kernel", self._kernel)
        monkeypatch.setattr(session, "measuring", lambda *_, **__: nullcontext())
        monkeypatch.setattr(Runner, "rounds", self._rounds)
        monkeypatch.setattr(Runner, "all", self._all)
        own = profile.get("quick")
        self.tree = Tree(folder, own, (), BootStore(folder / "results"), Progress())

    def time(self, decisions: int = 1) -> ByTime:
        return ByTime(self.tree, CELL, 0.05, "iops", decisions)

    def _kernel(self, spec: str, *_: object) -> Kernel:
        commit = spec.rpartition("@")[2]
        if isinstance(self.speeds.get(commit), BuildError):
            raise self.speeds[commit]  # type: ignore[misc]
        made = replace(KERNEL, id=commit)
        made.__dict__["code"] = self.codes.get(commit, commit)
        return made

    def _boot(self, task: Task) -> Stored:
        speed = self.speeds[task.kernel.id]
        if isinstance(speed, BaseException):
            raise speed
        value = speed * math.exp(self.noise.gauss(0, self.spread))
        metric = task.cell.counters[0] if task.cell.counters else "iops"
        return Stored("boot", "ok", "", 1.0, {metric: value}, {})

    def _rounds(self, tasks: Sequence[Task], wanted: int) -> Rounds:
        self.rounds_run += wanted
        boots = {}
        for task in tasks:
            try:
                boots[task.cell.arm] = tuple(self._boot(task) for _ in range(wanted))
            except GuestError as exc:
                return Rounds({}, 0, task.cell.arm, exc)
        return Rounds(boots)

    def _all(self, tasks: Sequence[Task], boots: int, *, sealed: bool) -> list[Outcome]:
        try:
            return [Outcome(task.cell, (self._boot(task),)) for task in tasks]
        except GuestError as exc:
            return [Outcome(tasks[0].cell, (), exc)]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    return Fake(tmp_path, monkeypatch)


def test_host_time_tells_commits_that_are_like_one_end(fake: Fake) -> None:
    fake.speeds |= {"early": 1003.0, "late": 795.0}
    own = fake.time()
    own.compare("good", "bad")
    values = [own.value(commit) for commit in ("good", "early", "late", "bad")]
    assert values[0] == 0.0
    assert [value is not None and value < math.log(0.9) for value in values] == [
        *(False, False, True, True)
    ]
    assert own.shown(math.log(0.8)) == "iops -20.0 %"


def test_a_commit_that_executes_the_same_is_not_booted(fake: Fake) -> None:
    own = fake.time()
    own.compare("good", "bad")
    before = fake.rounds_run
    fake.speeds |= {"comment": 1000.0, "typo": 800.0}
    fake.codes |= {"comment": "good", "typo": "bad"}
    assert own.value("comment") == 0.0
    assert own.value("typo") == own.value("bad")
    assert fake.rounds_run == before


def test_what_cannot_be_told_is_skipped_and_seldom_called_wrongly(fake: Fake) -> None:
    """A commit half-way is neither: at the level alpha it may be called, else not."""
    own = fake.time()
    own.compare("good", "bad")
    whole = own.value("bad")
    assert whole is not None
    fake.speeds["half"] = 1000.0 * math.exp(whole / 2)
    fake.spread = 0.1
    called = sum(own.value("half") is not None for _ in range(300))
    # alpha = 5 %, shared by two looks: 15 of 300 on average; more than 28 once in 1,000 trials.
    assert called <= 28


def test_more_decisions_want_more_rounds(fake: Fake) -> None:
    fake.time(1).compare("good", "bad")
    few = fake.rounds_run
    fake.time(10).compare("good", "bad")
    assert fake.rounds_run - few > few


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
    fake: Fake, bad: float | BaseException, message: str
) -> None:
    fake.speeds["bad"] = bad
    fake.spread = 0.001
    with pytest.raises(LabError) as caught:
        fake.time().compare("good", "bad")
    assert re.search(message, str(caught.value), re.DOTALL)


def test_broken_commits_are_skipped_and_a_broken_good_end_is_an_error(fake: Fake) -> None:
    own = fake.time()
    own.compare("good", "bad")
    fake.speeds |= {"panics": GuestError("panic", "BUG"), "broken": BuildError("expected ;")}
    assert own.value("panics") is None
    assert own.value("broken") is None
    fake.speeds |= {"good": GuestError("panic", "BUG"), "other": 1.0}
    with pytest.raises(LabError, match="good end"):
        own.value("other")


def test_counters_may_differ_in_either_direction(fake: Fake) -> None:
    fake.spread = 0
    fake.speeds |= {"good": 1.25, "bad": 2.13, "panics": GuestError("panic", "BUG")}
    own = ByCounter(fake.tree, COUNTED, 0.05, "lock_acquisitions")
    own.compare("good", "bad")
    own.compare("bad", "good")
    assert own.shown(2.13) == "2.13 acquisitions/request"
    assert own.value("panics") is None
    with pytest.raises(LabError, match="nothing to find"):
        own.compare("good", "good")


@pytest.mark.parametrize(
    ("make", "text", "timed", "kind"),
    [
        (bisect_measure.of_cell, "nullb_mq/none/randread_burst", False, ByFunction),
        (bisect_measure.of_cell, "nullb_mq/none/randread_burst", True, ByTime),
        (bisect_measure.of_cell, "megasas/bfq/randread_burst", False, ByTime),
        (bisect_measure.of_cell, "raid64/bfq/dbench_xfs", False, ByTime),
        (bisect_measure.of_claim, "sq_batch_dispatch/deadline_lock", False, ByCounter),
        (
            bisect_measure.of_claim,
            "sq_batch_dispatch/deadline_lock/kernel_insns_per_io",
            False,
            ByFunction,
        ),
        (bisect_measure.of_claim, "bfq_burst_merge/randread_throughput", True, ByTime),
    ],
)
def test_cells_and_claims_are_measured_exactly_where_that_can_be(
    fake: Fake, make: Callable[..., CommitMeasure], text: str, timed: bool, kind: type
) -> None:
    assert type(make(text, fake.tree, None, 5, timed=timed)) is kind


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ("sq_batch_dispatch/deadline_lok", "deadline_lock"),
        ("sq_batch_dispatch/deadline_lock/p99", "another claim, metric or profile"),
    ],
)
def test_a_claim_that_cannot_be_measured_is_the_users_error(
    fake: Fake, claim: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        bisect_measure.of_claim(claim, fake.tree, None, 5, timed=False)
    assert message in str(caught.value)
