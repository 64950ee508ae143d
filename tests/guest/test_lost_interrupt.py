# SPDX-License-Identifier: GPL-2.0-or-later
"""What QEMU says of a guest of which it lost an interrupt, and of guests that are well."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from monitor import Qemu

from lab.guest.lost_interrupt import lost_interrupt

DATA = Path(__file__).parents[1] / "data"
LOST, WELL = ((DATA / f"monitor-{name}.txt").read_text() for name in ("lapic-lost", "lapic"))
ASLEEP = (DATA / "monitor-registers.txt").read_text()
AWAKE = ASLEEP.replace("HLT=1", "HLT=0")


def diagnose(folder: Path, infos: Mapping[str, str]) -> str:
    """What is found of a guest; it runs on afterwards."""
    log: list[tuple[str, str]] = []
    qemu = Qemu(folder / "qmp", log, infos)
    said = lost_interrupt(qemu.path)
    assert [command for _, command in (log[0], log[-1])] == ["stop", "cont"]
    assert qemu.running
    return said


def test_a_vcpu_that_sleeps_inside_an_interrupt_lost_its_end(tmp_path: Path) -> None:
    said = diagnose(tmp_path, {"registers -a": ASLEEP, "lapic 0": WELL, "lapic 1": LOST})
    assert said == "vCPU 1 sleeps with interrupt vector 236 in service"


@pytest.mark.parametrize(
    ("registers", "lapic"),
    [(ASLEEP, WELL), (AWAKE, LOST), ("", LOST)],
    ids=["no interrupt in service", "an interrupt being handled", "no answer"],
)
def test_any_other_guest_is_well(tmp_path: Path, registers: str, lapic: str) -> None:
    assert not diagnose(tmp_path, {"registers -a": registers, "lapic 0": lapic, "lapic 1": lapic})


def test_a_guest_that_is_gone_lost_nothing(tmp_path: Path) -> None:
    assert not lost_interrupt(tmp_path / "qmp")
