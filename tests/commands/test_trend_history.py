# SPDX-License-Identifier: GPL-2.0-or-later
"""Trends out of the gate's history, with the commits behind a step."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import UsageError
from lab.base.process import run
from lab.commands import trend
from lab.commands.gate_history import GateHistory
from lab.measure.boot_store import BootStore


def commit(folder: Path, title: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    words = [*who, "commit", "-q", "--allow-empty", "-m", title]
    run(["git", "-C", str(folder), *words])
    return run(["git", "-C", str(folder), "rev-parse", "HEAD"]).output.strip()


@pytest.fixture
def history(tmp_path: Path) -> GateHistory:
    """A branch of 30 nights, a commit each, that costs 1 % more from the 20th on in one cell."""
    repository = tmp_path / "linux"
    run(["git", "init", "-q", str(repository)])
    gate_history = GateHistory(BootStore(tmp_path / "results"))
    for night in range(30):
        source = f"git:{repository}@{commit(repository, f'block: change {night}')}"
        level = 1000.0 + night % 7 / 100
        values = {"nvme/bfq/a": level * (1.01 if night >= 20 else 1), "nullb/none/b": level}
        reason = "costs more: nvme/bfq/a" if night == 20 else ""
        gate_history.add("next", source, f"run{night}", reason, {}, values)
    gate_history.accept("next", source, "worth it")
    gate_history.add("other", "debian:6.12", "run", "", {"nvme/bfq/a": 0.0})
    return gate_history


def test_a_step_is_told_with_its_commit(history: GateHistory) -> None:
    branches = {branch.name: branch for branch in trend.collect(history, 0.001)}
    ((cell, jump),) = branches["next"].jumps
    assert (cell.name, jump.night, jump.last) == ("nvme/bfq/a", 20, 19)
    assert [line.partition(" ")[2] for line in jump.commits] == ["block: change 20"]
    assert [night.good for night in branches["next"].nights].count(False) == 1
    assert branches["other"].cells == ()


def test_branches_and_cells_can_be_chosen(history: GateHistory) -> None:
    (branch,) = trend.collect(history, 0.001, ["next"], "nullb*")
    assert [cell.name for cell in branch.cells] == ["nullb/none/b"]
    assert branch.jumps == []
    with pytest.raises(UsageError, match="no branch 'nxt' was ever judged") as caught:
        trend.collect(history, 0.001, ["nxt"])
    assert "next" in caught.value.hint


def test_without_a_night_it_says_what_makes_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no night was judged") as caught:
        trend.collect(GateHistory(BootStore(tmp_path)), 0.001)
    assert "lab gate" in caught.value.hint
