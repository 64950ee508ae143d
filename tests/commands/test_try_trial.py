# SPDX-License-Identifier: GPL-2.0-or-later
"""What `lab try` asks by default: the changed code chooses cells, the first line answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import guests as fakes
import pytest
from guests import FakeSession, Guests

from lab.base.errors import ExitCode, GuestError
from lab.build import code_diff, definitions
from lab.build.code_diff import CodeDiff
from lab.commands import try_answers, try_cells, try_measure, try_patches, try_tables
from lab.commands.try_answers import Answer, Changed, Kind
from lab.commands.try_patches import Subject, Tried
from lab.inputs import message, profile
from lab.inputs.terms import Engine
from lab.measure.boot_store import StoredBoot
from lab.measure.cell import PlannedCell
from lab.measure.durations import Durations
from lab.measure.job import Job
from lab.measure.runner import Outcome
from lab.report import tables

QUICK = profile.get("quick")
PATCHES = (Path("/series/0001-a.patch"), Path("/series/0002-b.patch"))
SUBMIT = "blk_mq_submit_bio"


def cell(scheduler: str, topology: str = "nullb_mq", work: str = "randread_burst") -> PlannedCell:
    return fakes.planned(fakes.cell(topology, scheduler, work, Engine.EXACT, cpus=1))


NONE, DEADLINE, BFQ = cell("none"), cell("mq-deadline"), cell("bfq")


def patched(kernel: str) -> bool:
    return "+" in kernel


@pytest.fixture
def session(guests: Guests, monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    """A session in which an I/O costs the same on all kernels, and kernels differ in SUBMIT."""
    guests.cost_of = lambda kernel: fakes.insns(blk_mq_submit_bio=500.0, other=500.0)
    differ(monkeypatch, SUBMIT)
    return FakeSession(QUICK)


def fail(guests: Guests, error: GuestError, when: Callable[[Job], bool]) -> None:
    """Let some guests fail."""
    guests.says = lambda job: error if when(job) else {}


def differ(monkeypatch: pytest.MonkeyPatch, *functions: str) -> None:
    """Let two kernels differ in these functions."""
    difference = CodeDiff(frozenset(functions))
    monkeypatch.setattr(code_diff, "compare", lambda before, after: difference)
    monkeypatch.setattr(definitions, "files", lambda patches: [])


def tried(session: FakeSession, *, debug: bool = False) -> Tried:
    subject = Subject("debian:6.12", PATCHES)
    (result,) = try_patches.examine(subject, [NONE, DEADLINE], session, debug=debug)
    return result


def first(result: Tried) -> str:
    """The first sentence of what is printed, its lines joined."""
    answer, *_ = try_tables.of_tried([result], ["lab", "try", "x"])
    return " ".join(tables.text(answer.model_copy(update={"notes": ()})).split())


def test_equal_code_is_told_without_a_boot(
    session: FakeSession, guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    differ(monkeypatch)
    result = tried(session)
    assert guests.booted == []
    assert first(result) == "NO CHANGE: both kernels have the same code and the same data"
    assert try_answers.exit_code(result.answers) is ExitCode.DONE


def test_code_that_no_cell_executes_is_named(
    session: FakeSession, guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    differ(monkeypatch, "blk_trace_ioctl")
    result = tried(session)
    assert [answer.kind for answer in result.answers] == [Kind.NOT_EXECUTED]
    assert "blk_trace_ioctl()" in first(result)
    costed = [job for job in guests.booted if job.cell.cost]
    assert not any(patched(job.task.kernel.id) for job in costed)


def test_what_costs_the_same_is_told_with_its_boots(session: FakeSession) -> None:
    result = tried(session)
    assert [answer.kind for answer in result.answers] == [Kind.EQUAL_COST]
    assert f"{SUBMIT}()" in first(result)
    assert try_answers.exit_code(result.answers) is ExitCode.DONE


@pytest.mark.parametrize(("more", "code"), [(7.0, ExitCode.DONE), (20.0, ExitCode.REFUTED)])
def test_instructions_are_told_with_their_function_and_judged_by_the_threshold(
    session: FakeSession, guests: Guests, more: float, code: ExitCode
) -> None:
    guests.cost_of = lambda kernel: fakes.insns(
        other=500.0, blk_mq_submit_bio=500.0 + more * patched(kernel)
    )
    result = tried(session)
    assert [answer.kind for answer in result.answers] == [Kind.COSTS]
    assert first(result).startswith(
        f"COSTS {more:g} instructions more per I/O in {SUBMIT}() (called by other()) (nullb_mq"
    )
    followed = [job for job in guests.booted if job.cell.callers]
    assert [patched(job.task.kernel.id) for job in followed] == [True]
    assert try_answers.exit_code(result.answers) is code


LOST = GuestError("failed", "fio: verify: bad header")


def checks(job: Job) -> bool:
    return job.cell.workload == "verify_crc"


def test_data_that_is_lost_is_the_patches_doing_where_the_base_keeps_it(
    session: FakeSession, guests: Guests
) -> None:
    fail(guests, LOST, lambda job: checks(job) and patched(job.task.kernel.id))
    result = tried(session)
    assert first(result).startswith(
        "LOSES DATA: with other code in blk_mq_submit_bio(): what was written is not read back"
    )
    assert "0001-a.patch (patch 1 of 2) breaks the kernel" in result.broken
    assert try_answers.exit_code(result.answers) is ExitCode.REFUTED


def test_a_check_that_fails_without_patches_too_is_not_held_against_them(
    session: FakeSession, guests: Guests
) -> None:
    fail(guests, LOST, checks)
    result = tried(session)
    assert not result.broken
    assert any("fails without the patches, too" in note for note in result.trial.notes)


def test_a_hang_now_and_then_is_told_with_its_count(session: FakeSession, guests: Guests) -> None:
    hang = GuestError("hang", "the guest hangs")
    fail(guests, hang, lambda job: patched(job.task.kernel.id) and job.cell.seed == 5)
    result = tried(session)
    assert first(result).startswith(
        "BROKEN: with other code in blk_mq_submit_bio(): hang in 1 of 6 boots with the patches, in "
        "0 without"
    )
    assert try_answers.exit_code(result.answers) is ExitCode.REFUTED


@pytest.mark.parametrize("complaints", [(), ("WARNING: possible circular locking",)])
def test_the_debug_kernel_without_patches_is_booted_only_where_it_is_needed(
    session: FakeSession, guests: Guests, complaints: tuple[str, ...]
) -> None:
    def is_debug(job: Job) -> bool:
        return job.cell.workload == "verify_switching"

    guests.complaints = lambda job: complaints * (is_debug(job) and patched(job.task.kernel.id))
    tried(session, debug=True)
    debugged = [patched(job.task.kernel.id) for job in guests.booted if is_debug(job)]
    assert debugged == [True, False] if complaints else [True]


def test_few_cells_that_execute_all_that_changed_are_chosen() -> None:
    executed: Mapping[PlannedCell, Mapping[str, float]] = {
        NONE: dict.fromkeys("ax", 10.0),
        DEADLINE: dict.fromkeys("ab", 10.0),
        BFQ: dict.fromkeys("acy", 10.0),
    }
    choice = try_cells.choose({"a", "b", "c", "unused"}, executed, Durations())
    assert set(choice.exact) == {DEADLINE, BFQ}
    assert choice.skipped == (NONE,)
    assert choice.schedulers == ("none", "mq-deadline", "bfq")
    assert choice.busy == tuple((name, "randread_burst") for name in choice.schedulers)
    wanted = try_cells.simulated(QUICK, choice.busy)
    assert {(planned.cell.cpus, planned.cell.number("numjobs")) for planned in wanted} == {(16, 16)}
    alone = try_cells.choose({"a"}, executed, Durations())
    assert len(alone.exact) == 1
    assert alone.schedulers == ("none",)
    assert try_cells.choose({"unused"}, executed, Durations()).exact == ()


@pytest.mark.parametrize(("usual", "chosen"), [(3.0, "randread_burst"), (6.0, "randwrite_uring")])
def test_the_job_that_executes_most_of_what_changed_is_simulated(usual: float, chosen: str) -> None:
    executed = {NONE: {"a": 10.0}, cell("none", work="randwrite_uring"): {"a": usual}}
    assert try_cells.choose({"a"}, executed, Durations()).busy == (("none", chosen),)


def test_where_functions_merge_the_first_cell_is_one_in_which_much_is_merged() -> None:
    merging, merge = cell("none", "raid64", "seqread_streams"), "blk_attempt_bio_merge"
    executed = {NONE: {merge: 10.0, "a": 10.0}, merging: {merge: 10.0}}
    assert try_cells.choose({merge, "a"}, executed, Durations()).exact == (merging, NONE)


def simulated(before: float, after: float, **moved: float) -> try_measure.SimulatedChange:
    """A simulated cell with these IOPS; moved are the moves of a patched kernel's lines."""
    simulated_cell = fakes.cell("nullb_mq", "none", "randwrite_uring", Engine.SIM, cpus=16)
    planned = fakes.planned(simulated_cell)

    def side(iops: float) -> Outcome:
        values = {"iops": iops, "cpu_ns_per_io": 1000.0, "lock_ns_per_io": 0.0}
        boot = StoredBoot("id", "kernel", "", 1.0, 1.0, {}, values)
        return Outcome(planned.on(fakes.kernel("kernel")), (boot,))

    lines = {(name, "shared"): count for name, count in moved.items()}
    return try_measure.SimulatedChange(planned, side(before), side(after), (), ({}, lines))


