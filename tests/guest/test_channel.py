# SPDX-License-Identifier: GPL-2.0-or-later
"""The result channel's records survive any way in which they arrive."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.base.errors import GuestError
from lab.guest import channel
from lab.guest.channel import Reader, Record

KINDS = ("phase", "file", "fail", "end")
NAMES = st.text("abcxyzABC019_.-", min_size=1, max_size=20)
TRICKY = st.sampled_from([b"", b"\n", b"@end ok 0\n\n", b"@file x 5\n", b"\n@", b"\0\xff\n\n"])
RECORDS = st.builds(Record, st.sampled_from(KINDS), NAMES, TRICKY | st.binary(max_size=300))


def encoded(record: Record) -> bytes:
    header = f"@{record.kind} {record.name} {len(record.payload)}\n"
    return header.encode() + record.payload + b"\n"


def chunks(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    return [stream[a:b] for a, b in pairwise(places)]


@given(st.lists(RECORDS, max_size=8), st.lists(st.integers(0, 2000), max_size=40))
@example([Record("file", "job.log", b"@end ok 0\n\n@phase x 0\n\n")], list(range(80)))
def test_records_come_out_as_they_went_in_however_they_are_cut(
    records: list[Record], cuts: list[int]
) -> None:
    reader = Reader()
    stream = b"".join(map(encoded, records))
    assert [record for part in chunks(stream, cuts) for record in reader.feed(part)] == records


@given(RECORDS, st.data())
def test_a_record_is_silent_until_its_last_byte(record: Record, data: st.DataObject) -> None:
    stream = encoded(record)
    cut = data.draw(st.integers(0, len(stream) - 1))
    reader = Reader()
    assert list(reader.feed(stream[:cut])) == []
    assert list(reader.feed(stream[cut:])) == [record]


@pytest.mark.parametrize(
    "garbage",
    [
        b"Kernel panic\n",
        b"\n",
        b"@file facts.tsv\n",
        b"@file facts.tsv -1\n",
        b"@file two words 3\nabc\n",
        b"@boast ok 0\n\n",
        b" @end ok 0\n\n",
        b"@end ok 0 \n\n",
        b"x" * 500,
        # Longer than the agent's, and no digits of ours.
        b"@file " + b"x" * 65 + b" 1\n",
        b"@file x 1234567890\n",
        b"@file x \xd9\xa1\n",
        b"@file a 1\nabc\n@end ok 0\n\n",
        b"@file a 2\nabc\n@end ok 0\n\n",
        # The payload swallows the line end, and the next record loses its "@".
        b"@file a 4\nabc\n@end ok 0\n\n",
    ],
)
def test_what_is_no_record_is_refused(garbage: bytes) -> None:
    with pytest.raises(GuestError, match="no record") as caught:
        list(Reader().feed(garbage))
    assert caught.value.outcome == "corrupt"


def test_records_before_the_garbage_are_not_lost() -> None:
    records = Reader().feed(b"@phase setup 0\n\n@file a 1\nx\ngarbage\n")
    assert [next(records), next(records)] == [
        Record("phase", "setup", b""),
        Record("file", "a", b"x"),
    ]
    with pytest.raises(GuestError, match="garbage"):
        next(records)


def test_text_that_is_not_utf8_still_reads() -> None:
    assert Record("file", "log", b"a\xffb").text == "a\N{REPLACEMENT CHARACTER}b"


def test_a_record_that_is_cut_off_is_left_out() -> None:
    records = Reader().feed(b"@phase setup 0\n\n@file facts.tsv 99\ncut off")
    assert [*records] == [Record("phase", "setup", b"")]


def test_a_length_beyond_all_limits_is_a_flood_before_it_comes() -> None:
    with pytest.raises(GuestError, match="more than 64 MiB") as caught:
        list(Reader().feed(b"@file trace 99999999\n"))
    assert caught.value.outcome == "flooded"


def test_many_records_together_are_a_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "MAX_BYTES", 1000)
    reader, record = Reader(), b"@file x 90\n" + b"y" * 90 + b"\n"
    assert len([*reader.feed(record * 9)]) == 9
    with pytest.raises(GuestError) as caught:
        list(reader.feed(record))
    assert caught.value.outcome == "flooded"
