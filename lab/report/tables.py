# SPDX-License-Identifier: GPL-2.0-or-later
"""A record's generic tables as text: for a terminal, for Markdown, as CSV."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterable, Sequence

from lab.base.plain_table import WIDTH, PlainTable
from lab.report import escapes
from lab.report.run_record import Column, TableRecord


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
        parts.append("\n".join(_wrapped(table.title, width)) + "\n")
    for note in table.notes:
        parts.append(
            "\n".join(part for line in note.splitlines() for part in _wrapped(line, width))
        )
        parts[-1] += "\n"
    return "".join(parts)


def markdown(table: TableRecord) -> list[str]:
    """A table as lines of GitHub-flavoured Markdown, its notes as paragraphs."""
    paragraphs = [f"## {escapes.markdown(table.title)}"] if table.title else []
    if table.columns:
        rows = ([column.title for column in table.columns], *table.rows, *table.totals)
        head, *body = (f"| {' | '.join(map(escapes.markdown, row))} |" for row in rows)
        below = f"|{'|'.join('---:' if column.right else '---' for column in table.columns)}|"
        paragraphs.append("\n".join((head, below, *body)))
    paragraphs += [
        "  \n".join(map(escapes.markdown_line, note.splitlines())) for note in table.notes
    ]
    return "\n\n".join(paragraphs).split("\n")


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


def _wrapped(line: str, width: int) -> list[str]:
    """A line that fits; what it is wrapped to is indented as it is."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(line, width, subsequent_indent=indent) or [""]
