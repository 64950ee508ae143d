# SPDX-License-Identifier: GPL-2.0-or-later
"""What is known of how long a guest takes: by its kind, whatever its kernel and scheduler."""

from __future__ import annotations

from dataclasses import replace

import guests as fakes
import pytest
from guests import Guests

from lab.base.progress import Progress
from lab.inputs.terms import Engine
from lab.measure import durations
from lab.measure.boot_store import BootStore
from lab.measure.cell import Cell, Task
from lab.measure.durations import Durations
from lab.measure.place import ThisHost
from lab.measure.runner import Runner

ONE = fakes.cell("nullb", engine=Engine.EXACT, cpus=1)
WIDE = fakes.cell("nullb", engine=Engine.EXACT, cpus=8)


def run(*cells: Cell, place: ThisHost | None = None) -> BootStore:
    """Where boots of these cells are written down."""
    kernel, store = fakes.kernel("k"), BootStore()
    runner = Runner(fakes.checked_testbed(kernel), store, Progress(), place)
    runner.all([Task(cell=cell, kernel=kernel) for cell in cells])
    return store


def test_a_store_that_is_not_there_is_not_made() -> None:
    store = BootStore()
    assert durations.recorded(store) == Durations()
    assert not store.folder.exists()


def test_what_is_not_known_is_guessed_by_engine_and_cpus() -> None:
    guess = Durations()
    assert guess.of(ONE) < guess.of(WIDE) < guess.of(replace(WIDE, engine=Engine.SIM))


def test_what_took_longest_begins_first(guests: Guests, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {("nullb", "randread_burst", "exact", cpus): 9.0 / cpus for cpus in (1, 8)}
    monkeypatch.setattr(durations, "recorded", lambda store: Durations(known))
    run(WIDE, ONE, place=ThisHost(8.0, cpus=1))
    assert [job.cell.cpus for job in guests.booted] == [1, 8]


def test_boots_on_record_tell_for_all_of_their_kind(guests: Guests) -> None:
    on_record = durations.recorded(run(ONE))
    assert on_record.of(replace(ONE, scheduler="none", seed=9)) == on_record.of(ONE) < 4
    assert on_record.of(WIDE) == Durations().of(WIDE)
