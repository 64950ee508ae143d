# SPDX-License-Identifier: GPL-2.0-or-later
"""Costs by source line: which line of one kernel is which of the other, and what the table says."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.build.source_lines import LinePlace
from lab.commands import line_costs
from lab.commands.line_costs import Difference

FILE = "block/part.c"
WORDS = st.lists(st.sampled_from("abcd"), max_size=12)


def diff(folder: Path, old: list[str], new: list[str]) -> str:
    for name, lines in (("old", old), ("new", new)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    argv = ["git", "diff", "--no-index", "-U0", "old", "new"]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False).stdout


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(old=WORDS, new=WORDS)
def test_a_line_that_is_kept_is_found_again_and_one_that_is_gone_is_not(
    tmp_path: Path, old: list[str], new: list[str]
) -> None:
    text = diff(tmp_path, old, new)
    hunks = line_costs.hunks(text)
    moved = [line_costs.moved(LinePlace(FILE, line), hunks) for line in range(1, len(old) + 1)]
    gone = sum(line.startswith("-") and not line.startswith("---") for line in text.splitlines())
    assert moved.count(None) == gone
    kept = [(old[number], place.line) for number, place in enumerate(moved) if place]
    assert all(new[line - 1] == word for word, line in kept)
    assert [line for _, line in kept] == sorted({line for _, line in kept})


def test_a_file_that_does_not_differ_keeps_its_numbers() -> None:
    assert line_costs.moved(LinePlace(FILE, 7), ()) == LinePlace(FILE, 7)


def test_the_table_ends_with_the_sum_of_all_lines_those_not_shown_included() -> None:
    differences = [
        Difference(LinePlace(FILE, 4), "spin_lock(&q->lock);", 0.0, 30.5),
        Difference(LinePlace(FILE, 2), "rq = next(q);", 12.0, 8.0),
        Difference(LinePlace("arch/x86/include/asm/io.h", 9), "return rq;", 1.0, 2.0),
    ]
    whole = line_costs.table(("before", "after"), differences, 3)
    assert whole.rows[2][0] == "asm/io.h:9"
    table = line_costs.table(("before", "after"), differences, 2)
    assert table.rows[0] == ("block/part.c:4", "0.00", "30.50", "+30.50", "spin_lock(&q->lock);")
    assert table.rows[-1] == ("1 more", "1.00", "2.00", "+1.00", "")
    assert table.totals == (("these lines", "13.00", "40.50", "+27.50", ""),)
