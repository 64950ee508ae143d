# SPDX-License-Identifier: GPL-2.0-or-later
"""Checking a series patch by patch: checkpatch's answer is read, every cell is booted."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.commands import check_series, result_tables
from lab.commands.check_series import Commit
from lab.inputs import profile, series
from lab.report import tables

QUICK = profile.get("quick")


@pytest.mark.parametrize(
    ("said", "style", "clean"),
    [
        ("total: 0 errors, 0 warnings, 0 checks, 12 lines checked", "0 errors, 0 warnings", True),
        ("total: 0 errors, 1 warnings, 0 checks, 12 lines checked", "1 warnings", False),
        ("WARNING: x\n\ntotal: 0 errors, 0 warnings, 3 checks, 1 lines checked", "3 checks", False),
        ("total: 0 errors, 0 warnings, 12 lines checked", "0 errors, 0 warnings", True),
        ("perl: command failed", "said nothing", False),
    ],
)
def test_checkpatchs_total_is_read(tmp_path: Path, said: str, style: str, clean: bool) -> None:
    script = tmp_path / "checkpatch.pl"
    script.write_text(f"print q({said}\n);\nexit 1;\n")
    found = check_series._style(script, tmp_path / "0001-x.patch")
    assert style in found[0]
    assert found[1] is clean


@pytest.mark.parametrize("name", series.known())
def test_every_disk_and_scheduler_of_the_claims_is_booted(name: str) -> None:
    found = check_series._cells(series.get(name), QUICK)
    claims = series.get(name).claims.values()
    assert {(cell.topology, cell.scheduler) for cell in found} == {
        (claim.topology, claim.scheduler) for claim in claims
    }
    assert all(not isinstance(value, tuple) for cell in found for _, value in cell.parameters)


def test_the_summary_names_what_failed() -> None:
    good = Commit(Path("s/series/0001-a.patch"), "0 errors", "2 of 2 boots")
    bad = Commit(Path("s/series/0002-b.patch"), "0 errors", "not built", "blk-mq.c:1: expected ;")
    text = " ".join(tables.text(result_tables.of_commits([good, bad])).split())
    assert "0001-a.patch 0 errors 2 of 2 boots 0002-b.patch" in text
    assert "0002-b.patch 0 errors not built FAILED" in text
    assert "0002-b.patch: blk-mq.c:1: expected ;" in text
