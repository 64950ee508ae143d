# SPDX-License-Identifier: GPL-2.0-or-later
"""A record's generic tables as text: for a terminal, for Markdown, as CSV."""

from __future__ import annotations

import csv
import io
import textwrap

from lab.base.plain_table import PlainTable
from lab.report.run_record import Column, Table

_WIDTH = 80


def columns(*titles: str) -> tuple[Column, ...]:
    """Columns of a table: the first is text, all others are numbers."""
    return tuple(Column(title=title, right=place > 0) for place, title in enumerate(titles))


def texts(*titles: str) -> tuple[Column, ...]:
    """Columns of a table that are all text."""
    return tuple(Column(title=title) for title in titles)


def text(table: Table) -> str:
    """A table with its notes, in 80 columns. A note's own lines stay lines."""
    parts = []
    if table.columns:
        plain = PlainTable(table.title)
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
        parts.append("\n".join(_wrapped(table.title)) + "\n")
    for note in table.notes:
        parts.append("\n".join(part for line in note.splitlines() for part in _wrapped(line)))
        parts[-1] += "\n"
    return "".join(parts)


def markdown(table: Table) -> list[str]:
    """A table as lines of GitHub-flavoured Markdown, its notes as paragraphs."""
    paragraphs = [f"## {cell(table.title)}"] if table.title else []
    if table.columns:
        lines = [
            f"| {' | '.join(cell(column.title) for column in table.columns)} |",
            f"|{'|'.join('---:' if column.right else '---' for column in table.columns)}|",
            *(f"| {' | '.join(map(cell, row))} |" for row in (*table.rows, *table.totals)),
        ]
        paragraphs.append("\n".join(lines))
    paragraphs += ["  \n".join(map(cell, note.splitlines())) for note in table.notes]
    return "\n\n".join(paragraphs).split("\n")


def csv_text(table: Table) -> str:
    """A table's rows below their titles, as they are."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(column.title for column in table.columns)
    writer.writerows((*table.rows, *table.totals))
    return out.getvalue()


def cell(text: str) -> str:
    """Text that cannot break a Markdown table."""
    return " ".join(text.replace("|", "\\|").split())


def _wrapped(line: str) -> list[str]:
    """A line that fits; what it is wrapped to is indented as it is."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(line, _WIDTH, subsequent_indent=indent) or [""]
