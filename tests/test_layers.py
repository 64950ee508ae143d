# SPDX-License-Identifier: GPL-2.0-or-later
"""The package's shape: imports run one way, one module starts processes, nothing grows too big."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.command import run
from lab.config import PROJECT

# A module imports only modules that stand before it here.
ROWS = {
    "base": "errors command progress config cache apt setup stats",
    "inputs": "kconfig topology workload profile counters series",
    "stages": (
        "source tree mbox bisect kernel libraries guestroot madt plugin qemu qmp lapic turns"
        " console channel contention boot fio dbench cost"
    ),
    "judging": "plan host measure exact question verdict",
    "outputs": (
        "store ledger table scoreboard record recorder grid compare formats ci_formats plot report"
    ),
    "top": (
        "room runner pipeline judge commits control difference trial gate yardstick gc bench"
        " pytest_plugin options cli_report cli_series cli_try cli_gate cli"
    ),
}
ORDER = " ".join(ROWS.values()).split()
MAX_LINES = 400
MODULES = sorted((PROJECT / "lab").glob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Full names of all that a file imports, wherever in it: modules, or what is taken of them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def lab_imports(path: Path) -> set[str]:
    """The modules of the lab that a file imports; relative imports as they are written."""
    found = set()
    for name in imports(path):
        package, _, rest = name.partition(".")
        if package == "":
            found.add(name)
        elif package == "lab" and rest != "__version__":
            found.add(rest.partition(".")[0])
    return found


def test_every_module_has_its_row() -> None:
    assert sorted(ORDER) == [path.stem for path in MODULES if path.stem != "__init__"]


@pytest.mark.parametrize("name", ORDER)
def test_a_module_imports_only_what_stands_before_it(name: str) -> None:
    allowed = ORDER[: ORDER.index(name)]
    assert lab_imports(PROJECT / "lab" / f"{name}.py") <= set(allowed)


def test_the_package_itself_imports_nothing() -> None:
    assert not list(imports(PROJECT / "lab/__init__.py"))


def test_only_the_command_module_starts_processes() -> None:
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
    assert users | calls == {"command"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_is_short_enough_to_read(path: Path) -> None:
    assert len(path.read_text().splitlines()) < MAX_LINES


def needed_by(name: str) -> set[str]:
    """A module and all that it imports of the lab, directly or not."""
    found: set[str] = set()
    left = {name}
    while left:
        module = left.pop()
        found.add(module)
        left |= lab_imports(PROJECT / "lab" / f"{module}.py") - found
    return found


def test_setup_needs_the_standard_library_only() -> None:
    outside = {
        name.split(".")[0]
        for module in needed_by("setup")
        for name in imports(PROJECT / "lab" / f"{module}.py")
    }
    assert outside - sys.stdlib_module_names <= {"lab"}
    run([sys.executable, "-S", "-c", "import lab.setup"], cwd=PROJECT)


@pytest.mark.parametrize("name", sorted(needed_by("setup")))
def test_an_old_python_can_read_setup_far_enough_to_say_that_it_is_too_old(name: str) -> None:
    ast.parse((PROJECT / "lab" / f"{name}.py").read_text(), feature_version=(3, 9))


SOURCES = sorted(
    path
    for pattern in ("*", ".ci/*", "lab/**/*", "tests/*", "configs/**/*", "workloads/**/*")
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
