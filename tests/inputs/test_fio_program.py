# SPDX-License-Identifier: GPL-2.0-or-later
"""This host's fio decides what a job may say, and executes nothing of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.base.errors import UsageError
from lab.inputs import fio_line, fio_program
from lab.inputs.fio_program import read


def test_options_of_fio_itself_are_left_out_and_short_ones_get_their_names() -> None:
    job = read("fio --name=a --minimal --output=log --numj=4 --rw=read --iodepth_l 16")
    assert job.text() == "[a]\nnumjobs=4\nrw=read\niodepth_low=16\n"


def test_only_the_sections_that_are_named_are_kept() -> None:
    job = read("--bs=4k --section=b --name=a --rw=read --name=b --rw=write")
    assert [name for name, _ in job.jobs()] == ["b"]
    with pytest.raises(UsageError, match="--section=c names no section"):
        read("--section=c --name=a --rw=read")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--rw=read --frob=1", r"fio does not take the job: Bad option <frob=1>"),
        ("--rw=frob", r"fio does not take the job: .*rw"),
        ("--rw=read --size=99999999999999999999g", "failed parsing size="),
        ("--ioengine=frob", "this fio has no engine 'frob'"),
        ("--server", "--server makes fio another program"),
        ("--rw=read --profile=act", "profile is a program of its own"),
        ("--rw=read --size=$SIZE", r"size=\$SIZE depends on where fio runs"),
        (
            "--rw=write --verify=pattern \"--verify_pattern='/etc/passwd'\"",
            "reads a file of this host",
        ),
        ("--rw=read --read_iolog=/etc/passwd", "read_iolog replays a file of this host"),
        ("--rw=read --opendir=/etc", "opendir lists a folder of this host"),
    ],
)
def test_what_fio_does_not_take_or_no_guest_has_is_refused(line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(line)


def test_nothing_of_a_job_is_executed_or_loaded_on_the_host(tmp_path: Path) -> None:
    """A constructor of an engine's library runs as soon as fio opens it."""
    ran = tmp_path / "ran"
    source, library = tmp_path / "engine.c", tmp_path / "engine.so"
    source.write_text(
        "#include <fcntl.h>\n__attribute__((constructor)) static void run(void)\n"
        f'{{ open("{ran}", O_CREAT | O_WRONLY, 0600); }}\n'
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    for line in (
        f"--rw=read --ioengine={library}",
        f"--rw=read --ioengine=external:{library}",
        f"--rw=read --exec_prerun='touch {ran}'",
        f"--rw=read --exec_postrun='touch {ran}'",
    ):
        with pytest.raises(UsageError):
            read(line)
    read(f"--rw=write --size=1m --name=a --filename={ran}")
    assert not ran.exists()


def test_fio_knows_the_second_names_that_the_lab_knows() -> None:
    fio = fio_program._fio()
    for alias, name in fio_line._ALIASES.items():
        help_text = subprocess.run(
            [fio, f"--cmdhelp={name}"], capture_output=True, text=True
        ).stdout
        assert f"alias: {alias}" in help_text


def test_an_engine_has_options_of_its_own() -> None:
    assert {"hipri", "sqthread_poll"} <= fio_program.engine_options("io_uring")
    assert "sqthread_poll" not in fio_program.engine_options("psync")
