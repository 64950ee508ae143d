# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables that fit a terminal and hide nothing."""

from __future__ import annotations

from pathlib import Path

import examples
import guests
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.text import number
from lab.inputs import workload
from lab.inputs.terms import Engine
from lab.inputs.workload import Value
from lab.measure.cost import Cost
from lab.measure.matrix import SCHEDULERS
from lab.measure.metrics import headline
from lab.report import matrix_text, run_record, tables

FACTS = {
    "hw_queues": "64",
    "online_cpus": "0-1",
    "possible_cpus": "0-63",
    "queue/rotational": "1",
    "release": "6.12.117",
}


def cell(
    *values: float,
    topology: str = "raid64",
    scheduler: str = "bfq",
    work: str = "randread_burst",
    error: str = "",
    facts: dict[str, str] = FACTS,
    **parameters: Value,
) -> run_record.CellRecord:
    """A cell, the given parameters swept, with one boot for each value of the metric."""
    own = {k: v for k, v in workload.get(work).parameters.items() if not isinstance(v, tuple)}
    return examples.cell(
        "stock",
        values,
        topology=topology,
        scheduler=scheduler,
        workload=work,
        parameters=dict(sorted({**own, **parameters}.items())),
        swept=tuple(parameters),
        metric=workload.get(work).metric,
        facts=facts,
        error=error,
    )


def matrix(*cells: run_record.CellRecord) -> str:
    """The tables of a run of these cells."""
    return matrix_text.matrix(examples.run(cells=cells))


def flat(text: str) -> str:
    """The text on one line: where a title is wrapped does not matter."""
    return " ".join(text.split())


def row(text: str, start: str) -> list[str]:
    """The cells of the one row that begins so."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(start)]
    return line.split()


def test_a_row_a_topology_and_a_column_a_scheduler() -> None:
    values = dict(zip(SCHEDULERS, (1000.0, 2000.0, 3000.0, 4000.0), strict=True))
    text = matrix(
        *(
            cell(value * factor, topology=machine, scheduler=scheduler)
            for machine, factor in (("raid64", 1), ("megasas", 10))
            for scheduler, value in values.items()
        )
    )
    assert row(text, "topology") == ["topology", *SCHEDULERS]
    assert row(text, "raid64") == ["raid64", "1,000", "2,000", "3,000", "4,000"]
    assert row(text, "megasas") == ["megasas", "10,000", "20,000", "30,000", "40,000"]
    assert "IOPS, higher is better, tcg, 1 boot(s)" in text


def test_several_boots_show_their_mean() -> None:
    text = matrix(cell(1000, 2000, 6000))
    assert row(text, "raid64") == ["raid64", "3,000"]
    assert "3 boot(s)" in flat(text)


def test_a_cell_that_was_not_measured_is_a_dash() -> None:
    text = matrix(cell(10), cell(20, topology="megasas", scheduler="none"))
    assert row(text, "raid64") == ["raid64", "10.0", "-"]
    assert row(text, "megasas") == ["megasas", "-", "20.0"]


def test_each_workload_has_a_table_of_its_own() -> None:
    found = matrix(cell(10), cell(20, work="dbench_xfs", clients=4))
    text = flat(found)
    assert text.index(workload.get("randread_burst").title) < text.index("dbench on XFS")
    assert row(found, "raid64 clients=4") == ["raid64", "clients=4", "20.0"]
    assert "ms, lower is better" in text


def test_swept_values_have_rows_of_their_own() -> None:
    text = matrix(cell(10, numjobs=1), cell(20, numjobs=4))
    assert "10.0" in text, text
    assert "20.0" in text, text


def test_a_failed_cell_shows_as_failed_and_is_listed() -> None:
    found = [
        cell(10, scheduler="none"),
        cell(error="the guest's kernel died: BUG"),
    ]
    assert row(matrix(*found), "raid64") == ["raid64", "10.0", "failed"]
    listed = matrix_text.failures(examples.run(cells=found))
    assert listed.strip() == "raid64 bfq randread_burst: the guest's kernel died: BUG"


def test_without_failures_nothing_is_listed() -> None:
    assert matrix_text.failures(examples.run(cells=[cell(10)])) == ""


def test_the_hardware_is_what_guests_reported() -> None:
    found = [
        cell(error="died"),
        cell(10),
        cell(10, topology="megasas", facts={**FACTS, "hw_queues": "1", "queue/rotational": "0"}),
        cell(10, topology="nvme_mq", facts={}),
    ]
    text = matrix_text.hardware(examples.run(cells=found))
    assert row(text, "raid64") == ["raid64", "64", "0-1", "0-63", "1", "6.12.117"]
    assert row(text, "megasas") == ["megasas", "1", "0-1", "0-63", "0", "6.12.117"]
    assert row(text, "nvme_mq") == ["nvme_mq", "-", "-", "-", "-", "-"]


@pytest.fixture
def own_title(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file to write a workload called other in."""
    path = tmp_path / "other.toml"
    monkeypatch.setattr(workload, "FOLDER", tmp_path)
    return path


