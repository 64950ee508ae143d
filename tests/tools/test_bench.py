# SPDX-License-Identifier: GPL-2.0-or-later
"""The exact engine's benchmarks, on guests that are exact and on some that are not."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import guests as fakes
import pytest
from guests import Guests

from lab.base.errors import LabError
from lab.base.process import Result
from lab.base.progress import Progress
from lab.measure.job import Testbed
from tools import bench


@pytest.fixture
def said(guests: Guests, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What a benchmark says; nothing loads this host's cores meanwhile."""

    lines: list[str] = []

    @contextmanager
    def load(folder: Path) -> Iterator[None]:
        lines.append("loaded")
        yield

    monkeypatch.setattr(bench, "_every_core_loaded", load)
    monkeypatch.setattr(click, "echo", lines.append)
    monkeypatch.setattr(bench, "FOLDER", tmp_path / "bench")
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    guests.cost_of = lambda kernel: fakes.insns(submit_bio=1000.0)
    return lines


@pytest.fixture
def base() -> Testbed:
    return fakes.checked_testbed(fakes.kernel("base"))


def test_equal_boots_are_exact_and_half_of_them_were_run_on_loaded_cores(
    said: list[str], base: Testbed, guests: Guests
) -> None:
    assert bench.repeated_boots_are_equal(base, "nvme_mq", 4)
    assert len(guests.booted) == 4
    assert said.count("loaded") == 2
    assert said[-1] == "  4 of 4 identical"


def test_a_boot_that_differs_is_told_with_its_first_difference(
    said: list[str], base: Testbed, guests: Guests
) -> None:
    guests.consoles = {1: "down\n", 3: "sideways\n"}
    assert not bench.repeated_boots_are_equal(base, "nullb_mq", 4)
    assert said[-1] == "  2 of 4 identical; first: console.log, line 1: 'up' against 'down'"


@pytest.mark.parametrize(("console", "equal"), [("up\n", True), ("down\n", False)])
def test_guests_beside_each_other_must_be_equal_too(
    said: list[str], base: Testbed, guests: Guests, console: str, equal: bool
) -> None:
    guests.consoles = {2: console}
    assert bench.boots_side_by_side_are_equal(base) is equal
    assert len(guests.booted) == 3
    assert ("equal" if equal else "DIFFERENT") + " numbers" in said[-1]


def test_speed_tells_the_phases_of_one_and_of_two_vcpus(said: list[str], base: Testbed) -> None:
    bench.time_phases(base)
    assert [line.partition(":")[0] for line in said] == ["1 vCPU", "2 vCPU"]
    assert all("workload 1.0 s" in line and "50 % measured" in line for line in said)


def test_throughput_is_told_for_one_cpu_of_the_host(
    said: list[str], base: Testbed, guests: Guests
) -> None:
    bench.time_small_cells(base, 5, Progress(out=io.StringIO()))
    assert sorted(job.cell.seed for job in guests.booted) == [1, 2, 3, 4, 5]
    assert guests.together == 1
    assert len(set(guests.host_cpus)) == 1
    assert re.search(r"^5 cells of .* [0-9,]+ cells a core-hour; 50 % of their", said[-1])


def _plain_vng(
    monkeypatch: pytest.MonkeyPatch, status: int, console: str
) -> list[tuple[list[str], str]]:
    """A vng that ends so; returns what is run, and the path where it is looked up."""
    ran: list[tuple[list[str], str]] = []

    def run(argv: list[str], *, env: dict[str, str], **_: object) -> Result:
        ran.append((argv, env["PATH"]))
        return Result(status, console)

    monkeypatch.setattr(bench, "run", run)
    return ran


@pytest.mark.parametrize(
    ("status", "console"),
    [
        (0, ""),
        (255, "[    2.497823] virtme-ng-init: script exited with code 0\nreboot: Power down\n"),
    ],
    ids=["with udev", "without"],
)
def test_the_first_command_is_compared_with_plain_vngs(
    said: list[str],
    base: Testbed,
    guests: Guests,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    console: str,
) -> None:
    ran = _plain_vng(monkeypatch, status, console)
    guests.phases_s = {"boot": 2.0}
    bench.time_first_command(base)
    [(argv, path)] = ran
    assert "--exec" in argv
    # It is that of the environment, which need not be on the user's path, as its helper.
    assert path.startswith(f"{Path(sys.executable).parent}:")
    assert said[-1].startswith("first command after 2.0 s in a deterministic guest, ")


def test_a_plain_guest_that_runs_no_command_is_no_comparison(
    said: list[str], base: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    _plain_vng(monkeypatch, 255, "booting\nKernel panic - not syncing: no init\n")
    with pytest.raises(LabError, match=r"ran no command .* status 255, .*no init"):
        bench.time_first_command(base)
    assert not said


def test_a_variant_is_built_after_a_kernel_from_nothing(
    said: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[tuple[list[str], bool]] = []

    def run(argv: list[str], env: dict[str, str], timeout_s: float) -> None:
        ran.append((argv[4:], any(Path(env["LAB_CACHE"]).iterdir())))

    monkeypatch.setattr(bench, "run", run)
    bench.time_builds(tmp_path / "0001.patch")
    assert ran == [(["build"], False), (["build", "--patch", str(tmp_path / "0001.patch")], False)]
    assert "ratio" in said[-1]
