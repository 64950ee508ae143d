# SPDX-License-Identifier: GPL-2.0-or-later
"""Which cells a profile and a user's selection come to."""

from __future__ import annotations

from typing import Any

import pytest

from lab.base import toml
from lab.base.errors import UsageError
from lab.inputs import profile, workload
from lab.inputs.profile import Block, Profile
from lab.inputs.terms import Engine
from lab.inputs.workload import Value
from lab.measure import matrix
from lab.measure.cell import Cell, PlannedCell
from lab.measure.matrix import SCHEDULERS, Selection

FIO = {"randwrite_uring", "randread_burst", "seqread_streams"}
TOPOLOGIES = {"nullb_mq", "nvme_mq", "megasas", "raid64"}


def plan(selection: Selection | None = None) -> list[PlannedCell]:
    """The quick profile's matrix."""
    return matrix.cells(profile.get("quick"), selection or Selection(), Engine.TCG)


def quick(selection: Selection | None = None) -> list[Cell]:
    """The quick profile's cells."""
    return [planned.cell for planned in plan(selection)]


def small(**changes: Any) -> Profile:
    """A profile with one cell, or another one of these."""
    block = {"topologies": ("raid64",), "schedulers": ("bfq",), "workloads": ("randread_burst",)}
    chosen = {name: (changes.pop(name),) for name in [*block] if name in changes}
    return Profile(
        title="small", kernel=("base",), matrix=(Block(**{**block, **chosen}),), **changes
    )


def parameters(cell: Cell) -> dict[str, Value]:
    return dict(cell.parameters)


def test_the_quick_profile_has_every_scheduler_on_every_topology() -> None:
    cells = {(c.workload, c.topology, c.scheduler) for c in quick() if c.workload in FIO}
    assert cells == {(w, t, s) for w in FIO for t in TOPOLOGIES for s in SCHEDULERS}


def test_a_profile_sweeps_dbenchs_clients() -> None:
    every = matrix.cells(profile.get("standard"), Selection(), Engine.TCG)
    cells = [planned.cell for planned in every if planned.cell.workload == "dbench_xfs"]
    assert {(c.scheduler, parameters(c)["clients"]) for c in cells} == {
        (scheduler, clients) for scheduler in SCHEDULERS for clients in (1, 2, 4, 8, 16, 32, 64)
    }
    assert {c.topology for c in cells} == {"raid64"}


@pytest.mark.parametrize("name", toml.names(profile.FOLDER))
def test_no_profile_measures_a_cell_twice(name: str) -> None:
    cells = matrix.cells(profile.get(name), Selection(), Engine.TCG)
    assert len(cells) == len(set(cells)) == len({str(cell) for cell in cells})


def test_overlapping_blocks_give_a_cell_once() -> None:
    single = small()
    twice = single.model_copy(update={"matrix": single.matrix * 2})
    assert matrix.cells(twice, Selection(), Engine.TCG) == matrix.cells(
        single, Selection(), Engine.TCG
    )


def test_a_profile_shortens_the_workloads() -> None:
    shortened = profile.get("quick").parameters
    for cell in quick():
        if cell.workload in FIO:
            wanted = shortened[cell.workload]["seconds"]
            assert parameters(cell)["seconds"] == wanted
            assert wanted != workload.get(cell.workload).parameters["seconds"]


def test_the_engine_is_part_of_a_cell() -> None:
    (planned,) = matrix.cells(small(), Selection(), Engine.EXACT)
    assert planned.cell.engine is Engine.EXACT


def test_a_selection_leaves_what_it_names() -> None:
    cells = quick(Selection(("megasas",), ("bfq", "none"), ("randread_burst",)))
    assert {(c.topology, c.scheduler, c.workload) for c in cells} == {
        ("megasas", scheduler, "randread_burst") for scheduler in ("bfq", "none")
    }