def define(path: Path, title: str) -> None:
    path.write_text(
        f"title = {title!r}\ntool = 'fio'\nmetric = 'iops'\n[parameters]\nclients = [1, 2]\n"
    )


@pytest.mark.parametrize("length", [10, 40, 200])
def test_no_line_is_longer_than_a_terminal(own_title: Path, length: int) -> None:
    define(own_title, "word " * (length // 5) + "x" * length)
    found = [
        cell(
            123456789.0,
            topology="t" * length,
            scheduler=scheduler,
            work="other",
            facts={**FACTS, "release": "6.12.117-" + "r" * length, "possible_cpus": "0-127" * 20},
            clients=10**9,
        )
        for scheduler in (*SCHEDULERS, "a-scheduler-with-a-long-name")
    ]
    lines = (matrix_text.text(examples.run(cells=found))).splitlines()
    assert max(map(len, lines)) <= 80
    assert all(line == line.rstrip() for line in lines)


def test_a_title_has_the_width_of_the_terminal_not_of_its_table() -> None:
    lines = matrix(cell(10)).splitlines()
    assert workload.get("randread_burst").title in lines
    assert "IOPS, higher is better, tcg, 1 boot(s)" in lines


@pytest.mark.parametrize("title", ["reads [burst]", "reads of [/dev/sda]", "a :smile: b"])
def test_a_title_is_shown_as_it_is_written(own_title: Path, title: str) -> None:
    define(own_title, title)
    assert title in flat(matrix(cell(1, work="other", clients=1)))


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
    own = guests.cell(topology="nullb_mq", engine=Engine.EXACT, cpus=1)
    assert headline(own, values) == "kernel_insns_per_io"
    measured = cell(3482.09).model_copy(update={"metric": "kernel_insns_per_io"})
    boots = tuple(boot.model_copy(update={"values": values}) for boot in measured.boots)
    text = matrix(measured.model_copy(update={"boots": boots}))
    shown = [text.index(number) for number in ("3,482", "50,000")]
    assert shown == sorted(shown)


def test_a_workload_that_is_gone_is_shown_by_its_name() -> None:
    run = examples.run(cells=[cell(10)]).model_copy(update={"workloads": {}})
    assert "randread_burst\nIOPS, tcg, 1 boot(s)" in matrix_text.matrix(run)


def test_a_cost_difference_sums_to_its_totals() -> None:
    before = Cost(10.0, {"submit_bio": 100.0, "kfree": 5.0, "bio_put": 1.5})
    after = Cost(12.0, {"submit_bio": 120.0, "kfree": 5.0, "bio_get": 2.0})
    text = tables.text(matrix_text.cost_table(("none", "bfq"), (before, after), rows=1))
    assert row(text, "submit_bio") == ["submit_bio", "100.00", "120.00", "+20.00"]
    assert row(text, "2 more") == ["2", "more", "1.50", "2.00", "+0.50"]
    assert row(text, "1 unchanged") == ["1", "unchanged", "5.00", "5.00", "+0.00"]
    assert row(text, "kernel ") == ["kernel", "106.50", "127.00", "+20.50"]
    assert row(text, "user space") == ["user", "space", "10.00", "12.00", "+2.00"]
