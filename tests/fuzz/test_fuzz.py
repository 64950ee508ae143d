# SPDX-License-Identifier: GPL-2.0-or-later
"""Whatever is written, it is read or refused: no parser of the lab's ends in another error, and
none takes longer than its input is long.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parsers import PARSERS, content, examples

from lab.base.errors import LabError

CASES = [(parser, path) for parser in PARSERS for path in examples(parser)]
# What has a meaning to some parser, or had one to somebody else's.
TOKENS = [
    *(b"\n", b"\r\n", b"\0", b"\t", b"\x1b[2J", b"\xff", "\N{LINE SEPARATOR}".encode(), b"\x1c"),
    *(b"9" * 30, b"9" * 5000, b"-1", b"0x", b"1_0", b"NaN", b"Infinity", b"1e999", b"null", b'"'),
    *(
        b"[",
        b"{",
        b"}",
        b"=",
        b'"""',
        b"../",
        b"@file ",
        b"@end ok 0\n\n",
        b"phase 0 1 1\n",
        b"end\n",
    ),
    *(b"INFO: task ", b"BUG: ", b"+0x1/0x2", b" a.", b"XFS (", b" error, dev ", b"Call Trace:\n"),
    *(b"Subject: [PATCH 1/2] x\n", b"[PATCH ", b"From x Mon Sep 17 00:00:00 2001\n", b"=?x?q?"),
    *(b"Content-Type: multipart/mixed; boundary=a\n", b"--a\n", b"diff --git a/a b/a\n", b"---\n"),
]
EDIT = st.tuples(
    st.floats(0, 1),  # where
    st.integers(0, 40),  # how many bytes go
    st.sampled_from(TOKENS) | st.binary(max_size=8),
    st.sampled_from([1, 1, 1, 2, 100, 3000]),  # how often it is written
)
# In seconds of CPU time, for a megabyte and for anything at all. Chosen: what is quadratic takes
# minutes.
A_MEGABYTE, ANYTHING, TRIES = 5.0, 2.0, 3


def read(parser: str, content: bytes) -> None:
    """Let a parser read something; any error but the lab's own ends the test.

    What takes too long is read again, for a host that is taken away from this process counts that
    as its time: what is slow by itself is slow each time.
    """
    allowed = ANYTHING + A_MEGABYTE * len(content) / 1e6
    took = [_seconds(parser, content)]
    while took[-1] >= allowed and len(took) < TRIES:
        took.append(_seconds(parser, content))
    assert min(took) < allowed


def _seconds(parser: str, content: bytes) -> float:
    begun = time.process_time()
    with suppress(LabError):
        PARSERS[parser](content)
    return time.process_time() - begun


def edited(content: bytes, edits: list[tuple[float, int, bytes, int]]) -> bytes:
    for where, gone, token, times in edits:
        place = int(where * len(content))
        content = content[:place] + token * times + content[place + gone :]
    return content


@pytest.mark.parametrize(("parser", "path"), CASES, ids=lambda one: getattr(one, "name", one))
def test_examples_are_read_or_refused(parser: str, path: Path) -> None:
    read(parser, content(path))


def test_every_parser_has_an_example() -> None:
    assert {parser for parser, _ in CASES} == PARSERS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("parser", [name for name in PARSERS if name != "mailbox"])
@pytest.mark.parametrize(
    "piece",
    [b"INFO: task ", b"BUG: a.", b"a.a+0x", b"\n", b"[", b"{ x } hitcount: ", b"@file a 1\nx\n"],
    ids=["tasks", "bugs", "functions", "lines", "brackets", "hits", "records"],
)
def test_much_of_one_thing_takes_no_longer_than_it_is_long(parser: str, piece: bytes) -> None:
    read(parser, piece * (200_000 // len(piece)))


@pytest.mark.fuzz
@pytest.mark.parametrize("parser", PARSERS)
def test_whatever_comes_is_read_or_refused(parser: str) -> None:
    seeds = [content(path)[:50_000] for path in examples(parser)]

    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(seeds), st.lists(EDIT, min_size=1, max_size=8))
    def some(content: bytes, edits: list[tuple[float, int, bytes, int]]) -> None:
        read(parser, edited(content, edits))

    end = time.monotonic() + float(os.environ.get("LAB_FUZZ_SECONDS", "10")) / len(PARSERS)
    while time.monotonic() < end:
        some()
