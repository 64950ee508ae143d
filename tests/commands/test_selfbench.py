# SPDX-License-Identifier: GPL-2.0-or-later
"""The exact engine's benchmarks, on guests that are exact and on some that are not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import guests as fakes
import pytest
from guests import Guests

from lab.commands import selfbench


@pytest.fixture
def said(guests: Guests, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a benchmark says; nothing loads this host's cores meanwhile."""

    lines: list[str] = []

    @contextmanager
    def load(folder: Path) -> Iterator[None]:
        lines.append("loaded")
        yield

    monkeypatch.setattr(selfbench, "_load", load)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    guests.cost_of = lambda kernel: fakes.insns(submit_bio=1000.0)
    return lines


def test_equal_boots_are_exact_and_half_of_them_were_run_on_loaded_cores(
    said: list[str], guests: Guests
) -> None:
    proved = fakes.proved(fakes.kernel("proof"))
    assert selfbench.repetitions(proved, "nvme_mq", 4, said.append)
    assert len(guests.booted) == 4
    assert said.count("loaded") == 2
    assert said[-1] == "  4 of 4 identical"


def test_a_boot_that_differs_is_told_with_its_first_difference(
    said: list[str], guests: Guests
) -> None:
    guests.consoles = {1: "down\n", 3: "sideways\n"}
    proved = fakes.proved(fakes.kernel("proof"))
    assert not selfbench.repetitions(proved, "nullb_mq", 4, said.append)
    assert said[-1] == ("  2 of 4 identical; first: console.log, line 1: 'up' against 'down'")


@pytest.mark.parametrize(("console", "equal"), [("up\n", True), ("down\n", False)])
def test_guests_beside_each_other_must_be_equal_too(
    said: list[str], guests: Guests, console: str, equal: bool
) -> None:
    guests.consoles = {2: console}
    assert selfbench.side_by_side(fakes.proved(fakes.kernel("proof")), said.append) is equal
    assert len(guests.booted) == 3
    assert ("equal" if equal else "DIFFERENT") + " numbers" in said[-1]


def test_speed_tells_the_phases_of_one_and_of_two_vcpus(said: list[str], guests: Guests) -> None:
    selfbench.speed(fakes.proved(fakes.kernel("proof")), said.append)
    assert [line.partition(":")[0] for line in said] == ["1 vCPU", "2 vCPU"]
    assert all("workload 1.0 s" in line and "50 % measured" in line for line in said)
