# SPDX-License-Identifier: GPL-2.0-or-later
"""dbench's numbers, checked against a recorded run, and the short load file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.base.errors import GuestError, LabError
from lab.measure import dbench
from lab.measure.dbench import CLIENT_FILE, LoadFile

RECORDED = (Path(__file__).parents[1] / "data/dbench-4-clients.log").read_text()
needs_dbench = pytest.mark.skipif(not CLIENT_FILE.exists(), reason="dbench is not installed")


@pytest.fixture(autouse=True)
def _operations(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsing must not depend on an installed dbench."""
    if "metrics" in request.node.name:
        load = LoadFile("", "", {"NTCreateX": 613, "ReadX": 962, "Flush": 43})
        monkeypatch.setattr(dbench, "load_file", lambda: load)


def without(pattern: str) -> str:
    """The recorded output without the lines that match."""
    return "".join(
        line for line in RECORDED.splitlines(keepends=True) if not re.match(pattern, line)
    )


def test_metrics_are_those_of_all_clients_together_each_with_a_unit() -> None:
    numbers = {
        "amean_ms": 1000 * 10 * 4 * 613 / 3992,
        "passes": 3992 / 613,
        "throughput_mb": 11.5044,
        "lat_max_ms": 462.922,
        "flush_mean_ms": 125.290,
    }
    assert dbench.metrics(RECORDED, 4, 10) == pytest.approx(numbers)
    assert dbench.METRICS.keys() == numbers.keys()


def test_metrics_agree_with_the_count_of_another_operation() -> None:
    by_reads = 1000 * 10 * 4 * 962 / 6824
    assert dbench.metrics(RECORDED, 4, 10)["amean_ms"] == pytest.approx(by_reads, rel=0.1)


def test_metrics_without_client_tables_are_the_same() -> None:
    totals, _, rest = RECORDED.partition("Per client results:")
    end = rest[rest.index("Throughput") :]
    assert dbench.metrics(totals + end, 4, 10) == dbench.metrics(RECORDED, 4, 10)


def test_metrics_do_not_need_a_flush() -> None:
    assert "flush_mean_ms" not in dbench.metrics(without(r"\s*Flush"), 4, 10)


@pytest.mark.parametrize(
    ("output", "complaint"),
    [
        ("", "nothing"),
        (RECORDED[: RECORDED.index(" Operation")], "0  cleanup  10 sec"),
        (without("Throughput"), "no result"),
        (RECORDED[: RECORDED.index("Flush")], "no result"),
        ("(4) ERROR: handle 13081 was not found\n", "handle 13081 was not found"),
    ],
)
def test_metrics_of_an_unfinished_run_are_refused(output: str, complaint: str) -> None:
    with pytest.raises(GuestError, match=complaint) as caught:
        dbench.metrics(output, 4, 10)
    assert caught.value.outcome == "failed"


def test_metrics_need_half_a_pass_a_client() -> None:
    enough, short = (RECORDED.replace("3992", count, 1) for count in ("1226", "1225"))
    assert dbench.metrics(enough, 4, 10)["passes"] == 2
    with pytest.raises(GuestError, match=r"4 clients did 0\.5 passes a client in 10 s") as caught:
        dbench.metrics(short, 4, 10)
    assert caught.value.outcome == "mismatch"  # no kernel is refuted by too short a run


LINES = r"""
Deltree "\clients\client1" NT_STATUS_OK
Mkdir "\clients" NT_STATUS_OK
NTCreateX "\clients\client1" 0x1 0x2 16385 NT_STATUS_OK
Close 16385 NT_STATUS_OK
NTCreateX "\clients\client1\absent" 0x40 0x1 9935 NT_STATUS_OBJECT_NAME_NOT_FOUND
NTCreateX "\clients\client1\~dmtmp" 0x1 0x2 9937 NT_STATUS_OK
NTCreateX "\clients\client1\~dmtmp\a.000" 0x40 0x2 9938 NT_STATUS_OK
WriteX 9938 65534 1 1 NT_STATUS_OK
WriteX 9938 0 4096 4096 NT_STATUS_OK
Close 9938 NT_STATUS_OK
NTCreateX "\clients\client1\empty" 0x40 0x2 9938 NT_STATUS_OK
Close 9938 NT_STATUS_OK
NTCreateX "\clients\client1\~dmtmp\a.000" 0x40 0x1 9940 NT_STATUS_OK
WriteX 9940 65536 100 100 NT_STATUS_OK
QUERY_FS_INFORMATION 259 NT_STATUS_OK
"""


def test_the_tree_is_what_the_lines_leave_behind() -> None:
    rows = dbench.tree(LINES.strip().splitlines()).splitlines()
    assert rows == [
        "d clients",
        "d clients/client0",
        "d clients/client0/~dmtmp",
        "f clients/client0/~dmtmp/a.000 65636",
        "f clients/client0/empty 0",
    ]


@needs_dbench
def test_one_pass_has_the_operations_that_the_field_measures() -> None:
    load = dbench.load_file()
    assert len(load.text.splitlines()) == 3573
    counts = (load.operations["Flush"], load.operations["NTCreateX"], load.operations["ReadX"])
    assert counts == (43, 613, 962)
    assert sum(load.operations.values()) == 3573


@needs_dbench
def test_the_tree_of_one_client_holds_some_twenty_megabytes() -> None:
    rows = [row.split(" ") for row in dbench.load_file().tree.splitlines()]
    assert all(len(row) == (2 if row[0] == "d" else 3) for row in rows)
    assert sum(int(row[2]) for row in rows if row[0] == "f") == pytest.approx(20e6, rel=0.3)
    folders = {row[1] for row in rows if row[0] == "d"}
    assert {row[1].rpartition("/")[0] for row in rows if row[0] == "f"} <= folders
    assert all(row[1] == "clients" or row[1].startswith("clients/client0") for row in rows)


@needs_dbench
def test_the_pass_finds_every_file_that_it_opens() -> None:
    load = dbench.load_file()
    there = {row.split(" ")[1] for row in load.tree.splitlines()}
    opened = 0
    for line in load.text.splitlines():
        paths = [
            path.replace("\\", "/").strip("/").replace("client1", "client0", 1)
            for path in re.findall(r'"([^"]+)"', line)
        ]
        if line.startswith("NTCreateX") and line.split()[-3] == "0x1" and "STATUS_OK" in line:
            assert paths[0] in there, line
            opened += 1
        elif line.startswith(("NTCreateX", "Rename")) and line.endswith("STATUS_OK"):
            there.add(paths[-1])
    assert opened > 100


@pytest.mark.parametrize(
    ("content", "complaint"), [(None, "cannot be read"), ("Close 1 OK\n" * 4172, "only 4172 lines")]
)
def test_a_load_file_that_is_missing_or_short_is_named(
    content: str | None, complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "client.txt"
    if content is not None:
        path.write_text(content)
    with pytest.raises(LabError, match=complaint) as caught:
        dbench.load_file(path)
    assert "client.txt" in str(caught.value)
