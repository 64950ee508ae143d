# SPDX-License-Identifier: GPL-2.0-or-later
"""Somebody's patches: what changes is told by size, and the patch that breaks it is named."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.base.errors import BuildError, GuestError, LabError
from lab.base.progress import Progress
from lab.commands import cost_diff, try_patches
from lab.commands.cost_diff import CellChange
from lab.commands.try_patches import Subject
from lab.inputs import profile
from lab.inputs.terms import Engine
from lab.measure import session
from lab.measure.boot_store import BootStore, Stored
from lab.measure.cell import Cell
from lab.measure.cost import Change, Cost
from lab.measure.matrix import Selection
from lab.measure.runner import Outcome, Runner

QUICK = profile.get("quick")
CELL = Cell("nullb_mq", "none", "randread_burst", (("numjobs", 10),), Engine.ICOUNT, 1)
PATCHES = tuple(Path(f"/series/{number:04}-step.patch") for number in range(1, 5))


def boot(cost: float) -> Stored:
    return Stored("id", "ok", "", 1.0, {cost_diff.METRIC: cost}, {})


def change(before: float | GuestError, after: float | GuestError, cell: Cell = CELL) -> CellChange:
    sides = [
        Outcome(cell, (), own) if isinstance(own, GuestError) else Outcome(cell, (boot(own),))
        for own in (before, after)
    ]
    functions: tuple[Change, ...] = ()
    if isinstance(before, float) and isinstance(after, float) and before != after:
        functions = (Change("submit_bio", before, after),)
    return CellChange(cell, sides[0], sides[1], functions)


class Kernels:
    """Kernels that cost as many instructions as they have patches, but for those that break."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, broken: dict[int, LabError]) -> None:
        self.broken = broken
        self.built: list[int] = []
        monkeypatch.setattr(session, "prepare", lambda *a, **k: SimpleNamespace(kernel=0))
        monkeypatch.setattr(session, "prepare_kernel", self._kernel)
        monkeypatch.setattr(session, "measuring", lambda *a, **k: nullcontext())
        monkeypatch.setattr(cost_diff, "measure", self._measure)
        monkeypatch.setattr(Runner, "__init__", lambda *a: None)
        monkeypatch.setattr(Runner, "all", self._all)

    def _kernel(self, spec: str, patches: Sequence[Path], *rest: object) -> int:
        self.built.append(len(patches))
        for level, error in self.broken.items():
            if len(patches) >= level and isinstance(error, BuildError):
                raise error
        return len(patches)

    def _value(self, kernel: int) -> float | GuestError:
        for level, error in self.broken.items():
            if kernel >= level and isinstance(error, GuestError):
                return error
        return 1000.0 + kernel

    def _measure(
        self, testbed: object, kernels: tuple[int, int], *rest: object
    ) -> list[CellChange]:
        return [change(self._value(kernels[0]), self._value(kernels[1]))]

    def _all(self, tasks: Sequence[Any], boots: int, *, sealed: bool) -> list[Outcome]:
        return [change(0.0, self._value(task.kernel)).after for task in tasks]


def tried(tmp_path: Path, each: bool = False) -> list[try_patches.SeriesStep]:
    subject = Subject("debian:6.12", PATCHES, ("base",))
    _, found = try_patches.run(subject, [CELL], QUICK, BootStore(tmp_path), Progress(), each=each)
    return found


def test_a_series_is_measured_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = Kernels(monkeypatch, {})
    (found,) = tried(tmp_path)
    assert found.found[0].values == (1000.0, 1004.0)
    assert kernels.built == [4]


def test_each_patch_is_compared_with_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Kernels(monkeypatch, {})
    found = tried(tmp_path, each=True)
    assert [one.found[0].values for one in found] == [(1000.0 + n, 1001.0 + n) for n in range(4)]
    assert [one.title for one in found] == [patch.name for patch in PATCHES]


