# SPDX-License-Identifier: GPL-2.0-or-later
"""Packages import one way, one module starts processes, no module or function is too long."""

from __future__ import annotations

import ast
import sys
from functools import cache

from package_map import (
    MODULES,
    PACKAGES,
    imports,
    lab_imports,
    name_of,
    package_of,
    parsed,
    path_of,
)

from lab.base.process import run
from lab.base.system import PROJECT

MAX_LINES = 400
MAX_FUNCTION = 60
NAMES = [name_of(path) for path in MODULES]
TOOLS = sorted((PROJECT / "tools").glob("*.py"))


def test_the_rooms_are_the_packages_folders() -> None:
    folders = {path.name for path in (PROJECT / "lab").iterdir() if (path / "__init__.py").exists()}
    assert folders == set(PACKAGES)


def test_a_module_imports_only_its_package_and_packages_before_it() -> None:
    for name in NAMES:
        last = PACKAGES.index(package_of(name)) if package_of(name) in PACKAGES else 0
        allowed = set(PACKAGES[: last + 1])
        assert {package_of(module) for module in lab_imports(name)} <= allowed, name


def test_the_lab_imports_no_tool_of_its_developers() -> None:
    assert TOOLS
    for path in MODULES:
        assert not any(name.split(".")[0] == "tools" for name in imports(path)), path


def test_only_the_fleet_needs_dask_and_no_other_package_needs_the_fleet() -> None:
    """dask is an optional dependency; lab/cli/options.py imports the fleet when one is used."""
    for name in NAMES:
        libraries = {library.split(".")[0] for library in imports(path_of(name))}
        if package_of(name) != "fleet":
            assert not libraries & {"dask", "distributed"}, name
            assert "fleet" not in map(package_of, lab_imports(name)), name


def test_no_module_imports_itself_by_way_of_others() -> None:
    for name in NAMES:
        assert not any(name in needed_by(module) for module in lab_imports(name)), name


def test_the_package_itself_imports_nothing() -> None:
    for path in (PROJECT / "lab").rglob("__init__.py"):
        assert not list(imports(path))


def test_the_map_is_drawn_the_same_everywhere() -> None:
    for file in ("lab/__init__.py", "CONTRIBUTING.md", "README.md"):
        text = (PROJECT / file).read_text()
        places = [text.index(f"`{package}`") for package in PACKAGES]
        assert places == sorted(places), file


def test_only_the_process_module_starts_processes() -> None:
    starters = ("subprocess", "multiprocessing", "pty", "os.system", "os.popen", "os.fork")
    users = {
        path.stem
        for path in (*MODULES, *TOOLS)
        for name in imports(path)
        if name.split(".")[0] in starters or name in starters
    }
    calls = {
        path.stem
        for path in (*MODULES, *TOOLS)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and f"{node.value.id}.{node.attr}" in starters
    }
    assert users | calls == {"process"}


def test_a_module_is_short_enough_to_read() -> None:
    for path in (*MODULES, *TOOLS):
        assert len(path.read_text().splitlines()) < MAX_LINES, path


def test_a_function_is_short_enough_to_read() -> None:
    for path in (*MODULES, *TOOLS):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert (node.end_lineno or 0) - node.lineno < MAX_FUNCTION, (path, node.name)


@cache
def needed_by(name: str) -> set[str]:
    """A module and all that it imports of the lab, directly or not."""
    needed: set[str] = set()
    left = {name}
    while left:
        module = left.pop()
        needed.add(module)
        left |= lab_imports(module) - needed
    return needed


def test_setup_needs_the_standard_library_only() -> None:
    outside = {
        name.split(".")[0] for module in needed_by("setup") for name in imports(path_of(module))
    }
    assert outside - sys.stdlib_module_names <= {"lab"}
    run([sys.executable, "-S", "-c", "import lab.setup"], cwd=PROJECT)


def test_an_old_python_can_read_setup_far_enough_to_say_that_it_is_too_old() -> None:
    for name in sorted(needed_by("setup")):
        ast.parse(path_of(name).read_text(), str(path_of(name)), feature_version=(3, 9))


SOURCES = sorted(
    path
    for pattern in (
        *("*", ".ci/*", "lab/**/*", "tests/**/*.py", "tools/*.py"),
        *("configs/**/*", "workloads/**/*"),
    )
    for path in PROJECT.glob(pattern)
    if path.is_file()
    and "__pycache__" not in path.parts
    and not path.name.endswith((".md", "LICENSE", ".git"))  # prose, the licence, a worktree's
)


def test_a_source_file_names_its_licence() -> None:
    assert len(SOURCES) > len(MODULES)
    for path in SOURCES:
        first = path.read_text().splitlines()[:3]
        assert any("SPDX-License-Identifier: GPL-2.0-or-later" in line for line in first), path
