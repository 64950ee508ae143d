# SPDX-License-Identifier: GPL-2.0-or-later
"""What counts as the host having disturbed a guest."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lab.guest import host_noise
from lab.guest.host_noise import LIMITS, PREFIX, Reading

QEMU = 42
NS, TICKS, US = 1e9, os.sysconf("SC_CLK_TCK"), 1e6


class Host:
    """A /proc in a folder, written by tests."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.cpus(0)
        self.pressure(0)

    def thread(self, number: int, name: str, delay_s: float, process: int = QEMU) -> None:
        folder = self.top / f"proc/{process}/task/{number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "comm").write_text(f"{name}\n")
        (folder / "schedstat").write_text(f"{9 * NS:.0f} {delay_s * NS:.0f} 77\n")

    def cpus(self, stolen_s: float, busy_s: float = 0) -> None:
        fields = [1 + round(busy_s * TICKS), 2, 3, 4, 5, 6, 7, round(stolen_s * TICKS), 9, 10]
        (self.top / "proc").mkdir(exist_ok=True)
        (self.top / "proc/stat").write_text(
            f"cpu  {' '.join(map(str, fields))}\ncpu0 {' '.join(['99999'] * 10)}\n"
        )

    def pressure(self, waited_s: float) -> None:
        (self.top / "proc/pressure").mkdir(exist_ok=True)
        (self.top / "proc/pressure/cpu").write_text(
            f"some avg10=1.50 avg60=2.00 avg300=3.00 total={waited_s * US:.0f}\n"
            "full avg10=0.00 avg60=0.00 avg300=0.00 total=999999999\n"
        )

    def read(self) -> Reading:
        reading = host_noise.reading([QEMU])
        assert reading
        return reading


