# SPDX-License-Identifier: GPL-2.0-or-later
"""fio command lines and job files as people post them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import UsageError
from lab.inputs import fio_line
from lab.inputs.fio_line import FioJob, Section, command_line, parse

READER = (("rw", "randread"), ("bs", "4k"), ("direct", "1"))
ONE = FioJob((Section("reader", READER),))


@pytest.mark.parametrize(
    "line",
    [
        "fio --name=reader --rw=randread --bs=4k --direct=1",
        "--name=reader --rw=randread --bs=4k --direct=1",
        "-name=reader -rw=randread -bs=4k -direct=1",
        "$ sudo /usr/bin/fio --name reader --rw randread --bs 4k --direct 1",
        "fio --name=reader \\\n  --rw=randread \\\n  --bs='4k' --direct=\"1\"",
        "[reader]\nrw=randread\nbs = 4k ; a block\n\n# nothing\ndirect=1",
        "; first\n[reader]\r\nrw=randread\r\nbs=4k\r\ndirect=1\r\n",
    ],
)
def test_a_job_is_the_same_however_it_is_written(line: str) -> None:
    assert parse(line) == ONE


def test_what_stands_before_the_first_name_is_for_all_jobs() -> None:
    job = parse("--bs=4k --name=a --rw=read --name=b --rw=write --stonewall")
    assert list(job.jobs()) == [
        ("a", {"bs": "4k", "rw": "read"}),
        ("b", {"bs": "4k", "rw": "write", "stonewall": ""}),
    ]


def test_a_global_section_is_for_those_that_follow_it_and_the_last_value_counts() -> None:
    text = "[global]\nbs=4k\n[a]\nrw=read\n[global]\nblocksize=8k\n[b]\nrw=write\nrw=randwrite\n"
    assert list(parse(text).jobs()) == [
        ("a", {"bs": "4k", "rw": "read"}),
        ("b", {"bs": "8k", "rw": "randwrite"}),
    ]


def test_a_line_without_a_name_is_one_job() -> None:
    assert list(parse("--rw=read --thread").jobs()) == [("job", {"rw": "read", "thread": ""})]


def test_a_job_file_comes_back_as_it_was_read() -> None:
    job = parse("--bs=4k --name=a --rw=read --name=b --stonewall")
    assert parse(job.text()) == job
    assert parse(command_line(job)) == job


def test_a_job_that_names_itself_in_its_section_is_one_job_on_a_command_line() -> None:
    job = parse("[global]\nbs=4k\n[job1]\nrw=read\nname=batch\n")
    assert command_line(job) == "fio --bs=4k --name=batch --rw=read"


def test_a_command_line_leaves_out_what_it_is_told_to_by_either_name() -> None:
    job = parse("--name=a --rw=read --timeout=3 --bs=4k")
    assert command_line(job, frozenset({"runtime"})) == "fio --name=a --rw=read --bs=4k"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--rw=read 'a", "not complete: No closing quotation"),
        ("--rw=read | tee log", "'|' is for a shell"),
        ("--rw=read job.fio", "'job.fio' is no option of fio"),
        ("fio", "the fio line is empty"),
        ("--rw=read --=3", "'' is no option of fio"),
        ("--rw=read '--size=1g\n[b]'", r"the value of size has the character '\\n'"),
        ("--name='a]b' --rw=read", "is no name of a job"),
        ("[global]\nbs=4k\n", "the job has no section"),
        ("[a]\nrw=read\ninclude other.fio\n", "line 3 of the job includes another file"),
        ("include own.fio\n[a]\nrw=read\n", "line 1 of the job includes another file"),
        ("[a]\nnumjobs=10000\n", "10,000 jobs are more than fio takes"),
        ("[a]\nnumjobs=0\n", "numjobs=0 is no number of jobs"),
        ("[a]\nrw=\0read\n", r"a job has no character '\\x00'"),
        ("[a]\n" + "rw=read\n" * 10_000, "more than 64 KiB"),
    ],
)
def test_what_is_no_job_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(text)


def test_a_file_that_is_no_job_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "own.fio"
    for content, message in ((b"x" * (10 << 20), "larger than 64 KiB"), (b"\xff", "not UTF-8")):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=message) as caught:
            fio_line.read(path)
        assert str(path) in str(caught.value)
    with pytest.raises(UsageError, match="No such file"):
        fio_line.read(tmp_path / "gone.fio")
