# SPDX-License-Identifier: GPL-2.0-or-later
"""Somebody's patches: what changes is told by size, and the patch that breaks it is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import guests as fakes
import pytest
from guests import FakeSession, Guests

from lab.base.errors import BuildError, GuestError, LabError
from lab.build.kernel import Kernel
from lab.commands import cost_diff, result_tables, try_patches
from lab.commands.cost_diff import CellChange
from lab.commands.try_patches import SeriesStep, Subject
from lab.inputs import profile
from lab.inputs.terms import Engine
from lab.measure.cell import PlannedCell
from lab.measure.cost import Change
from lab.measure.matrix import Selection
from lab.report import tables

QUICK = profile.get("quick")
CELL = fakes.planned(fakes.cell("nullb_mq", "none", engine=Engine.EXACT, cpus=1))
PATCHES = tuple(Path(f"/series/{number:04}-step.patch") for number in range(1, 5))


def change(
    before: float, after: float, planned: PlannedCell, *, layer: tuple[float, float] | None = None
) -> CellChange:
    """A cell that costs so much, and its block layer as much or what is given, with each seed."""
    function = Change("submit_bio", before, after, sure=True)
    cell_change = fakes.cell_change(planned, (before, after), layer or (before, after))
    return replace(cell_change, functions=(function,) if before != after else ())


def level(kernel: str) -> int:
    """How many patches a kernel has."""
    return kernel.count("+")


@pytest.fixture
def session(guests: Guests) -> FakeSession:
    """A session whose kernels cost as many instructions more as they have patches."""
    guests.cost_of = lambda kernel: fakes.insns(submit_bio=1000.0 + level(kernel))
    return FakeSession(QUICK)


def tried(session: FakeSession, *, each: bool = False) -> list[SeriesStep]:
    subject = Subject("debian:6.12", PATCHES)
    return try_patches.run(subject, [CELL], session, each=each)


def breaks(guests: Guests, culprit: int, error: GuestError) -> None:
    """Let every kernel with so many patches fail."""
    guests.says = lambda job: error if level(job.task.kernel.id) >= culprit else {}


def test_a_series_is_measured_as_a_whole(session: FakeSession) -> None:
    (step,) = tried(session)
    assert step.changes[0].values == (1000.0, 1004.0)
    assert list(map(level, session.requested)) == [0, 4]


def test_each_patch_is_compared_with_the_one_before(session: FakeSession) -> None:
    steps = tried(session, each=True)
    assert [step.changes[0].values for step in steps] == [
        (1000.0 + n, 1001.0 + n) for n in range(4)
    ]
    assert [step.title for step in steps] == [patch.name for patch in PATCHES]
    assert not any(step.broken for step in steps)


@pytest.mark.parametrize("culprit", [1, 2, 4])
@pytest.mark.parametrize("each", [False, True])
def test_the_patch_that_does_not_build_is_named(
    session: FakeSession, culprit: int, each: bool
) -> None:
    error = BuildError("blk-mq.c:1: expected ;", where="log")
    session.failing[PATCHES[culprit - 1].name] = error
    with pytest.raises(BuildError, match=rf"000{culprit}-step.patch \(patch {culprit} of 4\)"):
        tried(session, each=each)


def test_a_patch_that_does_not_apply_is_named_without_a_search(session: FakeSession) -> None:
    error = BuildError("it does not apply", where=str(PATCHES[1]))
    session.failing[PATCHES[1].name] = error
    with pytest.raises(BuildError, match="it does not apply"):
        tried(session)
    assert list(map(level, session.requested)) == [0, 4]


@pytest.mark.parametrize("culprit", [1, 3, 4])
@pytest.mark.parametrize("outcome", ["panic", "hang"])
def test_the_patch_that_breaks_the_kernel_is_named(
    session: FakeSession, guests: Guests, culprit: int, outcome: str
) -> None:
    breaks(guests, culprit, GuestError(outcome, "BUG: x", where="console.log"))
    for each in (False, True):
        steps = tried(session, each=each)
        assert [bool(step.broken) for step in steps] == [False] * (len(steps) - 1) + [True]
        said = steps[-1].broken
        assert f"000{culprit}-step.patch (patch {culprit} of 4) breaks the kernel" in said
        assert f"{outcome}: BUG: x" in said


@pytest.mark.usefixtures("session")
def test_a_patch_that_does_not_build_alone_is_not_the_one_that_breaks(guests: Guests) -> None:
    """Of four patches the third breaks; the second builds only with it."""
    breaks(guests, 3, GuestError("panic", "BUG: x"))

    class Second(FakeSession):
        """Only the kernel with just two patches does not build."""

        def kernel(
            self, spec: str = "", patches: Sequence[Path] = (), fragments: Sequence[str] = ()
        ) -> Kernel:
            if len(patches) == 2:
                raise BuildError("undefined reference")
            return super().kernel(spec, patches, fragments)

    (step,) = tried(Second(QUICK))
    assert "0003-step.patch (patch 3 of 4) breaks the kernel" in step.broken


@pytest.mark.parametrize(
    ("culprit", "outcome"), [(0, "panic"), (4, "died")], ids=["broken-tree", "dead-qemu"]
)
def test_what_the_patches_do_not_do_is_the_labs_error(
    session: FakeSession, guests: Guests, culprit: int, outcome: str
) -> None:
    breaks(guests, culprit, GuestError(outcome, "BUG"))
    with pytest.raises(LabError, match="nullb_mq none randread_burst failed: BUG"):
        tried(session)


def test_a_change_that_chance_hides_is_told_beside_it() -> None:
    hidden = change(1000.0, 998.0, CELL, layer=(500.0, 502.5))
    by_chance = change(1000.0, 1001.0, CELL, layer=(500.0, 500.0))
    text = "\n".join(map(tables.text, result_tables.of_changes([hidden, by_chance])))
    (row,) = (line for line in text.splitlines() if "-0.20" in line)
    assert "+0.50" in row
    assert "0 of 2 cells are equal to the last digit, 1 differ by no more than chance." in text


def test_what_changed_is_told_by_size() -> None:
    cells = [replace(CELL, cell=replace(CELL.cell, topology=f"disk{n}")) for n in range(4)]
    changes = [
        change(1000.0, value, cell)
        for value, cell in zip((1002.0, 900.0, 1000.0, 1050.0), cells, strict=True)
    ]
    shown = result_tables.of_changes(sorted(changes, key=cost_diff.by_size))
    text = "\n".join(map(tables.text, shown))
    order = [text.index(f"disk{number}") for number in (1, 3, 0)]
    assert order == sorted(order)
    assert "disk2" not in text
    assert "1 of 4 cells are equal to the last digit" in text
    assert "submit_bio" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_exact_cells_are_those_of_fio_on_every_disk() -> None:
    cells = [planned.cell for planned in cost_diff.cells(QUICK, Selection())]
    assert {cell.topology for cell in cells} == {"nullb_mq", "nvme_mq", "megasas", "raid64"}
    assert {cell.scheduler for cell in cells} == {"none", "mq-deadline", "bfq", "kyber"}
    assert all(cell.workload != "dbench_xfs" for cell in cells)


def test_options_that_patches_change_are_told(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(before: Kernel, after: Kernel) -> tuple[str, ...]:
        return ("CONFIG_KASAN: n -> y",) if level(before.id) < 2 <= level(after.id) else ()

    monkeypatch.setattr(try_patches, "changed_options", changed)
    steps = tried(session, each=True)
    assert [bool(step.configuration) for step in steps] == [False, True, False, False]
    text = "".join(map(tables.text, result_tables.of_steps(steps)))
    assert text.count("configuration differs, too: CONFIG_KASAN: n -> y") == 1


def test_what_a_kernel_complains_of_counts_although_its_guests_end_well(
    session: FakeSession, guests: Guests
) -> None:
    guests.complaints = lambda job: ("WARNING in dd_x()",) * (level(job.task.kernel.id) >= 2)
    *good, bad = tried(session, each=True)
    assert [step.broken for step in good] == [""]
    assert bad.title == PATCHES[1].name
    assert bad.broken.startswith("WARNING in dd_x() in 3 of 3 boots with the patches, in 0 of 3")
    assert "REFUTED: WARNING in dd_x()" in tables.text(result_tables.of_steps([bad])[-1])


def test_what_every_kernel_complains_of_is_told_and_not_held_against_the_patches(
    session: FakeSession, guests: Guests
) -> None:
    guests.complaints = lambda job: ("WARNING in some_driver()",)
    (step,) = tried(session)
    assert step.broken == ""
    assert "WARNING in some_driver() in 6 of 6" in tables.text(result_tables.of_steps([step])[-1])