@pytest.mark.parametrize("culprit", [1, 2, 4])
def test_the_patch_that_does_not_build_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, culprit: int
) -> None:
    Kernels(monkeypatch, {culprit: BuildError("blk-mq.c:1: expected ;", where="log")})
    with pytest.raises(BuildError, match=rf"000{culprit}-step.patch \(patch {culprit} of 4\)"):
        tried(tmp_path)


def test_a_patch_that_does_not_apply_is_named_without_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = Kernels(monkeypatch, {2: BuildError("it does not apply", where=str(PATCHES[1]))})
    with pytest.raises(BuildError, match="it does not apply"):
        tried(tmp_path)
    assert kernels.built == [4]


@pytest.mark.parametrize("culprit", [1, 3, 4])
@pytest.mark.parametrize("outcome", ["panic", "hang"])
def test_the_patch_that_breaks_the_kernel_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, culprit: int, outcome: str
) -> None:
    Kernels(monkeypatch, {culprit: GuestError(outcome, "BUG: x", where="console.log")})
    for each in (False, True):
        found = tried(tmp_path, each)[-1]
        assert f"000{culprit}-step.patch (patch {culprit} of 4) breaks the kernel" in found.broken
        assert f"{outcome}: BUG: x" in found.broken


def test_a_tree_that_is_broken_before_the_patches_is_the_labs_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Kernels(monkeypatch, {0: GuestError("panic", "BUG")})
    with pytest.raises(LabError, match="nullb_mq none randread_burst failed: BUG"):
        tried(tmp_path)


def measured(
    costs: dict[str, float | GuestError], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[CellChange]:
    """Cells that cost 1,000 instructions before, all in one function, and these after, by disk."""

    def booted(self: Runner, tasks: Sequence[Any], boots: int, *, sealed: bool) -> list[Outcome]:
        found = []
        for task in tasks:
            after = task.cell.arm == "after"
            one = costs[task.cell.topology] if after else 1000.0
            if isinstance(one, GuestError):
                found.append(Outcome(task.cell, (), one))
            else:
                found.append(Outcome(task.cell, (replace(boot(one), id=str(one)),)))
        return found

    monkeypatch.setattr(session, "measuring", lambda *a, **k: nullcontext())
    monkeypatch.setattr(Runner, "__init__", lambda *a: None)
    monkeypatch.setattr(Runner, "all", booted)
    monkeypatch.setattr(BootStore, "cost", lambda self, boot: Cost(0, {"submit_bio": float(boot)}))
    cells = [Cell(disk, "none", "w", (), Engine.ICOUNT) for disk in costs]
    testbed, kernels = cast("Any", None), cast("Any", ("old", "new"))
    return cost_diff.measure(testbed, kernels, cells, BootStore(folder), Progress())


def test_what_changed_is_told_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    costs: dict[str, float | GuestError] = {"disk0": 1001.0, "disk1": 900.0, "disk2": 1000.0}
    text = cost_diff.text(measured({**costs, "disk3": 1050.0}, tmp_path, monkeypatch))
    order = [text.index(f"disk{number}") for number in (1, 3, 0)]
    assert order == sorted(order)
    assert "disk2" not in text
    assert "1 of 4 cells are equal to the last digit" in text
    assert "submit_bio" in text
    assert max(map(len, text.splitlines())) <= 80


def test_cells_that_failed_are_told_before_all_that_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs: dict[str, float | GuestError] = {"disk0": 1500.0, "disk1": GuestError("panic", "BUG")}
    found = measured(costs, tmp_path, monkeypatch)
    assert [one.cell.topology for one in found] == ["disk1", "disk0"]


def test_the_exact_cells_are_those_of_disks_inside_the_guest() -> None:
    found = cost_diff.cells(QUICK, Selection())
    assert {cell.topology for cell in found} == {"nullb_mq", "raid64"}
    assert {cell.scheduler for cell in found} == {"none", "mq-deadline", "bfq", "kyber"}
    assert all(cell.workload != "dbench_xfs" for cell in found)
