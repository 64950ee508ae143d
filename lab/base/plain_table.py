# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables as plain text."""

from __future__ import annotations

from io import StringIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 80


class PlainTable:
    """A rich table of plain cells in so many columns, printed below its title."""

    def __init__(self, title: str, width: int = WIDTH) -> None:
        self._title = title
        self._width = width
        self._table = Table(box=box.SIMPLE_HEAD)

    def column(self, name: str, *, right: bool = False) -> None:
        """Add a column; right for numbers."""
        self._table.add_column(Text(name), justify="right" if right else "left")

    def row(self, *cells: str) -> None:
        """Add a row with a cell for each column."""
        self._table.add_row(*map(Text, cells))

    def line(self) -> None:
        """Draw a line below the rows so far."""
        self._table.add_section()

    def text(self) -> str:
        """The table as lines without trailing blanks."""
        out = StringIO()
        Console(file=out, width=self._width, color_system=None).print(
            Text(self._title), self._table
        )
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
