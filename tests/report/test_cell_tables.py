# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables that fit a terminal and hide nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import examples
import guests
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.text import number
from lab.inputs import workload
from lab.inputs.terms import Engine
from lab.inputs.workload import Value
from lab.measure.matrix import SCHEDULERS
from lab.measure.metrics import headline
from lab.report import cell_tables, terminal
from lab.report.run_record import CellRecord, TableRecord

FACTS = {
    "hw_queues": "64",
    "online_cpus": "0-1",
    "possible_cpus": "0-63",
    "queue/rotational": "1",
    "release": "6.12.117",
}


def cell(*values: float, swept: Mapping[str, Value] = {}, **changes: Any) -> CellRecord:
    """A cell, the given parameters swept, with one boot for each value of its workload's metric."""
    fields = {"topology": "raid64", "workload": "randread_burst", "facts": FACTS, **changes}
    fields["metric"] = workload.get(fields["workload"]).metric
    return examples.cell("stock", values, parameters=swept, swept=tuple(swept), **fields)


def shown(*cells: CellRecord) -> list[TableRecord]:
    """The tables of a run of these cells."""
    return cell_tables.tables(examples.run(cells=cells))


def test_a_row_a_topology_and_a_column_a_scheduler() -> None:
    (table,) = shown(
        *(
            cell(1000.0 * number * factor, topology=disk, scheduler=scheduler)
            for disk, factor in (("raid64", 1), ("megasas", 10))
            for number, scheduler in enumerate(SCHEDULERS, start=1)
        )
    )
    assert [column.title for column in table.columns] == ["topology", *SCHEDULERS]
    assert table.rows == (
        ("raid64", "1,000", "2,000", "3,000", "4,000"),
        ("megasas", "10,000", "20,000", "30,000", "40,000"),
    )


@pytest.mark.parametrize(
    ("cells", "rows"),
    [
        ([cell(1000, 2000, 6000)], [("raid64", "3,000")]),
        (
            [cell(10), cell(20, topology="megasas", scheduler="none")],
            [("raid64", "10.0", "-"), ("megasas", "-", "20.0")],
        ),
        (
            [cell(10, swept={"numjobs": 1}), cell(20, swept={"numjobs": 4})],
            [("raid64 numjobs=1", "10.0"), ("raid64 numjobs=4", "20.0")],
        ),
        ([cell(10, scheduler="none"), cell(error="died")], [("raid64", "10.0", "failed")]),
    ],
    ids=["mean", "not measured", "swept", "failed"],
)
def test_a_cell_is_its_mean_or_why_it_has_none(
    cells: list[CellRecord], rows: list[tuple[str, ...]]
) -> None:
    (table,) = shown(*cells)
    assert [*table.rows] == rows


def test_each_workload_has_a_table_of_its_own() -> None:
    fio_table, dbench_table = shown(
        cell(10, 20), cell(20, workload="dbench_xfs", swept={"clients": 4})
    )
    assert fio_table.title == (
        f"{workload.get('randread_burst').title}\nhost-clock IOPS, higher is better, tcg, 2 boot(s)"
    )
    assert dbench_table.title.endswith("ms, lower is better, tcg, 1 boot(s)")
    assert dbench_table.rows == (("raid64 clients=4", "20.0"),)


def test_failures_are_listed_and_nothing_where_there_are_none() -> None:
    died = cell(error="the guest's kernel died: BUG")
    assert cell_tables.failures(examples.run(cells=[cell(10)])) == ""
    assert cell_tables.failures(examples.run(cells=[cell(10), died])) == (
        "  raid64 bfq randread_burst: the guest's kernel died: BUG"
    )


def test_the_hardware_is_what_guests_reported() -> None:
    cells = [
        cell(error="died"),
        cell(10),
        cell(10, topology="megasas", facts={**FACTS, "hw_queues": "1", "queue/rotational": "0"}),
        cell(10, topology="nvme_mq", facts={}),
    ]
    assert cell_tables.guests(examples.run(cells=cells)).rows == (
        ("raid64", "64", "0-1", "0-63", "1", "6.12.117"),
        ("megasas", "1", "0-1", "0-63", "0", "6.12.117"),
        ("nvme_mq", "-", "-", "-", "-", "-"),
    )


def titled(title: str, *cells: CellRecord) -> list[str]:
    """The lines of a run of cells of one workload with this title."""
    run = examples.run(cells=cells)
    (work,) = run.workloads.values()
    work = work.model_copy(update={"title": title})
    return terminal.text(
        run.model_copy(update={"workloads": {"randread_burst": work}})
    ).splitlines()


@pytest.mark.parametrize("length", [10, 40, 200])
def test_no_line_is_longer_than_a_terminal(length: int) -> None:
    cells = [
        cell(
            123456789.0,
            topology="t" * length,
            scheduler=scheduler,
            facts={**FACTS, "release": "6.12.117-" + "r" * length, "possible_cpus": "0-127" * 20},
            swept={"clients": 10**9},
        )
        for scheduler in (*SCHEDULERS, "a-scheduler-with-a-long-name")
    ]
    lines = titled("word " * (length // 5) + "x" * length, *cells)
    assert max(map(len, lines)) <= 80
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("title", ["reads [burst]", "reads of [/dev/sda]", "a :smile: b"])
def test_a_title_is_shown_as_it_is_written(title: str) -> None:
    assert title in titled(title, cell(1))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0.0, "0.00"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (123.44, "123.4"),
        (-12.34, "-12.3"),
        (1000.0, "1,000"),
        (57563.255966, "57,563"),
        (1234567.8, "1,234,568"),
    ],
)
def test_numbers_are_short_and_readable(value: float | None, shown: str) -> None:
    assert number(value) == shown


@given(st.floats(1e-4, 1e9))
def test_a_number_is_never_off_by_more_than_a_percent(value: float) -> None:
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=0.01)


def test_the_exact_engine_shows_costs_before_its_guests_own_numbers() -> None:
    values = {"kernel_insns_per_io": 3482.09, "user_insns_per_io": 2223.19, "iops": 50000.0}
    exact_cell = guests.cell(topology="nullb_mq", engine=Engine.EXACT, cpus=1)
    assert headline(exact_cell, values) == "kernel_insns_per_io"
    measured = cell(3482.09)
    (boot,) = measured.boots
    update = {
        "metric": "kernel_insns_per_io",
        "boots": (boot.model_copy(update={"values": values}),),
    }
    costs, iops = shown(measured.model_copy(update=update))
    assert (costs.rows, iops.rows) == ((("raid64", "3,482"),), (("raid64", "50,000"),))


def test_a_workload_that_is_gone_is_shown_by_its_name() -> None:
    run = examples.run(cells=[cell(10)]).model_copy(update={"workloads": {}})
    (table,) = cell_tables.tables(run)
    assert table.title == "randread_burst\nhost-clock IOPS, tcg, 1 boot(s)"
