# SPDX-License-Identifier: GPL-2.0-or-later
"""Which boots are run, in which order, and which of them count."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import guests as fakes
import pytest
from guests import Guests

from lab.base import host_time
from lab.base.errors import GuestError
from lab.base.progress import Progress
from lab.guest.host_noise import LIMITS, PREFIX
from lab.guest.retries import ATTEMPTS
from lab.inputs.terms import Engine
from lab.measure.boot_store import BootStore
from lab.measure.cell import Cell, Task
from lab.measure.job import resolve
from lab.measure.runner import Rounds, Runner
from lab.measure.tally import Tally

# Starts a runner as the lab has it after it was started again.
Fresh = Callable[..., Runner]
NOISE = {f"{PREFIX}steal": LIMITS["steal"] + 1}


def task(arm: str = "stock", of: Cell | None = None, kernel: str = "base") -> Task:
    """A task on a kernel with this name."""
    return Task(cell=of or fakes.cell(), kernel=fakes.kernel(kernel), arm=arm)


def pair(engine: Engine = Engine.KVM) -> list[Task]:
    """Two kernels as arms. Guests under KVM cannot take turns: each runs to its end, in order."""
    return three(engine)[:2]


def three(engine: Engine = Engine.KVM) -> list[Task]:
    """Three arms, of which the first and the last are the same kernel."""
    kernels = (("A", "base"), ("B", "patched"), ("C", "base"))
    return [task(arm, fakes.cell(engine=engine), kernel) for arm, kernel in kernels]


def two_schedulers(engine: Engine = Engine.TCG) -> list[Task]:
    """Two cells on one kernel."""
    return [task(of=fakes.cell(scheduler=name, engine=engine)) for name in ("bfq", "none")]


@pytest.fixture
def store(tmp_path: Path) -> BootStore:
    return BootStore(tmp_path / "results")


@pytest.fixture
def fresh(guests: Guests, store: BootStore, quiet: Progress) -> Fresh:
    def start(memory_gib: float = 8, progress: Progress = quiet) -> Runner:
        testbed = fakes.checked_testbed(fakes.kernel("base"), memory_gib=memory_gib)
        return Runner(testbed, store, progress)

    return start


@pytest.fixture
def runner(fresh: Fresh) -> Runner:
    return fresh()


def iops(rounds: Rounds) -> dict[str, list[float]]:
    return {arm: [boot.values["iops"] for boot in boots] for arm, boots in rounds.boots.items()}


def on_record(store: BootStore) -> list[tuple[str, str]]:
    """Arm and outcome of every boot that was written down."""
    return store.rows("SELECT arm, outcome FROM boots ORDER BY rowid")


def failure(outcome: str) -> GuestError:
    return GuestError(outcome, "BUG: x")


def test_everything_is_booted_once_then_everything_twice(runner: Runner, guests: Guests) -> None:
    outcomes = runner.all(two_schedulers(), 2)
    assert guests.schedulers == ["bfq", "none"] * 2
    assert [(o.task, len(o.boots), o.error) for o in outcomes] == [
        (task, 2, None) for task in two_schedulers()
    ]


def test_only_what_is_missing_is_booted(fresh: Fresh, runner: Runner, guests: Guests) -> None:
    runner.all(two_schedulers()[:1], 2)
    outcomes = fresh().all(two_schedulers(), 3)
    assert guests.schedulers == ["bfq"] * 2 + ["bfq", "none"] + ["none"] * 2
    assert [len(outcome.boots) for outcome in outcomes] == [3, 3]
    fresh().all(two_schedulers()[::-1], 3)
    assert len(guests.booted) == 6


def test_nothing_to_do_boots_nothing(runner: Runner, guests: Guests) -> None:
    assert runner.all([], 3) == []
    assert guests.booted == []


def test_equal_tasks_are_run_once_and_answer_for_each(runner: Runner, guests: Guests) -> None:
    outcomes = runner.all(three())
    assert guests.arms == "AB"
    assert [outcome.task.arm for outcome in outcomes] == ["A", "B", "C"]
    assert outcomes[0].boots == outcomes[2].boots


def test_boots_that_measure_host_time_are_never_side_by_side(
    runner: Runner, guests: Guests
) -> None:
    runner.all([*pair(), two_schedulers()[1]], 2)
    assert guests.together == 1


@pytest.mark.parametrize("engine", [Engine.EXACT, Engine.SIM])
def test_deterministic_boots_run_side_by_side_on_a_cpu_of_the_host_each(
    fresh: Fresh, engine: Engine, guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3})
    both = threading.Barrier(2, timeout=10)
    guests.on_boot = both.wait
    assert len(fresh().all(pair(engine))) == 2
    assert guests.together == 2
    assert sorted(guests.host_cpus, key=str) == [0, 3]


def test_deterministic_boots_that_memory_does_not_hold_wait_for_each_other(
    fresh: Fresh, guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    both = threading.Barrier(2, timeout=10)
    guests.on_boot = both.wait
    deterministic = fakes.cell(engine=Engine.EXACT)
    tasks = [task(of=deterministic, kernel=str(number)) for number in range(6)]
    size = resolve(tasks[0], fakes.checked_testbed(fakes.kernel("base"))).machine.memory_mib
    outcomes = fresh(1 + 2.5 * size / 1024).all(tasks)
    assert all(outcome.boots for outcome in outcomes)
    assert guests.together == 2


def test_a_guest_that_this_host_cannot_hold_fails_alone(fresh: Fresh, guests: Guests) -> None:
    clients = fakes.cell("raid64", work="dbench_xfs", parameters={"clients": 512})
    runner = fresh(8)
    large, usual = runner.all([task(of=clients), two_schedulers()[1]])
    assert large.error
    assert large.error.outcome == "mismatch"
    assert "needs 17.0 GiB of memory, and this host has 7.0 GiB" in str(large.error)
    assert len(usual.boots) == 1


def test_a_guest_that_fails_is_reported_and_the_others_are_measured(
    runner: Runner, guests: Guests, store: BootStore
) -> None:
    guests.answers[0] = failure("panic")
    broken, good = runner.all(two_schedulers())
    assert broken.error is guests.answers[0]
    assert broken.boots == ()
    assert (len(good.boots), good.error) == (1, None)
    assert [outcome for _, outcome in on_record(store)] == ["panic", "ok"]


def test_a_qemu_that_failed_says_nothing_of_the_guest(runner: Runner, guests: Guests) -> None:
    guests.answers = {
        number: failure(("died", "lost")[number % 2]) for number in range(ATTEMPTS - 1)
    }
    (outcome,) = runner.all(two_schedulers()[:1])
    assert len(guests.booted) == ATTEMPTS
    assert (len(outcome.boots), outcome.error) == (1, None)


@pytest.mark.parametrize("outcome", ["died", "lost"])
def test_a_qemu_that_always_fails_is_an_error(runner: Runner, guests: Guests, outcome: str) -> None:
    guests.answers = {number: failure(outcome) for number in range(9)}
    (failed,) = runner.all(two_schedulers()[:1])
    assert len(guests.booted) == ATTEMPTS
    assert failed.error
    assert failed.error.outcome == outcome


def test_a_hang_is_the_kernels_when_it_comes_again(runner: Runner, guests: Guests) -> None:
    guests.answers[0] = failure("hang")
    (once,) = runner.all(two_schedulers()[:1])
    assert (len(guests.booted), len(once.boots), once.error) == (2, 1, None)
    guests.answers = {2: failure("hang"), 3: failure("died"), 4: failure("hang")}
    (again,) = runner.all(two_schedulers()[1:])
    assert len(guests.booted) == 5
    assert again.error
    assert again.error.outcome == "hang"


@pytest.mark.parametrize("outcome", ["hang", "panic", "failed", "died"])
def test_a_failure_spoils_its_round_and_stays_on_record(
    runner: Runner, guests: Guests, store: BootStore, outcome: str
) -> None:
    guests.answers[1] = failure(outcome)
    rounds = runner.rounds(pair(), 3)
    assert guests.arms == "AB" + "ABBAAB"
    assert iops(rounds) == {"A": [102, 105, 106], "B": [103, 104, 107]}
    assert (rounds.complete, rounds.error, rounds.rejected) == (3, None, 0)
    ends = store.ends([kernel.id for kernel in {task.kernel for task in pair()}])
    assert (ends.boots, ends.failures) == (8, {outcome: 1})


def test_rounds_that_fail_one_after_the_other_are_an_error(runner: Runner, guests: Guests) -> None:
    guests.answers = {3: failure("hang"), 4: failure("panic"), 7: failure("hang")}
    rounds = runner.rounds(pair(), 3)
    assert len(guests.booted) == 8
    assert (rounds.complete, rounds.failed_arm, rounds.error) == (1, "A", guests.answers[7])


FINAL = [(outcome, Engine.TCG) for outcome in ("panic", "failed", "mismatch", "garbled")]


@pytest.mark.parametrize(("outcome", "engine"), [*FINAL, ("hang", Engine.EXACT)])
def test_any_other_failure_and_each_of_a_deterministic_guest_is_final(
    runner: Runner, guests: Guests, outcome: str, engine: Engine
) -> None:
    guests.answers[0] = failure(outcome)
    (failed,) = runner.all([task(of=fakes.cell(engine=engine))])
    assert failed.error is guests.answers[0]
    assert len(guests.booted) == 1


def test_a_kernel_too_old_for_a_topology_is_not_booted(runner: Runner, guests: Guests) -> None:
    new, unchanged = two_schedulers()
    old = replace(new, kernel=replace(new.kernel, release="5.10.262"))
    refused, usual = runner.all([old, unchanged])
    assert refused.error
    assert "it takes Linux 5.19 or newer" in refused.error.what
    assert (len(usual.boots), len(guests.booted)) == (1, 1)


def test_an_interruption_keeps_what_was_finished(
    fresh: Fresh, runner: Runner, guests: Guests, store: BootStore
) -> None:
    guests.answers[2] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        runner.all(two_schedulers(), 2)
    kept = [outcome for _, outcome in on_record(store)].count("ok")
    assert kept >= 2
    before = len(guests.booted)
    outcomes = fresh().all(two_schedulers(), 2)
    assert [len(outcome.boots) for outcome in outcomes] == [2, 2]
    assert len(guests.booted) == before + 4 - kept


def test_rounds_end_when_they_decide_and_go_on_when_they_do_not(
    fresh: Fresh, guests: Guests
) -> None:
    def three(rounds: Rounds) -> bool:
        return rounds.complete >= 3

    assert fresh().rounds(pair(), 8, three).complete == 3
    assert fresh().rounds(pair(), 8, three).complete == 3
    assert len(guests.booted) == 2 * 3
    assert fresh().rounds(pair(), 4).complete == 4
    assert len(guests.booted) == 2 * 4


def test_rounds_begin_with_either_arm_in_turn(runner: Runner, guests: Guests) -> None:
    rounds = runner.rounds(pair(), 4)
    assert guests.arms == "ABBAABBA"
    assert iops(rounds) == {"A": [100, 103, 104, 107], "B": [101, 102, 105, 106]}
    assert (rounds.complete, rounds.rejected, rounds.failed_arm, rounds.error) == (4, 0, "", None)


def test_rounds_of_three_arms_are_run_there_and_back(runner: Runner, guests: Guests) -> None:
    assert runner.rounds(three(), 2).complete == 2
    assert guests.arms == "ABCCBA"


def test_only_missing_rounds_are_run_and_the_order_goes_on(
    fresh: Fresh, runner: Runner, guests: Guests
) -> None:
    first = runner.rounds(pair(), 1)
    assert runner.rounds(pair(), 1) == first
    rounds = fresh().rounds(pair(), 3)
    assert guests.arms == "AB" + "BA" + "AB"
    assert rounds.complete == 3
    assert {arm: boots[:1] for arm, boots in rounds.boots.items()} == first.boots


def test_boots_without_company_are_not_used_in_rounds(runner: Runner, guests: Guests) -> None:
    runner.all(pair())
    runner.rounds(pair(), 1)
    runner.rounds([*pair(), two_schedulers()[1]], 1)
    assert len(guests.booted) == 2 + 2 + 3


@pytest.mark.parametrize("place", [0, 1])
def test_a_disturbed_round_is_run_again_and_none_of_it_counts(
    runner: Runner, guests: Guests, store: BootStore, place: int
) -> None:
    guests.answers[2 + place] = NOISE
    rounds = runner.rounds(pair(), 2)
    assert guests.arms == "AB" + "BA" + "BA"
    assert (rounds.complete, rounds.rejected) == (2, 1)
    assert iops(rounds) == {"A": [100, 105], "B": [101, 104]}
    outcomes = [outcome for _, outcome in on_record(store)]
    assert outcomes == ["ok"] * 2 + ["disturbed"] * 2 + ["ok"] * 2


def test_rounds_at_the_limit_are_not_disturbed(runner: Runner, guests: Guests) -> None:
    guests.answers[0] = {f"{PREFIX}steal": LIMITS["steal"]}
    assert runner.rounds(pair(), 1).rejected == 0


def test_a_host_that_never_is_quiet_is_given_up(
    fresh: Fresh, runner: Runner, guests: Guests
) -> None:
    guests.answers = dict.fromkeys(range(2, 1000), NOISE)
    rounds = runner.rounds(pair(), 6)
    assert rounds.complete == 1
    assert rounds.rejected == (len(guests.booted) - 2) / 2
    assert 1 < rounds.rejected < 20
    guests.answers.clear()
    again = fresh().rounds(pair(), 6)
    assert (again.complete, again.rejected) == (6, rounds.rejected)


def test_a_host_that_is_quiet_now_and_then_is_not_given_up(runner: Runner, guests: Guests) -> None:
    noisy = [number for number in range(40) if number % 4 > 2]
    guests.answers = dict.fromkeys(noisy, NOISE)
    rounds = runner.rounds(pair(), 6)
    assert rounds.complete == 6
    assert rounds.rejected > 4


def test_half_a_round_is_not_used_after_an_interruption(
    fresh: Fresh, runner: Runner, guests: Guests
) -> None:
    guests.answers[3] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        runner.rounds(pair(), 2)
    rounds = fresh().rounds(pair(), 2)
    assert guests.arms == "AB" + "BA" + "BA"
    assert iops(rounds) == {"A": [100, 105], "B": [101, 104]}
    assert rounds.rejected == 0


def test_guests_that_can_be_stopped_take_turns(runner: Runner, guests: Guests) -> None:
    here = threading.Barrier(3)
    guests.on_boot = lambda: here.wait(20)
    assert runner.rounds(three(Engine.TCG), 2).complete == 2
    assert guests.together == 3
    rounds = guests.slots[:3], guests.slots[3:]
    assert all(len(set(slots)) == 3 and None not in slots for slots in rounds)


@pytest.mark.parametrize(("engine", "memory_gib"), [(Engine.KVM, 8), (Engine.TCG, 4)])
def test_guests_that_cannot_be_stopped_or_that_memory_does_not_hold_take_no_turns(
    fresh: Fresh, guests: Guests, engine: Engine, memory_gib: float
) -> None:
    fresh(memory_gib).rounds(pair(engine), 1)
    assert guests.slots == [None, None]
    assert guests.together == 1


@pytest.mark.parametrize(("number", "arm"), [(0, "A"), (1, "B"), (2, "B"), (3, "A")])
def test_a_failure_of_the_lab_ends_the_rounds_and_names_the_arm(
    runner: Runner, guests: Guests, number: int, arm: str
) -> None:
    guests.answers[number] = failure("garbled")
    rounds = runner.rounds(pair(), 4)
    assert len(guests.booted) == 2 * (number // 2) + 2
    assert (rounds.failed_arm, rounds.error) == (arm, guests.answers[number])
    assert rounds.complete == number // 2
    assert rounds.boots.keys() == {"A", "B"}


def test_a_qemu_that_always_dies_ends_the_rounds(runner: Runner, guests: Guests) -> None:
    guests.answers = {number: failure("died") for number in range(1, 99, 2)}
    rounds = runner.rounds(pair(), 2)
    assert len(guests.booted) < 20
    assert rounds.failed_arm == "B"
    assert rounds.error is not None
    assert rounds.error.outcome == "died"


@pytest.mark.parametrize("verbose", ["0", "1"])
def test_boots_are_printed_where_all_is_to_be(
    fresh: Fresh, guests: Guests, monkeypatch: pytest.MonkeyPatch, verbose: str
) -> None:
    monkeypatch.setenv("LAB_VERBOSE", verbose)
    out = io.StringIO()
    guests.answers = {1: NOISE, 2: failure("died")}
    fresh(progress=Progress(out=out)).rounds(pair(), 1)
    assert ("100.0 IOPS" in out.getvalue()) is (verbose == "1")
    assert "FAILED: died" in out.getvalue()
    assert "steal 1.5 % (limit 0.5 %); once more" in out.getvalue()


def test_the_count_of_boots_never_exceeds_what_was_to_be_run(
    fresh: Fresh, guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []

    class Recorded(Tally):
        def ended(self, title: str, shown: str, seconds: float, *, done: bool) -> None:
            super().ended(title, shown, seconds, done=done)
            lines.append(self.line())

    monkeypatch.setattr("lab.measure.runner.Tally", Recorded)
    guests.answers[1] = NOISE
    fresh().rounds(pair(), 2)
    title = "nullb bfq randread_burst, at most 2 rounds of A, B: "
    counts = [line.removeprefix(title).partition(",")[0] for line in lines]
    assert counts == [f"{n} of 4 boots" for n in (1, 2, 1, 2, 3, 4)]


def test_what_several_threads_ask_for_is_booted_once_and_the_urgent_first(
    fresh: Fresh, guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    runner, go_on = fresh(), threading.Event()
    guests.on_boot = lambda: go_on.wait(20)
    exact = {
        name: task(of=fakes.cell(scheduler=name, engine=Engine.EXACT))
        for name in ("none", "bfq", "kyber", "mq-deadline")
    }
    requests = [(0, ["none"]), (2, ["kyber", "bfq"]), (1, ["bfq"]), (0, ["none", "mq-deadline"])]
    with ThreadPoolExecutor(len(requests)) as pool:
        running = []
        for urgency, names in requests:
            tasks = [exact[name] for name in names]
            before = len(runner._submitted)
            running.append(pool.submit(runner.all, tasks, urgency=urgency))
            new = set(names) - {n for _, earlier in requests[: len(running) - 1] for n in earlier}
            while len(runner._submitted) < before + len(new):
                time.sleep(0.01)
        go_on.set()
        answered = [[outcome.task for outcome in future.result()] for future in running]
    assert answered == [[exact[name] for name in names] for _, names in requests]
    assert guests.schedulers == ["none", "mq-deadline", "kyber", "bfq"]


def test_a_guest_that_raises_ends_what_other_threads_wait_for(
    runner: Runner, guests: Guests
) -> None:
    inside = threading.Barrier(2)
    guests.on_boot = lambda: inside.wait(20)
    guests.answers[0] = guests.answers[1] = KeyboardInterrupt()
    first, second = two_schedulers(Engine.EXACT)
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(runner.all, [task]) for task in (first, second)]
        ended = {type(future.exception(20)) for future in running}
    # The later one may be ended by the earlier one's before it raises its own.
    assert KeyboardInterrupt in ended
    assert ended <= {KeyboardInterrupt, CancelledError}
    with pytest.raises(CancelledError):
        runner.all([task(of=fakes.cell(scheduler="kyber", engine=Engine.EXACT))])


@pytest.mark.parametrize("engine", [Engine.EXACT, Engine.TCG])
def test_what_is_timed_has_the_host_alone_and_what_is_not_has_it_not(
    runner: Runner, guests: Guests, engine: Engine
) -> None:
    seen: list[bool] = []

    def look() -> None:
        raise BlockingIOError

    def others_may_run() -> None:
        with suppress(BlockingIOError), host_time.disturbing(look):
            seen.append(True)
            return
        seen.append(False)

    guests.on_boot = others_may_run
    runner.all([task(of=fakes.cell(engine=engine))])
    assert seen == [engine.deterministic]
