# SPDX-License-Identifier: GPL-2.0-or-later
"""A record's generic tables, and those of costs: for a terminal, for Markdown, as CSV."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterable, Sequence

from lab.base.plain_table import WIDTH, PlainTable
from lab.base.text import number
from lab.measure import cost
from lab.measure.cost import Cost
from lab.measure.sim_counts import Line
from lab.report import escapes
from lab.report.run_record import Column, TableRecord

# So many functions are named for a line.
_MOVERS = 3


def columns(*titles: str) -> tuple[Column, ...]:
    """Columns of a table: the first is text, all others are numbers."""
    return tuple(Column(title=title, right=place > 0) for place, title in enumerate(titles))


def texts(*titles: str) -> tuple[Column, ...]:
    """Columns of a table that are all text."""
    return tuple(Column(title=title) for title in titles)


def text(table: TableRecord, width: int = WIDTH) -> str:
    """A table with its notes, in so many columns. A note's own lines stay lines."""
    parts = []
    if table.columns:
        plain = PlainTable(table.title, width)
        for column in table.columns:
            plain.column(column.title, right=column.right)
        for row in table.rows:
            plain.row(*row)
        if table.totals:
            plain.line()
        for row in table.totals:
            plain.row(*row)
        parts.append(plain.text())
    elif table.title:
        parts.append(_paragraph(table.title, width))
    return "".join([*parts, *(_paragraph(note, width) for note in table.notes)])


def markdown(table: TableRecord) -> list[str]:
    """A table as lines of GitHub-flavoured Markdown, its notes as paragraphs."""
    paragraphs = [f"## {escapes.markdown(table.title)}"] if table.title else []
    if table.columns:
        rows = ([column.title for column in table.columns], *table.rows, *table.totals)
        shown = [[*map(escapes.markdown, row)] for row in rows]
        right = [place for place, column in enumerate(table.columns) if column.right]
        paragraphs.append("\n".join(markdown_rows(shown, right)))
    paragraphs += [
        "  \n".join(map(escapes.markdown_line, note.splitlines())) for note in table.notes
    ]
    return "\n\n".join(paragraphs).split("\n")


def markdown_rows(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Rows of cells that are Markdown, the first as titles; right are the columns of numbers."""
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    kinds = ("---:" if place in right else "---" for place in range(len(rows[0])))
    return [head, f"|{'|'.join(kinds)}|", *body]


def csv_text(table: TableRecord) -> str:
    """A table's rows below their titles."""
    titles = [column.title for column in table.columns]
    return csv_rows((titles, *table.rows, *table.totals))


def csv_rows(rows: Iterable[Sequence[object]]) -> str:
    """Rows for a spreadsheet, in which no text is a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows(map(escapes.csv_cell, row) for row in rows)
    return out.getvalue()


def of_costs(
    names: tuple[str, str],
    costs: tuple[Cost, Cost],
    rows: int,
    what: str = "Kernel instructions per I/O",
) -> TableRecord:
    """What an I/O costs in two measurements: what changed by function, then totals."""
    before, after = costs
    changed = cost.changes([before], [after])
    shown = [(c.function, c.before, c.after) for c in changed[:rows]]
    if rest := changed[rows:]:
        shown.append((f"{len(rest)} more", sum(c.before for c in rest), sum(c.after for c in rest)))
    same = len(before.kernel.keys() | after.kernel.keys()) - len(changed)
    unchanged = before.kernel_total - sum(c.before for c in changed)
    shown.append((f"{same} unchanged", unchanged, unchanged))
    totals = (
        ("kernel", before.kernel_total, after.kernel_total),
        ("user space", before.user, after.user),
    )
    return TableRecord(
        title=f"{what} by function: {names[0]} -> {names[1]}",
        columns=columns("function", *names, "difference"),
        rows=tuple(_difference(*row) for row in shown),
        totals=tuple(_difference(*row) for row in totals),
    )


def of_lines(arm: str, lines: Sequence[Line], rows: int) -> TableRecord:
    """The cache lines with most transfers between CPUs, and the functions that cause them."""
    shown = []
    for line in lines[:rows]:
        worst = [*line.transfers.items()][:_MOVERS]
        by = ", ".join(f"{name} {number(transfers)}" for name, transfers in worst)
        shown.append((line.place, number(line.total), by))
    return TableRecord(
        title=f"Cache lines with most transfers, transfers per I/O: {arm}",
        columns=(*columns("line", "transfers"), Column(title="by")),
        rows=tuple(shown),
    )


def _difference(name: str, before: float, after: float) -> tuple[str, ...]:
    return name, f"{before:,.2f}", f"{after:,.2f}", f"{after - before:+z,.2f}"


def _paragraph(words: str, width: int) -> str:
    """Lines that fit; what a line of the words is wrapped to is indented as it is."""
    lines = []
    for line in words.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(line, width, subsequent_indent=indent) or [""]
    return "\n".join(lines) + "\n"
