# SPDX-License-Identifier: GPL-2.0-or-later
"""Replayed traces: what fio gets, and how far two distributions are apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import UsageError
from tools import disk_trace
from tools.disk_trace import Request

READ = Request(write=False, sector=8, sectors=4, response=13_000.0, pause=35_000.0)
WRITE = Request(write=True, sector=100, sectors=8, response=1_000.0, pause=20_000.0)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "disk.trace"


def test_a_trace_has_a_request_a_line(trace: Path) -> None:
    trace.write_text("R Hit 8 4 13000.0 35000.0\nW Miss 100 8 1000.0 20000.0\n")
    assert disk_trace.parsed(trace) == [READ, WRITE]


@pytest.mark.parametrize(
    "line", ["R Hit 8 4 13000.0", "D Hit 8 4 13000.0 1.0", "R Hit a 4 1.0 1.0"]
)
def test_a_line_that_is_no_request_is_told(trace: Path, line: str) -> None:
    trace.write_text(f"R Hit 8 4 13000.0 35000.0\n{line}\n")
    with pytest.raises(UsageError, match="not a request") as error:
        disk_trace.parsed(trace)
    assert error.value.where == f"{trace}:2"


def test_an_empty_trace_is_told(trace: Path) -> None:
    trace.touch()
    with pytest.raises(UsageError, match="no request"):
        disk_trace.parsed(trace)


def test_each_request_is_replayed_at_its_time_in_us() -> None:
    assert disk_trace.fio_log([READ, WRITE]).splitlines() == [
        "fio version 3 iolog",
        "0 /dev/sda add",
        "0 /dev/sda open",
        "0 /dev/sda read 4096 2048",
        "48000 /dev/sda write 51200 4096",
        "69000 /dev/sda close",
    ]


def test_a_part_lasts_no_longer_than_a_command_may() -> None:
    requests = [READ] * 2000
    parts = list(disk_trace.parts(requests))
    assert [request for part in parts for request in part] == requests
    lengths = [sum(each.response + each.pause for each in part) for part in parts]
    assert max(lengths) <= 45e6
    assert len(parts) == 3


def test_the_demerit_figure_is_the_rms_distance_of_sorted_times() -> None:
    assert disk_trace.demerit([1.0, 2.0, 3.0], [3.0, 1.0, 2.0]) == 0
    # 3 and 4 apart: the root of (9 + 16) / 2.
    assert disk_trace.demerit([10.0, 20.0], [24.0, 13.0]) == pytest.approx(12.5**0.5)


def test_the_table_has_all_requests_and_both_kinds() -> None:
    table = disk_trace.table("disk", [READ, WRITE], [12_000.0, 1_000.0])
    assert table.rows == (
        ("all", "2", "7.00", "6.50", "0.71", "10.1 %"),
        ("reads", "1", "13.00", "12.00", "1.00", "7.7 %"),
        ("writes", "1", "1.00", "1.00", "0.00", "0.0 %"),
    )


@pytest.mark.parametrize("parameter", ["trackkb=79", "track_kb", "track_kb=", "rpm=fast"])
def test_what_is_no_parameter_of_armdisk_is_told(parameter: str) -> None:
    with pytest.raises(UsageError, match="not NAME=NUMBER of armdisk"):
        disk_trace.require_parameters([parameter])


def test_parameters_of_armdisk_are_taken() -> None:
    disk_trace.require_parameters(["rpm=7200", "track_kb=79", "overhead_us=618"])
