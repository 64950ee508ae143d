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


def plan(
    selection: Selection | None = None, of: str | Profile = "quick", engine: Engine = Engine.TCG
) -> list[PlannedCell]:
    """The matrix of a profile, or of a known one's name."""
    chosen = profile.get(of) if isinstance(of, str) else of
    return matrix.cells(chosen, selection or Selection(), engine)


def cells_of(*of: Any, **more: Any) -> list[Cell]:
    """The cells of such a matrix."""
    return [planned.cell for planned in plan(*of, **more)]


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
    cells = {(c.workload, c.topology, c.scheduler) for c in cells_of() if c.workload in FIO}
    assert cells == {(w, t, s) for w in FIO for t in TOPOLOGIES for s in SCHEDULERS}


def test_a_profile_sweeps_dbenchs_clients() -> None:
    cells = [cell for cell in cells_of(of="standard") if cell.workload == "dbench_xfs"]
    assert {(c.scheduler, parameters(c)["clients"]) for c in cells} == {
        (scheduler, clients) for scheduler in SCHEDULERS for clients in (1, 2, 4, 8, 16, 32, 64)
    }
    assert {c.topology for c in cells} == {"raid64"}


@pytest.mark.parametrize("name", toml.names(profile.FOLDER))
def test_no_profile_measures_a_cell_twice(name: str) -> None:
    cells = plan(of=name)
    assert len(cells) == len(set(cells)) == len({str(cell) for cell in cells})


def test_overlapping_blocks_give_a_cell_once() -> None:
    single = small()
    twice = single.model_copy(update={"matrix": single.matrix * 2})
    assert plan(of=twice) == plan(of=single)


def test_a_profile_shortens_the_workloads() -> None:
    shortened = profile.get("quick").parameters
    for cell in cells_of():
        if cell.workload in FIO:
            wanted = shortened[cell.workload]["seconds"]
            assert parameters(cell)["seconds"] == wanted
            assert wanted != workload.get(cell.workload).parameters["seconds"]


def test_the_engine_is_part_of_a_cell() -> None:
    assert [cell.engine for cell in cells_of(of=small(), engine=Engine.EXACT)] == [Engine.EXACT]


def test_a_selection_leaves_what_it_names() -> None:
    cells = cells_of(Selection(("megasas",), ("bfq", "none"), ("randread_burst",)))
    assert {(c.topology, c.scheduler, c.workload) for c in cells} == {
        ("megasas", scheduler, "randread_burst") for scheduler in ("bfq", "none")
    }


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(schedulers=("bqf",)), "did you mean 'bfq'"),
        (Selection(schedulers=("deadline",)), "did you mean 'mq-deadline'"),
        (Selection(topologies=("nvme_qm",)), "did you mean 'nvme_mq'"),
        (Selection(workloads=("dbench_xsf",)), "did you mean 'dbench_xfs'"),
        (Selection(topologies=("nullb_mq",), workloads=("dbench_xfs",)), "no cell"),
        (
            Selection(("nullb_mq",), ("none",), ("verify_crc",)),
            "nullb_mq has none: it reads back what it wrote",
        ),
    ],
)
def test_a_selection_with_an_unknown_name_or_without_a_cell_is_refused(
    selection: Selection, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        plan(selection)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedulers": "bqf"}, "did you mean 'bfq'"),
        ({"topologies": "raid46"}, "did you mean 'raid64'"),
        ({"workloads": "randread_brust"}, "did you mean 'randread_burst'"),
        ({"parameters": {"randread_brust": {"seconds": 1}}}, "did you mean 'randread_burst'"),
        ({"parameters": {"randread_burst": {"second": 1}}}, "did you mean 'seconds'"),
        (
            {"topologies": "nullb_mq", "workloads": "dbench_xfs"},
            "dbench_xfs needs a disk that holds data, nullb_mq",
        ),
    ],
)
def test_what_is_wrong_in_a_profile_is_found_before_anything_runs(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        plan(of=small(**changes))


def test_a_setting_with_several_values_makes_several_cells_of_different_names() -> None:
    swept = Selection(
        ("megasas",), ("bfq",), ("randread_burst",), (("numjobs", (1, 4)), ("seconds", (1, 2)))
    )
    assert {parameters(cell)["ramp_seconds"] for cell in cells_of(swept)} == {1}
    assert [str(planned) for planned in plan(swept)] == [
        f"megasas bfq randread_burst numjobs={jobs} seconds={seconds}"
        for jobs, seconds in ((1, 1), (1, 2), (4, 1), (4, 2))
    ]


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
    assert str(planned_cells[0]) == "raid64 bfq dbench_xfs clients=8"


@pytest.mark.parametrize("engine", [Engine.EXACT, Engine.TCG])
def test_a_check_of_data_has_no_cost(engine: Engine) -> None:
    wanted = Selection(("raid64",), ("none",), ("verify_crc",))
    (cell,) = cells_of(wanted, engine=engine)
    assert cell.cost is not engine.deterministic
