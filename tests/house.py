# SPDX-License-Identifier: GPL-2.0-or-later
"""The package's shape, read off its own imports. ``make map`` prints it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "lab"
# In the order the data flows: a room imports only rooms before it.
ROOMS = (
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


def room_of(name: str) -> str:
    """The room of a module; ``setup`` stands before all rooms but ``base``."""
    return "cli" if name == "__main__" else name.partition(".")[0]


@cache
def parsed(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> frozenset[str]:
    """Full names of all that a file imports, wherever in it: modules, or what is taken of them."""
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            found.update(f"{origin}.{alias.name}" for alias in node.names)
    return frozenset(found)


@cache
def lab_imports(name: str) -> frozenset[str]:
    """The modules of the lab that a module imports, by their names within it."""
    found = set()
    for full in imports(path_of(name)):
        parts = full.split(".")
        if parts[0] == "lab" and len(parts) > 1 and parts[1] != "__version__":
            found.add(".".join(parts[1:3]) if parts[1] in ROOMS else parts[1])
    return frozenset(found)


def room_floors(room: str) -> int:
    """How many rooms stand above each other up to this one, itself included."""
    return 1 + max(map(room_floors, rooms_below(room)), default=0)


def rooms_below(room: str) -> list[str]:
    """The rooms that a room imports, in order."""
    own = [name_of(path) for path in MODULES if room_of(name_of(path)) == room]
    used = {room_of(other) for name in own for other in lab_imports(name)} - {room}
    return [name for name in ROOMS if name in used]


def table() -> str:
    """A line for each room: modules, lines, the longest module, and the rooms it imports."""
    rows = [("room", "modules", "lines", "longest", "imports")]
    for room in ROOMS:
        sizes = {
            path.stem: len(path.read_text().splitlines())
            for path in MODULES
            if room_of(name_of(path)) == room
        }
        longest = max(sizes, key=lambda stem: sizes[stem])
        size = f"{longest} {sizes[longest]}"
        below = " ".join(rooms_below(room)) or "-"
        rows.append((room, str(len(sizes)), str(sum(sizes.values())), size, below))
    widths = [max(len(row[place]) for row in rows) for place in range(4)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]])
        for row in rows
    ]
    floors = max(map(room_floors, ROOMS))
    arrows = sum(len(lab_imports(name_of(path))) for path in MODULES)
    lines.append(f"{len(MODULES)} modules, {arrows} imports, {floors} floors of rooms")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
