# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that take turns: one at a time, equally long, and none waits for one that never comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from monitor import Qemu

from lab.base.process import Process
from lab.guest import time_slices
from lab.guest.qmp import Monitor
from lab.guest.time_slices import TimeSlices

GUEST = cast("Process", SimpleNamespace(members=lambda: [1]))


class Clock:
    """A clock on which nothing takes time but a slice."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        time.sleep(0.001)  # lets the test's thread run


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "time", Clock())


class Round:
    """Three guests of a round, and what their QEMUs A, B and C are told."""

    def __init__(self, folder: Path) -> None:
        self.log: list[tuple[str, str]] = []
        self.qemus = [Qemu(folder / name, self.log) for name in "ABC"]
        self.slices = TimeSlices(3)
        self.slots = self.slices.slots

    def measure(self, *guests: int, guest: Process = GUEST) -> None:
        """Begin to measure guests, by number."""
        for number in guests:
            self.slots[number].follow(guest, self.qemus[number].path, measured=True)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Round]:
    made = Round(tmp_path)
    with made.slices:
        yield made


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60  # nobody's claim: what must come, comes
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_guest_stands_until_all_are_there(three: Round) -> None:
    three.measure(0, 1)
    time.sleep(0.05)  # long enough for one of them to be let go
    assert three.slots[0].ran_s == 0
    three.measure(2)
    until(lambda: ("C", "cont") in three.log)
    assert three.log[:3] == [("A", "stop"), ("B", "stop"), ("C", "stop")]


def test_one_runs_at_a_time_there_and_back(three: Round) -> None:
    three.measure(0, 1, 2)
    until(lambda: len(three.log) > 60)
    ran = "".join(name for name, command in three.log if command == "cont")
    assert ran.startswith("ABCCBAABCCBA")
    running: set[str] = set()
    for name, command in three.log[3:]:
        running ^= {name}
        assert len(running) <= 1, command


def test_slices_are_equally_long(tmp_path: Path) -> None:
    three = Round(tmp_path)
    with three.slices:
        three.measure(0, 1, 2)
        until(lambda: len(three.log) > 60)
    counts = {name: three.log.count((name, "cont")) for name in "ABC"}
    assert max(counts.values()) - min(counts.values()) <= 1
    for slot, name in zip(three.slots, "ABC", strict=True):
        assert slot.ran_s == pytest.approx(counts[name] * time_slices.SLICE_S)


def test_who_was_measured_runs_on_freely_and_the_others_without_it(three: Round) -> None:
    three.measure(0, 1, 2)
    until(lambda: len(three.log) > 20)
    assert three.slots[1].company() == {1}
    three.slots[0].follow(GUEST, three.qemus[0].path, measured=False)
    before = len(three.log)
    assert three.qemus[0].running
    until(lambda: len(three.log) > before + 20)
    assert {name for name, _ in three.log[before + 2 :]} == {"B", "C"}
    assert three.qemus[0].running
    assert three.slots[0].ran_s is None
    assert three.slots[1].company() is None


def test_nobody_waits_for_a_guest_that_never_comes(three: Round) -> None:
    three.measure(0, 1)
    with three.slots[2]:
        pass  # its guest did not even start
    until(lambda: len(three.log) > 20)


def test_a_guest_that_is_gone_does_no_harm(three: Round, tmp_path: Path) -> None:
    three.measure(0, 1)
    three.slots[2].follow(GUEST, tmp_path / "nobody", measured=True)
    until(lambda: three.log.count(("A", "cont")) > 5)


def test_the_company_is_all_guests_that_take_slices(three: Round) -> None:
    processes = [{1}, {2, 3}]
    for number, members in enumerate(processes):
        guest = SimpleNamespace(members=lambda members=members: members)
        three.measure(number, guest=cast("Process", guest))
    assert three.slots[0].company() == {1, 2, 3}
    processes[1].remove(3)  # it ended, and nobody has noticed yet
    assert three.slots[0].company() is None


def test_a_monitor_is_found_however_long_its_path(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    log: list[tuple[str, str]] = []
    short = tmp_path / "qmp"
    Qemu(short, log)
    short.rename(folder / "qmp")
    monitor = Monitor(folder / "qmp")
    monitor.stop()
    monitor.close()
    assert log == [("qmp", "stop")]
