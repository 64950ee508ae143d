# SPDX-License-Identifier: GPL-2.0-or-later
"""--json prints one document that the schema of its command takes, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import examples
import guests as fakes
import pytest
from click.testing import CliRunner
from guests import FakeSession, Guests

from lab.base.progress import Progress
from lab.build import kernel
from lab.cli import ending, main, options
from lab.commands.gate_history import GateHistory
from lab.inputs import profile
from lab.inputs.terms import Engine
from lab.measure.boot_store import BootStore
from lab.measure.cell import Task
from lab.report import record_store


def lab(*words: str) -> str:
    done = CliRunner().invoke(main.lab, list(words), standalone_mode=False, catch_exceptions=False)
    return done.stdout


def document(schema: str, *words: str) -> Any:
    """What a command prints, after its schema took it."""
    jsonschema = pytest.importorskip("jsonschema")
    printed = json.loads(lab(*words, "--json"))
    jsonschema.validate(printed, json.loads(lab("schema", schema)))
    return printed


@pytest.fixture
def session(guests: Guests, monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    """The session of every command: its kernels and guests are fakes."""
    guests.says = lambda job: {"iops": 7.0, "block_layer_insns_per_io": 1.0}
    guests.cost_of = lambda identity: fakes.insns(submit_bio=1000.0)
    fake = FakeSession(profile.get("quick"))
    monkeypatch.setattr(options, "Session", lambda chosen_profile: fake)
    monkeypatch.setattr(kernel, "find", lambda identity: fakes.kernel(identity))
    return fake


def test_list_names_what_can_be_named() -> None:
    record_store.save(examples.run(), BootStore().folder)
    listed = document("list", "list")
    assert "bfq_burst_merge" in listed["series"]
    assert listed["runs"] == ["20260101-120000-abcd"]


def test_show_is_the_record() -> None:
    record_store.save(examples.paired_run(), BootStore().folder)
    assert document("run", "show")["id"] == examples.paired_run().id


def test_build_and_doctor(session: FakeSession) -> None:
    assert document("build", "build", "--tree", "debian:6.12")["id"] == "6.12"
    assert [row["engine"] for row in document("doctor", "doctor")["engines"]] == list(Engine)


def test_what_measures_prints_its_record(session: FakeSession, tmp_path: Path) -> None:
    cell = ("--topology", "nullb", "--scheduler", "bfq", "--workload", "randread_burst")
    record = document("run", "matrix", "--engine", "exact", *cell)
    assert [row["scheduler"] for row in record["cells"]] == ["bfq"]
    (tmp_path / "x.patch").write_text("--- a/block/x\n+++ b/block/x\n")
    tried = document("run", "try", str(tmp_path / "x.patch"), *cell)
    assert [step["title"] for step in tried["steps"]] == ["0001-patch.patch"]


def test_rerun_says_what_differs(session: FakeSession, guests: Guests) -> None:
    cell = fakes.cell("nullb_mq", "none", engine=Engine.EXACT, cpus=1)
    session.outcomes([Task(cell=cell, kernel=fakes.kernel("k"))])
    assert document("rerun", "rerun")["equal"]
    guests.says = lambda job: {"iops": 8.0, "block_layer_insns_per_io": 1.0}
    assert document("rerun", "rerun")["numbers"] == {"iops": {"then": 7.0, "now": 8.0}}


def test_gc_and_trend_tell_what_they_did(tmp_path: Path) -> None:
    history = GateHistory(BootStore())
    for night in range(3):
        history.add("next", f"git:/x@{night}", f"run{night}", "", {}, {"nullb/bfq/a": 1.0 + night})
    (branch,) = document("trend", "trend", "--output", str(tmp_path / "page.html"))["branches"]
    assert branch["cells"] == {"nullb/bfq/a": [1.0, 2.0, 3.0]}
    assert document("gc", "gc", "--dry-run")["deleted"] is False


@pytest.mark.parametrize(
    "words", [["run", "bfq_burst_merge"], ["matrix", "--engine", "exact", "--topology", "nullb"]]
)
def test_a_dry_run_lists_its_boots(words: list[str]) -> None:
    planned = document("dry-run", *words, "--dry-run")
    assert planned["boots"] == sum(cell["boots"] for cell in planned["cells"]) > 0
    assert planned["seconds"] > 0


def test_verdicts_have_colours_on_a_terminal_that_wants_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = ending.coloured("own: REFUTED\n  a: HOLDS (1 of 2), UPHOLDS")
    assert text.count("\x1b[0m") == 2
    assert "\x1b[31mREFUTED" in text
    assert click.unstyle(text) == "own: REFUTED\n  a: HOLDS (1 of 2), UPHOLDS"
    assert "\x1b" not in lab("list")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in ending.coloured("REFUTED")


def test_quiet_says_nothing_on_the_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Progress().say("on the way")
    assert "on the way" in capsys.readouterr().err
    monkeypatch.setenv("LAB_QUIET", "1")
    Progress().say("on the way")
    assert capsys.readouterr().err == ""


def test_compare_has_both_values_and_both_verdicts() -> None:
    run = examples.paired_run()
    record_store.save(run, BootStore().folder)
    compared = document("compare", "compare", "last", "last")
    assert compared["runs"] == [run.id, run.id]
    assert compared["values"]
    assert all(pair["then"] == pair["now"] for pair in compared["values"].values())
    assert {pair["then"] for pair in compared["verdicts"].values()} == {"HOLDS"}
