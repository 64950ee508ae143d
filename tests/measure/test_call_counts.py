# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls of functions, out of the blocks that QEMU executed."""

from __future__ import annotations

import pytest

from lab.base.errors import GuestError
from lab.inputs import counters
from lab.inputs.counters import Counter
from lab.measure import call_counts
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
    return Counter.model_validate(
        {"title": "t", "unit": "u", "event": "p:start", "calls": ("start",), **keys}
    )


def values(**asked: Counter) -> dict[str, float]:
    return call_counts.values(asked, "null_", PHASE, NAMES)


def test_entries_of_a_function_and_of_its_clones_are_its_calls() -> None:
    assert values(all=counter()) == {"all": 7}
    assert values(all=counter(calls=("start", "start_all"))) == {"all": 14}


def test_calls_are_told_by_who_makes_them() -> None:
    assert values(own=counter(callers="^{driver}")) == {"own": 3}
    assert values(other=counter(callers="^scsi_")) == {"other": 2}


def test_a_counter_is_divided_and_lessened_by_others() -> None:
    found = values(
        own=counter(callers="^null_"), all=counter(), rest=counter(less="own", per="own")
    )
    assert found["rest"] == pytest.approx((7 - 3) / 3)


def test_a_function_that_is_not_there_is_an_error_not_a_zero() -> None:
    with pytest.raises(GuestError, match="gone: the kernel has no function merge") as caught:
        values(gone=counter(calls=("merge",)))
    assert caught.value.outcome == "mismatch"


def test_nothing_is_divided_by_nothing() -> None:
    with pytest.raises(GuestError, match="no none were counted"):
        values(none=counter(callers="^nvme_"), own=counter(per="none"))


def test_what_a_counter_needs_is_found_with_it() -> None:
    found = counters.by_calls(["switches"])
    assert found is not None
    assert set(found) == {"switches", "idle_ends", "requests"}
    assert counters.by_calls(["switches", "inversions"]) is None
