# SPDX-License-Identifier: GPL-2.0-or-later
"""What `lab try` shows: per step the cells that differ, the functions, and what broke."""

from __future__ import annotations

from dataclasses import replace

import guests as fakes

from lab.base.errors import GuestError
from lab.commands import result_tables
from lab.commands.cost_diff import CellChange
from lab.commands.try_patches import SeriesStep
from lab.inputs.terms import Engine
from lab.measure.cost import Change
from lab.report import tables

CELL = fakes.planned(fakes.cell("nullb_mq", "none", engine=Engine.EXACT, cpus=1))


def change(before: float, after: float | None, *functions: Change) -> CellChange:
    """A cell that costs so much with each seed, or whose patched kernel breaks."""
    if after is None:
        return fakes.cell_change(CELL, (before, GuestError("panic", "BUG")))
    return replace(fakes.cell_change(CELL, (before, after)), functions=functions)


def shown(*changes: CellChange, broken: str = "") -> str:
    """All tables of one step, runs of blanks as one."""
    step = SeriesStep("0001-x.patch", changes, broken)
    text = "\n".join(map(tables.text, result_tables.of_steps([step])))
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def test_what_differs_is_shown_by_cell_and_by_function() -> None:
    functions = Change("submit_bio", 90.0, 100.0, sure=True), Change("x", 1.0, 1.001)
    text = shown(change(1000.0, 1010.0, *functions), change(1000.0, 1000.0))
    assert text.startswith("0001-x.patch\n")
    assert "nullb_mq none randread_burst 1,000 1,010 +1.00 % +1.00 ±0 %" in text
    assert "1 of 2 cells are equal to the last digit." in text
    assert "submit_bio 90.00 100.00 +10.00" in text
    assert "1 more +0.00" in text


def test_a_change_however_small_does_not_read_as_none() -> None:
    text = shown(change(100_000.0, 100_103.0, Change("submit_bio", 1.0, 104.0)))
    assert "100,000 100,103 +0.10 % +0.10 ±0 %" in text


def test_equal_kernels_make_no_table() -> None:
    assert shown(change(1.0, 1.0)) == "0001-x.patch\n\n1 of 1 cells are equal to the last digit."


def test_a_kernel_that_breaks_is_named() -> None:
    text = shown(change(1000.0, None), broken="0001-x.patch (patch 1 of 1) breaks the kernel")
    assert "1,000 - failed" in text
    assert "nullb_mq none randread_burst: the second kernel failed: " in text
    assert "REFUTED: 0001-x.patch (patch 1 of 1) breaks the kernel" in text