CHANGED = Changed(frozenset({SUBMIT}), {SUBMIT: "block/blk-mq.c:3039"})


@pytest.mark.parametrize(
    ("before", "after", "kind", "worse"),
    [
        (1e6, 0.3e6, Kind.SLOWER, True),
        (1e6, 1.3e6, Kind.FASTER, False),
        (1e6, 0.94e6, Kind.OPEN, False),  # less than two seeds of the job may differ by
    ],
)
def test_simulated_throughput_is_judged_by_the_threshold_and_the_seeds(
    before: float, after: float, kind: Kind, worse: bool
) -> None:
    answer = try_answers.of_simulated(simulated(before, after), CHANGED)
    assert answer
    assert (answer.kind, answer.is_worse) == (kind, worse)
    assert try_answers.of_simulated(simulated(1e6, 0.99e6), CHANGED) is None


def test_a_cache_line_that_a_changed_function_shares_is_named() -> None:
    answer = try_answers.of_simulated(simulated(1e6, 0.975e6, blk_mq_submit_bio=1.0), CHANGED)
    assert answer
    assert answer.kind is Kind.SHARES
    assert "blk_mq_submit_bio() (block/blk-mq.c:3039) moves 1 cache lines of shared" in answer.text
    unrelated = simulated(1e6, 0.975e6, another=1.0)
    assert try_answers.of_simulated(unrelated, CHANGED) is None


