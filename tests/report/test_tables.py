# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of commands that judge nothing: the same in the terminal, in Markdown, CSV and page."""

from __future__ import annotations

import csv
import io
import itertools

import examples
from pages import page

from lab.report import exports, tables, terminal

RUN = examples.tables_run()
TABLE = RUN.tables[0]


def test_a_table_in_a_terminal_has_its_totals_below_a_line() -> None:
    lines = tables.text(TABLE).splitlines()
    assert lines[0] == "What is | where"
    rows = [line.split() for line in lines[1:]]
    assert rows.index(["a|b", "<c>", "10.00", "20.00"]) < rows.index(["kernel", "11.00", "22.00"])
    assert max(map(len, lines)) <= 80
    assert all(line == line.rstrip() for line in lines)


def test_notes_keep_their_lines_and_wrap() -> None:
    lines = tables.text(TABLE).splitlines()
    place = lines.index("two of two")
    assert lines[place + 1] == "first line"
    assert lines[place + 2].startswith("  second line word")
    assert lines[place + 3].startswith("  word")


def test_a_table_without_columns_is_a_title_and_notes() -> None:
    assert tables.text(RUN.tables[1]) == "A conclusion\nit is so\n"
    assert tables.text(RUN.tables[1].model_copy(update={"title": ""})) == "it is so\n"
    assert exports.csv_text(RUN).count("\n\n") == 0


def test_a_table_in_markdown_keeps_its_columns() -> None:
    lines = exports.markdown(RUN).splitlines()
    assert "## What is \\| where" in lines
    assert "|---|---:|---:|" in lines
    assert "| a\\|b \\<c> | 10.00 | 20.00 |" in lines
    assert "two of two" in lines
    assert not any(line == next_line == "" for line, next_line in itertools.pairwise(lines))
    assert not any(line.startswith("| topology") for line in lines)


def test_csv_has_the_tables_of_a_run_without_boots() -> None:
    rows = list(csv.reader(io.StringIO(exports.csv_text(RUN))))
    assert rows[0] == ["function", "before", "after"]
    assert rows[-1] == ["kernel", "11.00", "22.00"]
    both = RUN.model_copy(update={"cells": examples.paired_run().cells})
    assert exports.csv_text(both).startswith("run,topology")
    assert "a|b <c>" not in exports.csv_text(both)


def test_the_page_has_them_and_text_stays_text() -> None:
    text = page(RUN).source
    assert "<h2>What is | where</h2>" in text
    assert '<td>a|b &lt;c&gt;</td><td class="n">10.00</td>' in text
    assert "two of two" in text
    assert "<h2>A conclusion</h2>" in text


def test_the_terminal_shows_them_in_place_of_a_matrix() -> None:
    both = RUN.model_copy(update={"cells": examples.matrix_run(4).cells})
    assert terminal.text(both) == "\n".join(map(tables.text, RUN.tables))
