# SPDX-License-Identifier: GPL-2.0-or-later
"""The code that makes numbers is in their keys; its comments are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.inputs.terms import Engine
from lab.measure import computation

CODE = '"""Doc."""\nX = 1  # why\n\n\ndef f(a: int) -> int:\n    """Doc."""\n    return a + X\n'


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in which every module that makes numbers has the same code."""
    for folder in ("measure", "inputs", "guest"):
        (tmp_path / folder).mkdir()
    names = (
        "sampling",
        "fio",
        "dbench",
        "insn_counts",
        "call_counts",
        "call_log",
        "call_tree",
        "cost",
    )
    for name in (*names, "sim_counts", "plugin_output"):
        (tmp_path / f"measure/{name}.py").write_text(CODE)
    (tmp_path / "inputs/counters.py").write_text(CODE)
    (tmp_path / "guest/host_noise.py").write_text(CODE)
    monkeypatch.setattr(computation, "_PACKAGE", tmp_path)
    return tmp_path


def ids() -> dict[tuple[str, Engine], str]:
    computation._code.cache_clear()
    kinds = [("fio", Engine.EXACT), ("fio", Engine.SIM), ("fio", Engine.TCG)]
    return {(tool, engine): computation.identity(tool, engine) for tool, engine in kinds} | {
        ("dbench", Engine.TCG): computation.identity("dbench", Engine.TCG)
    }


@pytest.mark.parametrize(
    ("module", "changed"),
    [
        ("measure/sampling", {"fio exact", "fio sim", "fio tcg", "dbench tcg"}),
        ("measure/cost", {"fio exact", "fio sim"}),
        ("measure/sim_counts", {"fio sim"}),
        ("measure/fio", {"fio exact", "fio sim", "fio tcg"}),
        ("guest/host_noise", {"fio tcg", "dbench tcg"}),
    ],
)
def test_other_code_gives_other_numbers_of_those_that_it_makes(
    modules: Path, module: str, changed: set[str]
) -> None:
    before = ids()
    (modules / f"{module}.py").write_text(CODE.replace("a + X", "a - X"))
    after = ids()
    assert {
        f"{tool} {engine}" for tool, engine in before if before[tool, engine] != after[tool, engine]
    } == changed


def test_comments_and_docstrings_change_no_number(modules: Path) -> None:
    before = ids()
    rewritten = CODE.replace("Doc.", "Other words.").replace("# why", "# because")
    for path in modules.glob("*/*.py"):
        path.write_text(rewritten)
    assert ids() == before


def test_the_modules_that_there_are_have_an_identity() -> None:
    identities = ids()
    assert len(set(identities.values())) == len(identities)