def test_of_a_cache_line_the_variables_of_the_patches_are_named() -> None:
    changed = Changed(variables=frozenset({"planted"}))
    assert changed.of_line("bio_slab, planted, major_names") == "planted"
    assert changed.of_line("bio_slab") == "bio_slab"
    assert changed.of_line("") == ""


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ([0.5], [1.0], Kind.MERGES_LESS),
        ([1.0], [0.5], Kind.MERGES_MORE),
        ([1.0], [1.2], None),  # two seeds of the job may differ by so much
        ([1.0, 0.99, 1.0], [1.2, 1.21, 1.19], Kind.MERGES_LESS),
        ([1.0, 0.99, 1.1], [1.2, 1.21, 1.09], None),
        ([1.0, 1.0, 1.0], [1.04, 1.04, 1.04], None),
        ([], [], None),
        ([0.0], [0.0], None),
    ],
)
def test_merging_that_is_lost_is_no_gain(
    before: list[float], after: list[float], kind: Kind | None
) -> None:
    answer = try_answers.of_requests(DEADLINE, before, after, CHANGED)
    assert (answer.kind if answer else None) is kind
    assert bool(answer and answer.is_worse) == (kind is Kind.MERGES_LESS)


def test_the_worst_answer_comes_first() -> None:
    answers = [Answer(kind, "x") for kind in (Kind.SAVES, Kind.COSTS, Kind.SHARES)]
    worse = [Answer(kind, "x", is_worse=True) for kind in (Kind.COSTS, Kind.BROKEN)]
    assert [answer.kind for answer in try_answers.ordered([*answers, *worse])] == [
        Kind.BROKEN,
        Kind.COSTS,
        Kind.SHARES,
        Kind.COSTS,
        Kind.SAVES,
    ]
    assert try_answers.exit_code([Answer(Kind.OPEN, "x")]) is ExitCode.INCONCLUSIVE


def test_a_job_is_quoted_as_one_line() -> None:
    line = try_tables.job_line(NONE.cell)
    assert line.startswith("fio --direct=1 --rw=randread --bs=4k --ioengine=psync --numjobs=10")
    assert "filename" not in line


def test_what_the_message_publishes_stands_beside_what_was_found() -> None:
    text = "With this IOPS rise from 263K to 475K.\nAnother line\x1b[2J: 5% fewer.\nNo figure.\n"
    (said,) = try_tables.of_message(message.read(text), "my box.mbx")
    shown, how = said.notes
    assert shown.splitlines()[0] == "    With this IOPS rise from 263K to 475K."
    assert "\x1b" not in shown
    assert "No figure" not in shown
    assert "lab new NAME 'my box.mbx'" in how
    assert try_tables.of_message(message.read("Nothing but words.\n"), "x") == ()
