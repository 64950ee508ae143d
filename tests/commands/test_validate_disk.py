# SPDX-License-Identifier: GPL-2.0-or-later
"""A loop disk's reads: simulated beside measured, by scheduler and number of processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from examples import KERNEL

from lab.base.progress import Progress
from lab.commands import validate_disk
from lab.inputs import machine_model
from lab.measure import loop_disk
from lab.measure.primitives import Measured, Primitive, Repetition
from lab.measure.session import Session
from lab.report import tables


def reads(ns: float, scheduler: str, processes: int) -> Measured:
    return {Primitive(f"disk-{scheduler}", 0, processes): [Repetition(ns)] * 3}


def test_reads_per_second_are_compared_and_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []

    def kernel(spec: str, patches: tuple[()], fragments: tuple[str, ...]) -> object:
        built.append(fragments)
        return KERNEL

    session = SimpleNamespace(fragments=("base",), kernel=kernel, testbed=None, progress=Progress())
    measured = {**reads(1000.0, "none", 1), **reads(500.0, "none", 2)}
    measured |= {**reads(2000.0, "bfq", 1), **reads(4000.0, "bfq", 2)}
    measured[Primitive("add", 0, 2)] = [Repetition(20.0)]
    simulated = {**reads(2500.0, "bfq", 1), **reads(4000.0, "bfq", 2), **reads(1000.0, "none", 1)}
    simulated |= reads(400.0, "none", 2)
    monkeypatch.setattr(loop_disk, "simulated", lambda *_: simulated)
    model = machine_model.get("emr16")
    (table,) = validate_disk.tables("mine", measured, model, cast(Session, session))
    assert built == [("base", "distro")]
    assert table.rows == (
        ("none", "1", "1,000,000", "1,000,000", "+0.0 %"),
        ("none", "2", "2,000,000", "2,500,000", "+25.0 %"),
        ("bfq", "1", "500,000", "400,000", "-20.0 %"),
        ("bfq", "2", "250,000", "250,000", "+0.0 %"),
    )
    assert table.curves is not None
    assert table.curves.values["bfq (simulated)"] == (400e3, 250e3)
    assert "4 points: mean error 11.2 %, worst 25 %" in tables.text(table).replace("\n", " ")


def test_a_machine_without_such_reads_needs_no_kernel() -> None:
    nothing = cast(Session, SimpleNamespace())
    assert not validate_disk.tables("mine", {}, machine_model.get("emr16"), nothing)
