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
    for folder in ("measure", "guest"):
        (tmp_path / folder).mkdir()
        for path in (computation._PACKAGE / folder).glob("*.py"):
            (tmp_path / folder / path.name).write_text(CODE)
    monkeypatch.setattr(computation, "_PACKAGE", tmp_path)
    return tmp_path


def ids() -> dict[str, str]:
    computation._code.cache_clear()
    kinds = [("fio", engine) for engine in (Engine.EXACT, Engine.SIM, Engine.TCG)]
    kinds += [("dbench", Engine.TCG)]
    return {f"{tool} {engine}": computation.identity(tool, engine) for tool, engine in kinds}


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
    assert {name for name in before if before[name] != after[name]} == changed


def test_comments_and_docstrings_change_no_number(modules: Path) -> None:
    before = ids()
    rewritten = CODE.replace("Doc.", "Other words.").replace("# why", "# because")
    for path in modules.glob("*/*.py"):
        path.write_text(rewritten)
    assert ids() == before


def test_the_modules_that_there_are_have_an_identity() -> None:
    identities = ids()
    assert len(set(identities.values())) == len(identities)
