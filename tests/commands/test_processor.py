# SPDX-License-Identifier: GPL-2.0-or-later
"""Which generation a processor is of, as /proc/cpuinfo tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.commands import processor


@pytest.fixture
def cpuinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that stands for /proc/cpuinfo."""
    monkeypatch.setattr(processor, "_CPUINFO", tmp_path / "cpuinfo")
    return tmp_path / "cpuinfo"


@pytest.mark.parametrize(
    ("vendor", "family", "model", "expected"),
    [
        ("GenuineIntel", "6", 0x55, 1.43),  # Cascade Lake
        ("GenuineIntel", "6", 0x6A, 1.43 * 1.18),  # Ice Lake
        ("GenuineIntel", "6", 0xCF, 1.43 * 1.18 * 1.19),  # Emerald Rapids
        ("AuthenticAMD", "23", 0x31, 1.43),  # Rome
        ("AuthenticAMD", "25", 0x01, 1.43 * 1.19),  # Milan
        ("AuthenticAMD", "25", 0x11, 1.43 * 1.19 * 1.13),  # Genoa
        ("AuthenticAMD", "26", 0x02, 1.43 * 1.19 * 1.13 * 1.16),  # Turin
        ("AuthenticAMD", "?", 0x02, 1.43),
    ],
)
def test_a_newer_generation_executes_more_in_a_cycle(
    vendor: str, family: str, model: int, expected: float, cpuinfo: Path
) -> None:
    one = f"vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: X\n"
    cpuinfo.write_text(f"{one}\n{one}")
    assert processor.instructions_a_cycle() == pytest.approx(expected)


def test_a_processor_that_tells_nothing_is_taken_for_a_skylake(cpuinfo: Path) -> None:
    cpuinfo.write_text("processor\t: 0\nBogoMIPS\t: 200.00\n")
    assert processor.instructions_a_cycle() == processor.SKYLAKE
