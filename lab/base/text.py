# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers and tables as plain text within 80 columns."""

from __future__ import annotations

from io import StringIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDTH = 80
_NOTHING = "-"


def number(value: float | None) -> str:
    """A value with about four significant digits, thousands separated."""
    if value is None:
        return _NOTHING
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 or not value else f"{value:.3g}"


def percent(change: float, *, exact: bool) -> str:
    """A change, a fraction, as a signed percentage: the one way in which the lab writes it.

    It has one digit after the point. An exact change of less than 10 % has two, for thresholds are
    a quarter of a per cent, and up to four as long as it would read as zero without being it. Zero
    has a plus.
    """
    if not exact or abs(change) >= 0.1:
        return f"{100 * change:+z,.1f} %"
    digits = next((n for n in (2, 3, 4) if round(100 * abs(change), n)), 2)
    return f"{100 * change:+z.{digits}f} %"


class PlainTable:
    """A rich table of plain cells, printed below a title that is as wide as it likes."""

    def __init__(self, title: str) -> None:
        self._title = title
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
        Console(file=out, width=_WIDTH, color_system=None).print(Text(self._title), self._table)
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
