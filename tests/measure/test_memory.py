# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory is never given out twice, and all who can ever be served are."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.base.errors import GuestError
from lab.measure.memory import MemoryBudget


@settings(max_examples=30)
@given(st.lists(st.integers(256, 4096), min_size=1, max_size=12))
def test_guests_never_have_more_than_there_is_and_all_get_theirs(sizes: list[int]) -> None:
    budget, lock = MemoryBudget(6), threading.Lock()
    inside: list[int] = []
    served: list[int] = []

    def guest(size: int) -> None:
        with budget.taken(size):
            with lock:
                inside.append(size)
                assert budget.holds(*inside)
            with lock:
                inside.remove(size)
                served.append(size)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(guest, sizes))
    assert sorted(served) == sorted(sizes)
    assert budget.holds(5 * 1024 - 256)


def test_a_guest_that_fails_gives_its_memory_back() -> None:
    budget = MemoryBudget(4)
    for _ in range(3):
        with pytest.raises(RuntimeError), budget.taken(2048):
            raise RuntimeError
    with budget.taken(2048):
        pass


def test_a_guest_that_never_fits_is_told_so_at_once() -> None:
    budget = MemoryBudget(4)
    refused = pytest.raises(GuestError, match=r"needs 3\.0 GiB .* has 3\.0 GiB")
    with budget.taken(2048), refused, budget.taken(3 * 1024):
        raise AssertionError
