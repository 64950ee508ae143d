# SPDX-License-Identifier: GPL-2.0-or-later
"""A user's command: what it takes along, what is changed in it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import UsageError
from lab.inputs import guest_command, io_uring_line, workload


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with a script and data, and programs on PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("dd", "sync", "seq"):
        (programs / name).write_bytes(b"\x7fELF")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    (tmp_path / "test.sh").write_text(f"#!{programs}/dd\n")
    (tmp_path / "data").write_text("1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_programs_are_taken_where_a_program_stands(folder: Path) -> None:
    command = "for i in $(seq 3); do dd if=data of=$DISK; done && sync; echo sync dd"
    taken = guest_command.files(command, folder)
    assert {"/bin/seq", "/bin/dd", "/bin/sync"} <= taken.keys()
    assert taken["/bin/dd"] == folder / "bin/dd"


def test_a_program_s_name_among_arguments_is_no_program(folder: Path) -> None:
    assert guest_command.files("echo dd sync", folder) == {}


def test_files_keep_their_places_and_a_script_takes_what_runs_it_along(folder: Path) -> None:
    taken = guest_command.files("./test.sh data /nonexistent", folder)
    places = [folder / name for name in ("test.sh", "bin/dd", "data")]
    assert taken == {str(place): place for place in places}


def test_more_than_a_guest_takes_is_refused(folder: Path) -> None:
    with (folder / "large").open("wb") as large:
        large.truncate(65 << 20)
    with pytest.raises(UsageError, match="65 MiB"):
        guest_command.files("dd if=./large of=$DISK", folder)


@pytest.mark.parametrize("text", ["echo $N", "echo ${N}", 'dd count="$N"'])
def test_an_amount_is_seen(text: str) -> None:
    assert guest_command.has_amount(text)
    assert not guest_command.has_amount(text.replace("N", "NAME"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("  ", "empty"),
        ("echo 'a", "not a shell command"),
        ("echo \x1b[2J", "has no character"),
        ("x" * 70_000, "at most 64 KiB"),
    ],
)
def test_what_is_no_command_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        guest_command.require_text(text, "--run")


def test_the_disk_stands_for_the_one_of_the_mail() -> None:
    text, changes = guest_command.fitted("dd if=/dev/nvme0n1p2 of=/dev/null; fsync /dev/sdb")
    assert text == "dd if=$DISK of=/dev/null; fsync $DISK"
    assert changes == ["the disk is named for /dev/nvme0n1p2, /dev/sdb"]


@pytest.mark.parametrize(
    ("text", "fit"),
    [
        ("t/io_uring -p1 -d128 /dev/nvme0n1", "t/io_uring -r1 -p1 -d128 $DISK"),
        ("./t/io_uring -r4 /dev/nullb0", "./t/io_uring -r1 $DISK"),
        ("io_uring -b512 -r 3 -n2", "io_uring -b512 -r1 -n2 $DISK"),
        ("dd if=t/io_uring", "dd if=t/io_uring"),
    ],
)
def test_a_line_of_io_uring_ends_after_a_second(text: str, fit: str) -> None:
    assert guest_command.fitted(text)[0] == fit


@pytest.mark.parametrize("option", ["-u1", "-N1"])
def test_a_line_of_io_uring_that_no_guest_can_run_is_refused(option: str) -> None:
    with pytest.raises(UsageError, match=option):
        guest_command.fitted(f"t/io_uring {option} /dev/ng0n1")


@pytest.mark.parametrize(("options", "polls"), [("", True), ("-p1", True), ("-p0", False)])
def test_a_line_of_io_uring_polls_unless_it_says_not(options: str, polls: bool) -> None:
    assert io_uring_line.polls(f"t/io_uring {options}") == polls
    assert not io_uring_line.polls("dd")


def test_a_command_is_a_workload_that_can_be_named_again(folder: Path) -> None:
    name, changes = workload.give_command("dd if=/dev/sda count=$N", "echo é")
    work = workload.get(name)
    assert workload.is_given(name)
    assert (work.tool, work.metric) == ("command", "kernel_insns")
    assert (work.command, work.setup) == ("dd if=$DISK count=$N", "echo é")
    assert work.folder == str(folder)
    assert changes == ["the disk is named for /dev/sda"]
    assert workload.options(name) == ["--run", work.command, "--setup", "echo é"]
    assert workload.give_command(work.command, work.setup) == (name, [])


def test_a_command_asks_for_the_file_systems_that_it_names(folder: Path) -> None:
    name, _ = workload.give_command("mount -t ext4 $DISK $MNT", "mkfs.xfs $DISK")
    assert set(workload.get(name).kernel) == {"ext4", "filesystems"}