@pytest.fixture
def fake_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host with one guest of two vCPUs."""

    def below(path: str) -> Path:
        return tmp_path / path.lstrip("/")

    monkeypatch.setattr(host_noise, "_PRESSURE", below("/proc/pressure/cpu"))
    monkeypatch.setattr(host_noise, "Path", below)
    host = Host(tmp_path)
    host.thread(43, "CPU 0/TCG", 1.0)
    host.thread(44, "CPU 1/TCG", 2.0)
    return host


def signals(before: Reading, after: Reading, seconds: float) -> dict[str, float]:
    """The signals, without their prefix, if so many seconds lie between the readings."""
    later = Reading(before.at + seconds, after.run_delay, after.totals)
    prefixed = host_noise.signals(before, later)
    return {name.removeprefix(PREFIX): value for name, value in prefixed.items()}


def test_signals_are_shares_of_the_time_between_two_readings(fake_host: Host) -> None:
    before = fake_host.read()
    fake_host.thread(43, "CPU 0/TCG", 1.1)
    fake_host.thread(44, "CPU 1/TCG", 2.4)
    fake_host.cpus(0.5 * (os.cpu_count() or 1))
    fake_host.pressure(0.05)
    measured = signals(before, fake_host.read(), 10)
    expected = {"run_delay": 4.0, "steal": 5.0, "pressure": 0.5, "others": 0.0}
    assert measured == pytest.approx(expected)


def test_cpu_time_is_that_of_others_unless_the_guest_or_the_lab_used_it(fake_host: Host) -> None:
    before = fake_host.read()
    fake_host.cpus(0, busy_s=4.0 * (os.cpu_count() or 1))
    assert signals(before, fake_host.read(), 10)["others"] == pytest.approx(40.0)
    fields = [0] * 11 + [
        round(3.0 * TICKS),
        round(1.0 * TICKS * (os.cpu_count() or 1) - 3.0 * TICKS),
    ]
    (fake_host.top / f"proc/{QEMU}/stat").write_text(f"7 (a) b) {' '.join(map(str, fields))} 0\n")
    assert signals(before, fake_host.read(), 10)["others"] == pytest.approx(30.0)


def test_only_vcpu_threads_of_the_given_processes_count(fake_host: Host) -> None:
    fake_host.thread(50, "qemu-system-x86", 5.0)
    fake_host.thread(51, "worker", 5.0)
    fake_host.thread(52, "CPU 0/KVM", 5.0, process=99)
    assert fake_host.read().run_delay == {43: 1.0, 44: 2.0}


def test_a_thread_that_came_or_went_between_the_readings_does_not_count(fake_host: Host) -> None:
    before = fake_host.read()
    fake_host.thread(45, "CPU 2/TCG", 9.0)
    shutil.rmtree(fake_host.top / f"proc/{QEMU}/task/44")
    assert signals(before, fake_host.read(), 10)["run_delay"] == 0


@pytest.mark.parametrize("processes", [[], [41]])
def test_without_the_guest_there_is_no_reading(fake_host: Host, processes: list[int]) -> None:
    assert host_noise.reading(processes) is None


@pytest.mark.parametrize(
    ("path", "content", "left"),
    [
        ("proc/pressure/cpu", None, {"run_delay", "steal", "others"}),
        ("proc/pressure/cpu", "", {"run_delay", "steal", "others"}),
        ("proc/stat", None, {"run_delay", "pressure"}),
        ("proc/stat", "cpu 1 2 3 4\n", {"run_delay", "pressure"}),
    ],
)
def test_what_a_host_does_not_tell_is_left_out(
    fake_host: Host, path: str, content: str | None, left: set[str]
) -> None:
    (fake_host.top / path).unlink()
    if content is not None:
        (fake_host.top / path).write_text(content)
    reading = fake_host.read()
    assert signals(reading, reading, 1).keys() == left


def test_two_readings_at_once_give_numbers(fake_host: Host) -> None:
    reading = fake_host.read()
    assert set(signals(reading, reading, 0).values()) == {0.0}


def disturbance(shares: Mapping[str, float], host_cpus: int = 8, *, shared: bool = False) -> str:
    """What disturbed a guest of two vCPUs with these signals, in percent."""
    values = {"iops": 1e9, **{f"{PREFIX}{name}": share for name, share in shares.items()}}
    return host_noise.disturbance(values, 2, host_cpus, shared=shared)


@pytest.mark.parametrize(
    ("shares", "host_cpus", "shared", "disturbed_by"),
    [
        ({}, 8, False, ""),
        (
            {"run_delay": 50, "steal": 0, "pressure": 60},
            8,
            False,
            "run delay 50.0 % (limit 0.5 %), pressure 60.0 % (limit 1 %)",
        ),
        # A guest with nearly as many vCPUs as the host has CPUs crowds itself.
        *(({"run_delay": 50, "pressure": 60, "others": 5}, cpus, False, "") for cpus in (1, 2, 3)),
        *(({"others": 6}, cpus, False, "others 6.0 % (limit 5 %)") for cpus in (1, 2, 3)),
        *(({"steal": 1}, cpus, False, "steal 1.0 % (limit 0.5 %)") for cpus in (1, 2, 3)),
        # Guests that take turns share what is stolen.
        ({"steal": 9}, 2, True, ""),
        ({"steal": 11}, 2, True, "steal 11.0 % (limit 10 %)"),
        ({"others": 6}, 2, True, "others 6.0 % (limit 5 %)"),
    ],
)
def test_signals_above_their_limits_are_named(
    shares: dict[str, float], host_cpus: int, shared: bool, disturbed_by: str
) -> None:
    assert disturbance(shares, host_cpus, shared=shared) == disturbed_by


@pytest.mark.parametrize("name", LIMITS)
def test_a_boot_is_disturbed_above_a_limit_not_at_it(name: str) -> None:
    limit = LIMITS[name]
    assert disturbance({name: limit}) == ""
    said = f"{name.replace('_', ' ')} {limit + 0.1:.1f} % (limit {limit:g} %)"
    assert disturbance({name: limit + 0.1}) == said


def test_every_signal_has_a_unit_and_a_limit() -> None:
    assert {f"{PREFIX}{name}" for name in LIMITS} == host_noise.METRICS.keys()


@pytest.fixture
def vcpu() -> Iterator[int]:
    """A thread of this process that is called like a vCPU."""
    named, done = threading.Event(), threading.Event()

    def wait() -> None:
        comm = Path(f"/proc/self/task/{threading.get_native_id()}/comm")
        comm.write_text("CPU 0/TCG")
        named.set()
        done.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    named.wait(10)
    yield thread.native_id or 0
    done.set()
    thread.join()


def test_a_real_host_is_read(vcpu: int) -> None:
    before = host_noise.reading([os.getpid()])
    after = host_noise.reading([os.getpid()])
    assert before
    assert after
    assert before.run_delay.keys() == {vcpu}
    assert before.at <= after.at
    assert all(value >= 0 for value in host_noise.signals(before, after).values())
    assert host_noise.signals(before, after).keys() <= host_noise.METRICS.keys()


def test_a_process_that_ends_while_it_is_read_has_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was there when the group was asked for, and is not when its threads are."""
    exists = Path.is_dir
    monkeypatch.setattr(Path, "is_dir", lambda path: "/proc/" in str(path) or exists(path))
    assert host_noise.reading([2**22 + 1]) is None
