# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls of functions, out of the blocks that QEMU executed."""

from __future__ import annotations

import pytest

from lab.base.errors import GuestError
from lab.inputs.counters import Counter
from lab.inputs.terms import Engine
from lab.measure import call_counts, call_log
from lab.measure.call_counts import Executed
from lab.measure.call_log import Call
from lab.measure.insn_counts import Phase, Symbols

NAMES = Symbols(
    (0x100, 0x200, 0x300, 0x400, 0x500, 0x600),
    ("start", "null_queue", "scsi_queue", "start.isra.0", "start.part.0", "start_all"),
)
# null_queue calls start from two places, scsi_queue once and its clone once; somebody jumps to
# start by an address in a register.
PHASE = Phase(
    0,
    {},
    executions={
        (0x100, 0): 5,
        (0x100, 0x500): 1,
        (0x200, 0x100): 2,
        (0x250, 0x100): 1,
        (0x260, 0x600): 7,
        (0x300, 0x100): 1,
        (0x300, 0x400): 1,
        (0x400, 0): 1,
        (0x500, 0): 1,
        (0x600, 0): 7,
    },
)


def counter(**keys: object) -> Counter:
    return Counter.model_validate({"title": "t", "unit": "u", "calls": ("start",), **keys})


def values(**counters: Counter) -> dict[str, float]:
    return call_counts.values(counters, Executed(NAMES, "null_", PHASE.executions))


def test_entries_of_a_function_and_of_its_clones_are_its_calls() -> None:
    assert values(all=counter()) == {"all": 7}
    assert values(all=counter(calls=("start", "start_all"))) == {"all": 14}


def test_calls_are_told_by_who_makes_them() -> None:
    assert values(own=counter(callers="^{driver}")) == {"own": 3}
    assert values(other=counter(callers="^scsi_")) == {"other": 2}


def test_a_counter_is_divided_and_lessened_by_others() -> None:
    rest = counter(less="own", per="own")
    counts = values(own=counter(callers="^null_"), all=counter(), rest=rest)
    assert counts["rest"] == pytest.approx((7 - 3) / 3)


def test_a_function_that_is_not_there_is_an_error_not_a_zero() -> None:
    with pytest.raises(GuestError, match="gone: the kernel has no function merge") as caught:
        values(gone=counter(calls=("merge",)))
    assert caught.value.outcome == "mismatch"


def test_nothing_is_divided_by_nothing() -> None:
    with pytest.raises(GuestError, match="is per none, and none were counted"):
        values(none=counter(callers="^nvme_"), own=counter(per="none"))


LOCK, INSERT, DISPATCH, OTHER, CHOOSE, ISSUE = (0x1000 * number for number in range(1, 7))
LOGGED = Symbols(
    (LOCK, INSERT, DISPATCH, OTHER, CHOOSE, ISSUE),
    ("lock", "own_insert", "own_dispatch", "other", "choose", "issue"),
)
# Two locks: own is taken to insert, to dispatch and by somebody else, foreign by who inserts only.
OWN, FOREIGN = 0xA0, 0xB0
LOCKS = [
    Call(LOCK, INSERT + 8, (OWN, 0)),
    Call(LOCK, INSERT + 16, (FOREIGN, 0)),
    Call(LOCK, DISPATCH, (OWN, 0)),
    Call(LOCK, OTHER, (OWN, 0)),
    Call(CHOOSE, OTHER, (OWN, 0)),
]


BOTH = ({"callers": "insert"}, {"callers": "dispatch"})


def logged(log: list[Call], **keys: object) -> float:
    lock_counter = counter(calls=("lock",), argument=1, **keys)
    return call_counts.values({"own": lock_counter}, Executed(LOGGED, "own_", {}, log))["own"]


def test_calls_are_told_by_what_they_are_about() -> None:
    assert logged(LOCKS) == 4
    assert logged(LOCKS, callers="^{driver}") == 3
    assert logged(LOCKS, objects=BOTH) == 3
    assert logged(LOCKS, objects=({"callers": "insert"},)) == 4
    assert logged(LOCKS, objects=({"calls": ("choose",)},)) == 3
    assert logged(LOCKS, distinct=True) == 2


def test_who_calls_the_same_under_another_name_does_not_hide_it() -> None:
    """What else takes the lock counts, whoever does."""
    renamed = [call._replace(caller=ISSUE) if call.caller == OTHER else call for call in LOCKS]
    assert logged(renamed, objects=BOTH) == logged(LOCKS, objects=BOTH)


def test_where_nothing_tells_what_calls_are_about_there_are_none_of_them() -> None:
    """The verdict asks for may_be_zero then."""
    elsewhere = [call for call in LOCKS if call.caller not in range(INSERT, DISPATCH)]
    assert logged(elsewhere, objects=BOTH) == 0


def test_calls_about_different_things_are_an_error_not_a_zero() -> None:
    elsewhere = [
        call._replace(arguments=(99, 0)) if call.caller in range(INSERT, DISPATCH) else call
        for call in LOCKS
    ]
    with pytest.raises(GuestError, match="none about one and the same object") as caught:
        logged(elsewhere, objects=BOTH)
    assert caught.value.outcome == "mismatch"
    assert "configs/counter/own.toml" in caught.value.hint


def order(*events: str) -> float:
    """Of requests chosen (c) and issued (i), each by its number."""
    log = [
        Call(CHOOSE, OTHER, (0, int(event[1])))
        if event[0] == "c"
        else Call(ISSUE, OTHER, (int(event[1]), 0))
        for event in events
    ]
    order_counter = counter(
        calls=("issue",), argument=1, after={"calls": ("choose",), "argument": 2}
    )
    return call_counts.values({"own": order_counter}, Executed(LOGGED, "", None, log))["own"]


def test_what_is_issued_after_what_was_chosen_later_was_overtaken() -> None:
    assert order("c1", "c2", "i1", "i2") == 0
    assert order("c1", "c2", "i2", "i1") == 1
    assert order("c1", "c2", "c3", "i3", "i1", "i2") == 2
    # Chosen anew, as after a merge; issued without having been chosen.
    assert order("c1", "c2", "c1", "i2", "i1") == 0
    assert order("c2", "i1", "i2") == 0


def test_simulated_calls_are_all_told_by_the_log() -> None:
    lock_counter = counter(calls=("lock",), callers="insert")
    assert call_counts.wants_log(lock_counter, Engine.SIM)
    assert not call_counts.wants_log(lock_counter, Engine.EXACT)
    assert call_counts.values({"own": lock_counter}, Executed(LOGGED, "", None, LOCKS)) == {
        "own": 2
    }


def test_the_log_is_read_by_phase() -> None:
    text = "3 1000 2008 a0 0\n4 1000 3000 b0 ffffffffffffffff\nend\n"
    first, second = call_log.parse(text)
    assert first == Call(LOCK, INSERT + 8, (OWN, 0))
    assert call_log.parse(text, 4) == [second]
    assert second.arguments == (FOREIGN, 2**64 - 1)


@pytest.mark.parametrize("text", ["", "3 1000 2008 a0 0\n", "3 1000\nend\n", "x 1 2 3 4\nend\n"])
def test_a_log_that_is_none_is_corrupt(text: str) -> None:
    with pytest.raises(GuestError) as caught:
        call_log.parse(text)
    assert caught.value.outcome == "corrupt"
