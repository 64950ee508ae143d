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
from lab.guest.time_slices import Slot, TimeSlices

GUEST = cast("Process", SimpleNamespace(members=lambda: [1]))


@pytest.fixture
def log() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def qemus(tmp_path: Path, log: list[tuple[str, str]]) -> list[Qemu]:
    return [Qemu(tmp_path / name, log) for name in "ABC"]


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


@pytest.fixture
def three() -> Iterator[TimeSlices]:
    with TimeSlices(3) as slices:
        yield slices


def measured(slot: Slot, qemu: Qemu, *, yes: bool = True) -> None:
    slot.follow(GUEST, qemu.path, measured=yes)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60  # nobody's claim: what must come, comes
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_guest_stands_until_all_are_there(
    three: TimeSlices, qemus: list[Qemu], log: list[tuple[str, str]]
) -> None:
    for slot, qemu in zip(three.slots[:2], qemus, strict=False):
        measured(slot, qemu)
    time.sleep(0.05)  # long enough for one of them to be let go
    assert three.slots[0].ran_s == 0
    measured(three.slots[2], qemus[2])
    until(lambda: ("C", "cont") in log)
    assert log[:3] == [("A", "stop"), ("B", "stop"), ("C", "stop")]


def test_one_runs_at_a_time_there_and_back(
    three: TimeSlices, qemus: list[Qemu], log: list[tuple[str, str]]
) -> None:
    for slot, qemu in zip(three.slots, qemus, strict=True):
        measured(slot, qemu)
    until(lambda: len(log) > 60)
    ran = "".join(name for name, command in log if command == "cont")
    assert ran.startswith("ABCCBAABCCBA")
    running: set[str] = set()
    for name, command in log[3:]:
        running ^= {name}
        assert len(running) <= 1, command


def test_slices_are_equally_long(qemus: list[Qemu], log: list[tuple[str, str]]) -> None:
    with TimeSlices(3) as three:
        for slot, qemu in zip(three.slots, qemus, strict=True):
            measured(slot, qemu)
        until(lambda: len(log) > 60)
    counts = {name: log.count((name, "cont")) for name in "ABC"}
    assert max(counts.values()) - min(counts.values()) <= 1
    for slot, name in zip(three.slots, "ABC", strict=True):
        assert slot.ran_s == pytest.approx(counts[name] * time_slices.SLICE_S)


def test_who_was_measured_runs_on_freely_and_the_others_without_it(
    three: TimeSlices, qemus: list[Qemu], log: list[tuple[str, str]]
) -> None:
    for slot, qemu in zip(three.slots, qemus, strict=True):
        measured(slot, qemu)
    until(lambda: len(log) > 20)
    assert three.slots[1].company() == {1}
    measured(three.slots[0], qemus[0], yes=False)
    before = len(log)
    assert qemus[0].running
    until(lambda: len(log) > before + 20)
    assert {name for name, _ in log[before + 2 :]} == {"B", "C"}
    assert qemus[0].running
    assert three.slots[0].ran_s is None
    assert three.slots[1].company() is None


def test_nobody_waits_for_a_guest_that_never_comes(
    three: TimeSlices, qemus: list[Qemu], log: list[tuple[str, str]]
) -> None:
    for slot, qemu in zip(three.slots[:2], qemus, strict=False):
        measured(slot, qemu)
    with three.slots[2]:
        pass  # its guest did not even start
    until(lambda: len(log) > 20)


def test_a_guest_that_is_gone_does_no_harm(
    tmp_path: Path, qemus: list[Qemu], log: list[tuple[str, str]]
) -> None:
    with TimeSlices(2) as two:
        measured(two.slots[0], qemus[0])
        two.slots[1].follow(GUEST, tmp_path / "nobody", measured=True)
        until(lambda: log.count(("A", "cont")) > 5)


def test_the_company_is_all_guests_that_take_slices(three: TimeSlices, qemus: list[Qemu]) -> None:
    processes = [{1}, {2, 3}]
    for slot, qemu, members in zip(three.slots, qemus, processes, strict=False):
        guest = cast("Process", SimpleNamespace(members=lambda members=members: members))
        slot.follow(guest, qemu.path, measured=True)
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