@pytest.mark.parametrize(
    ("selection", "hint"),
    [
        (Selection(schedulers=("bqf",)), "did you mean 'bfq'"),
        (Selection(schedulers=("deadline",)), "did you mean 'mq-deadline'"),
        (Selection(topologies=("nvme_qm",)), "did you mean 'nvme_mq'"),
        (Selection(workloads=("dbench_xsf",)), "did you mean 'dbench_xfs'"),
    ],
)
def test_an_unknown_name_gets_the_nearest_one(selection: Selection, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        quick(selection)


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"schedulers": "bqf"}, "did you mean 'bfq'"),
        ({"topologies": "raid46"}, "did you mean 'raid64'"),
        ({"workloads": "randread_brust"}, "did you mean 'randread_burst'"),
        ({"parameters": {"randread_brust": {"seconds": 1}}}, "did you mean 'randread_burst'"),
        ({"parameters": {"randread_burst": {"second": 1}}}, "did you mean 'seconds'"),
    ],
)
def test_a_wrong_name_in_a_profile_is_found_before_anything_runs(
    changes: dict[str, Any], hint: str
) -> None:
    with pytest.raises(UsageError, match=hint):
        matrix.cells(small(**changes), Selection(), Engine.TCG)


def test_a_selection_outside_the_profile_is_refused() -> None:
    with pytest.raises(UsageError, match="no cell"):
        quick(Selection(topologies=("nullb_mq",), workloads=("dbench_xfs",)))


def test_a_filesystem_needs_a_disk_that_holds_data() -> None:
    wrong = small(topologies="nullb_mq", workloads="dbench_xfs")
    with pytest.raises(UsageError, match="dbench_xfs needs a disk that holds data, nullb_mq"):
        matrix.cells(wrong, Selection(), Engine.TCG)


def test_a_setting_with_several_values_makes_several_cells() -> None:
    swept = Selection(
        ("megasas",), ("bfq",), ("randread_burst",), (("numjobs", (1, 4)), ("seconds", (1, 2)))
    )
    cells = quick(swept)
    assert [(parameters(c)["numjobs"], parameters(c)["seconds"]) for c in cells] == [
        (1, 1),
        (1, 2),
        (4, 1),
        (4, 2),
    ]
    assert {parameters(c)["ramp_seconds"] for c in cells} == {1}


def test_cells_that_differ_are_told_apart_by_their_names() -> None:
    swept = Selection(("megasas",), ("bfq",), ("randread_burst",), (("numjobs", (1, 4)),))
    assert len({str(planned) for planned in plan(swept)}) == 2


def test_a_setting_overrides_the_profile() -> None:
    planned_cells = plan(Selection(workloads=("dbench_xfs",), parameters=(("clients", (3,)),)))
    assert {parameters(planned.cell)["clients"] for planned in planned_cells} == {3}
    assert {planned.cell.sweep(planned.swept) for planned in planned_cells} == {"clients=3"}


def test_a_setting_touches_only_workloads_that_know_it() -> None:
    selection = Selection(parameters=(("numjobs", (2,)),))
    planned_cells = plan(selection)
    assert {parameters(planned.cell).get("numjobs") for planned in planned_cells} == {2, None}
    matrix.require_used(selection, planned_cells)


def test_a_setting_that_no_workload_knows_is_reported() -> None:
    selection = Selection(workloads=("randread_burst",), parameters=(("clients", (2,)),))
    with pytest.raises(UsageError, match="has the parameter 'clients'"):
        matrix.require_used(selection, plan(selection))


def test_a_cell_names_what_it_is() -> None:
    planned_cells = plan(Selection(schedulers=("bfq",), workloads=("dbench_xfs",)))
    assert str(planned_cells[0]) == "raid64 bfq dbench_xfs clients=2"


def test_a_check_of_data_needs_a_disk_that_holds_some_and_has_no_cost() -> None:
    with pytest.raises(UsageError, match="nullb_mq has none: it reads back what it wrote"):
        quick(Selection(("nullb_mq",), ("none",), ("verify_crc",)))
    wanted = Selection(("raid64",), ("none",), ("verify_crc",))
    (exact,) = matrix.cells(profile.get("quick"), wanted, Engine.EXACT)
    assert not exact.cell.cost
    (timed,) = matrix.cells(profile.get("quick"), wanted, Engine.TCG)
    assert timed.cell.cost
