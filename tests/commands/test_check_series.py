# SPDX-License-Identifier: GPL-2.0-or-later
"""Checking a series patch by patch: checkpatch's answer is read, every cell is booted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import guests as fakes
import pytest
from guests import FakeSession, Guests

from lab.base.errors import BuildError, GuestError
from lab.base.progress import Progress
from lab.commands import check_series, result_tables
from lab.commands.check_series import Commit
from lab.inputs import profile, series
from lab.measure.job import Job
from lab.report import tables

QUICK = profile.get("quick")
OWN = ["0001-a.patch", "0001-b.patch", "0002-c.patch"]


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
    result = check_series._style(script, tmp_path / "0001-x.patch")
    assert style in result[0]
    assert result[1] is clean


@pytest.mark.parametrize("name", series.known())
def test_the_debug_checks_of_the_claims_are_booted(name: str) -> None:
    cells = check_series._cells(series.get(name), QUICK)
    claims = series.get(name).all_claims.values()
    assert cells
    assert {(cell.topology, cell.scheduler) for cell in cells} == {
        (claim.topology, claim.scheduler)
        for claim in claims
        if claim.workload == "verify_switching"
    }
    assert all(cell.engine.deterministic and not cell.cost for cell in cells)


def test_without_a_debug_check_every_disk_and_scheduler_of_the_claims_is_booted(
    patch_series: series.Series,
) -> None:
    cells = check_series._cells(patch_series, QUICK)
    places = [(cell.topology, cell.scheduler) for cell in cells]
    assert places == [("nullb", "bfq"), ("nullb_mq", "bfq")]
    assert all(not isinstance(value, tuple) for cell in cells for _, value in cell.parameters)


def test_the_summary_names_what_failed() -> None:
    good = Commit(Path("s/series/0001-a.patch"), "0 errors", "2 of 2 boots")
    bad = Commit(Path("s/series/0002-b.patch"), "0 errors", "not built", "blk-mq.c:1: expected ;")
    text = " ".join(tables.text(result_tables.of_commits([good, bad])).split())
    assert "0001-a.patch 0 errors 2 of 2 boots 0002-b.patch" in text
    assert "0002-b.patch 0 errors not built FAILED" in text
    assert "0002-b.patch: blk-mq.c:1: expected ;" in text


@pytest.fixture
def patch_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> series.Series:
    """A series of three patches, whose tree's checkpatch complains about the last."""
    text = 'title = "t"\norigin = "o"\n'
    for name, topology in (("one", "nullb"), ("two", "nullb_mq"), ("three", "nullb")):
        text += f'[claims.{name}]\npublished = "p"\ntopology = "{topology}"\nscheduler = "bfq"\n'
        text += f'workload = "randread_burst"\n[[claims.{name}.expect]]\n'
        text += 'metric = "iops"\nchange = ">= +20%"\nbecause = "b"\n'
    for path in ("base/0001-a.patch", "series/0001-b.patch", "series/0002-c.patch"):
        patch = tmp_path / "own" / path
        patch.parent.mkdir(parents=True, exist_ok=True)
        patch.write_text("")
    (tmp_path / "own/series.toml").write_text(text)
    script = tmp_path / "checkpatch.pl"
    script.write_text('print "total: 0 errors, ", ($ARGV[-1] =~ /0002/ ? 1 : 0), " warnings\\n";')

    @contextmanager
    def checkpatch(spec: str, progress: Progress) -> Iterator[Path]:
        yield script

    monkeypatch.setattr(check_series, "_checkpatch", checkpatch)
    return series.get(f"{tmp_path}/own")


def test_every_patch_is_checked_whatever_the_others_do(
    patch_series: series.Series, guests: Guests
) -> None:
    session = FakeSession(QUICK)
    session.failing["0001-b.patch"] = BuildError("expected ;", where="blk-mq.c:1")
    commits = check_series.check(patch_series, session)
    assert [commit.booted for commit in commits] == ["2 of 2 boots", "not built", "not built"]
    assert [commit.error for commit in commits] == ["", *2 * ["expected ; (blk-mq.c:1)"]]
    assert [commit.patch.name for commit in commits] == OWN


def test_the_patches_of_a_rival_are_checked_after_the_series(
    patch_series: series.Series, guests: Guests
) -> None:
    (patch_series.folder / "rival").mkdir()
    (patch_series.folder / "rival/0001-r.patch").write_text("")
    with patch_series.file.open("a") as file:
        file.write('[arms.other]\npatches = "rival"\n')
    session = FakeSession(QUICK)
    commits = check_series.check(series.get(str(patch_series.folder)), session)
    assert [commit.patch.name for commit in commits] == [*OWN, "0001-r.patch"]
    # The rival's kernel has base/ and no patch of the series.
    assert guests.booted[-1].task.kernel.id.count("+") == 2


def test_a_guest_that_fails_and_a_style_that_is_wrong_are_told(
    patch_series: series.Series, guests: Guests
) -> None:
    def says(job: Job) -> fakes.Answer:
        broken = job.task.kernel.id.count("+") == 2 and job.cell.topology == "nullb"
        return GuestError("panic", "BUG: x") if broken else {}

    guests.says = says
    commits = check_series.check(patch_series, FakeSession(QUICK))
    assert [commit.booted for commit in commits] == ["2 of 2 boots", "1 of 2 boots", "2 of 2 boots"]
    assert [commit.error for commit in commits] == ["", "BUG: x", "checkpatch complains"]
    assert [job.cell.topology for job in guests.booted] == ["nullb", "nullb_mq"] * 3
