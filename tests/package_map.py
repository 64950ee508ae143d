# SPDX-License-Identifier: GPL-2.0-or-later
"""The package's shape, read off its own imports. ``make map`` prints it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "lab"
# In the order the data flows: a package imports only packages before it.
PACKAGES = (
    *("base", "inputs", "build", "guest", "measure", "fleet"),
    *("judge", "report", "commands", "cli"),
)
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")


def name_of(path: Path) -> str:
    """A module's name within the lab, such as ``judge.verdict``."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def path_of(name: str) -> Path:
    """The file of a module of the lab."""
    return PACKAGE.joinpath(*name.split(".")).with_suffix(".py")


def package_of(name: str) -> str:
    """The package of a module; ``setup`` stands before all packages but ``base``."""
    return "cli" if name == "__main__" else name.partition(".")[0]


@cache
def parsed(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> frozenset[str]:
    """Full names of all that a file imports, wherever in it: modules, or what is taken of them."""
    names: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            names.update(f"{origin}.{alias.name}" for alias in node.names)
    return frozenset(names)


@cache
def lab_imports(name: str) -> frozenset[str]:
    """The modules of the lab that a module imports, by their names within it."""
    modules = set()
    for full in imports(path_of(name)):
        parts = full.split(".")
        if parts[0] == "lab" and len(parts) > 1 and parts[1] != "__version__":
            modules.add(".".join(parts[1:3]) if parts[1] in PACKAGES else parts[1])
    return frozenset(modules)


def layer_of(package: str) -> int:
    """How many packages stand above each other up to this one, itself included."""
    return 1 + max(map(layer_of, packages_below(package)), default=0)


def packages_below(package: str) -> list[str]:
    """The packages that a package imports, in order."""
    modules = [name_of(path) for path in MODULES if package_of(name_of(path)) == package]
    used = {package_of(imported) for name in modules for imported in lab_imports(name)} - {package}
    return [name for name in PACKAGES if name in used]


def table() -> str:
    """A line for each package: modules, lines, the longest module, and the packages it imports."""
    rows = [("package", "modules", "lines", "longest", "imports")]
    for package in PACKAGES:
        sizes = {
            path.stem: len(path.read_text().splitlines())
            for path in MODULES
            if package_of(name_of(path)) == package
        }
        longest = max(sizes, key=lambda stem: sizes[stem])
        size = f"{longest} {sizes[longest]}"
        below = " ".join(packages_below(package)) or "-"
        rows.append((package, str(len(sizes)), str(sum(sizes.values())), size, below))
    widths = [max(len(row[place]) for row in rows) for place in range(4)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]])
        for row in rows
    ]
    layers = max(map(layer_of, PACKAGES))
    arrows = sum(len(lab_imports(name_of(path))) for path in MODULES)
    lines.append(f"{len(MODULES)} modules, {arrows} imports, {layers} layers of packages")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
