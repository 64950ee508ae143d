# SPDX-License-Identifier: GPL-2.0-or-later
"""The package's shape: rooms import one way, one module starts processes, nothing grows too big."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from house import MODULES, ROOMS, imports, lab_imports, name_of, path_of, room_of

from lab.base.process import run
from lab.base.system import PROJECT

MAX_LINES = 400
MAX_FUNCTION = 60
NAMES = [name_of(path) for path in MODULES]


def test_the_rooms_are_the_packages_folders() -> None:
    folders = {path.name for path in (PROJECT / "lab").iterdir() if (path / "__init__.py").exists()}
    assert folders == set(ROOMS)


@pytest.mark.parametrize("name", NAMES)
def test_a_module_imports_only_its_room_and_rooms_before_it(name: str) -> None:
    last = ROOMS.index(room_of(name)) if room_of(name) in ROOMS else 0
    assert {room_of(other) for other in lab_imports(name)} <= set(ROOMS[: last + 1])


@pytest.mark.parametrize("name", NAMES)
def test_no_module_imports_itself_by_way_of_others(name: str) -> None:
    assert not any(name in needed_by(other) for other in lab_imports(name))


def test_the_package_itself_imports_nothing() -> None:
    for path in (PROJECT / "lab").rglob("__init__.py"):
        assert not list(imports(path))


def test_the_map_is_drawn_the_same_everywhere() -> None:
    for file in ("lab/__init__.py", "CONTRIBUTING.md", "README.md"):
        text = (PROJECT / file).read_text()
        places = [text.index(f"`{room}`") for room in ROOMS]
        assert places == sorted(places), file


def test_only_the_process_module_starts_processes() -> None:
    starters = ("subprocess", "multiprocessing", "pty", "os.system", "os.popen", "os.fork")
    users = {
        path.stem
        for path in MODULES
        for name in imports(path)
        if name.split(".")[0] in starters or name in starters
    }
    calls = {
        path.stem
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and f"{node.value.id}.{node.attr}" in starters
    }
    assert users | calls == {"process"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_is_short_enough_to_read(path: Path) -> None:
    assert len(path.read_text().splitlines()) < MAX_LINES


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_function_is_short_enough_to_read(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < MAX_FUNCTION, node.name


def needed_by(name: str) -> set[str]:
    """A module and all that it imports of the lab, directly or not."""
    found: set[str] = set()
    left = {name}
    while left:
        module = left.pop()
        found.add(module)
        left |= lab_imports(module) - found
    return found


def test_setup_needs_the_standard_library_only() -> None:
    outside = {
        name.split(".")[0] for module in needed_by("setup") for name in imports(path_of(module))
    }
    assert outside - sys.stdlib_module_names <= {"lab"}
    run([sys.executable, "-S", "-c", "import lab.setup"], cwd=PROJECT)


@pytest.mark.parametrize("name", sorted(needed_by("setup")))
def test_an_old_python_can_read_setup_far_enough_to_say_that_it_is_too_old(name: str) -> None:
    ast.parse(path_of(name).read_text(), feature_version=(3, 9))


SOURCES = sorted(
    path
    for pattern in ("*", ".ci/*", "lab/**/*", "tests/**/*.py", "configs/**/*", "workloads/**/*")
    for path in PROJECT.glob(pattern)
    if path.is_file()
    and "__pycache__" not in path.parts
    and not path.name.endswith((".md", "LICENSE"))  # prose, and the licence itself
)


@pytest.mark.parametrize(
    "path", SOURCES, ids=lambda path: str(path.relative_to(PROJECT)).replace("/", ".")
)
def test_a_source_file_names_its_licence(path: Path) -> None:
    first = path.read_text().splitlines()[:3]
    assert any("SPDX-License-Identifier: GPL-2.0-or-later" in line for line in first)
