# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands: errors that can be acted on, and no process that outlives the lab."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.base.errors import LabError
from lab.base.process import (
    CommandError,
    Process,
    paste,
    piped,
    run,
    run_logged,
    supervised,
    tail_of_file,
)

SLEEPERS = ["sh", "-c", "sleep 1000 & wait"]


def living(group: int) -> list[str]:
    """The names of the processes of a group that run, zombies not counted."""
    names = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, _, process_group = rest.split()[:3]
        if int(process_group) == group and state != "Z":
            names.append(name.partition("(")[2])
    return names


# So long a test waits for what must come; how soon it comes is nobody's claim.
PATIENCE_S = 60.0


def eventually(true: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.02)
    return true()


def test_a_command_gives_back_what_it_printed() -> None:
    result = run(["sh", "-c", "cat; echo $WORD; echo aside >&2"], stdin="in ", env={"WORD": "out"})
    assert (result.status, result.output) == (0, "in out\n")


@pytest.mark.parametrize("way", ["run", "run_logged", "supervised", "piped"])
def test_every_command_is_told_to_who_wants_to_see_them(
    way: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log, argv, env = tmp_path / "log", ["sh", "-c", 'echo "$WORD" >>out'], {"WORD": "a b"}

    def start() -> None:
        if way == "run":
            run(argv, cwd=tmp_path, env=env)
        elif way == "run_logged":
            run_logged(["sh", "-c", f'cd "$0" && {argv[2]}', str(tmp_path)], log=log, env=env)
        elif way == "supervised":
            with supervised(argv, log=log, cwd=tmp_path, env=env) as process:
                process.wait()
        else:
            with piped(argv, cwd=tmp_path, env=env):
                pass

    monkeypatch.delenv("LAB_VERBOSE", raising=False)
    start()
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("LAB_VERBOSE", "1")
    start()
    (command,) = capsys.readouterr().err.splitlines()
    subprocess.run(command.removeprefix("+ "), shell=True, check=True, cwd="/")
    assert (tmp_path / "out").read_text() == "a b\n" * 3


def test_merged_output_holds_the_errors_too() -> None:
    assert run(["sh", "-c", "echo a; echo b >&2"], merge=True).output == "a\nb\n"


def test_a_failed_command_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    with pytest.raises(CommandError) as caught:
        run(["sh", "-c", 'touch "$1"; exit 7', "sh", "a b"], cwd=folder)
    (folder / "a b").unlink()
    assert subprocess.run(caught.value.where, shell=True, check=False).returncode == 7
    assert (folder / "a b").exists()


@pytest.mark.parametrize("merge", [False, True])
def test_a_failed_commands_error_shows_the_end_of_its_output(merge: bool) -> None:
    with pytest.raises(CommandError) as caught:
        run(["sh", "-c", "seq 100; echo why >&2; exit 3"], merge=merge)
    assert caught.value.status == 3
    assert caught.value.what.startswith("sh failed with status 3:\n")
    assert caught.value.what.endswith("    100\n    why")
    assert "    50\n" not in caught.value.what
    assert caught.value.output.startswith("1\n2\n")


def test_an_unchecked_command_may_fail() -> None:
    assert run(["false"], check=False).status == 1


def test_output_that_is_not_text_does_no_harm() -> None:
    assert run(["printf", r"a\377b"]).output == "a\ufffdb"


@pytest.mark.parametrize("start", [run, lambda argv: piped(argv).__enter__()], ids=["run", "piped"])
def test_a_missing_program_is_named_with_how_to_get_it(
    start: Callable[[list[str]], object],
) -> None:
    with pytest.raises(LabError, match="cannot start no-such-program") as caught:
        start(["no-such-program", "-x"])
    assert caught.value.where == "no-such-program -x"
    assert "make setup" in caught.value.hint


def test_a_missing_program_in_a_logged_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no-such-program: not found"):
        run_logged(["no-such-program"], log=tmp_path / "log")


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    sleeper = tmp_path / "sleeper"
    sleeper.symlink_to("/bin/sleep")
    with pytest.raises(LabError, match=r"sleeper did not end within 0\.1 s"):
        run([str(sleeper), "30"], timeout_s=0.1)
    commands = [path.read_bytes() for path in Path("/proc/self/task").glob("*/children")]
    children = [pid for pids in commands for pid in pids.split()]
    lines = [Path(f"/proc/{int(pid)}/cmdline") for pid in children]
    assert not [line for line in lines if line.exists() and bytes(sleeper) in line.read_bytes()]


def test_both_outputs_of_a_logged_run_are_appended_to_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    run_logged(["sh", "-c", "echo out; echo error >&2"], log=log)
    assert log.read_text() == "before\nout\nerror\n"


def test_a_failed_logged_run_shows_the_logs_end_and_its_place(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(CommandError) as caught:
        run_logged(["sh", "-c", "seq 100; exit 9"], log=log)
    assert caught.value.status == 9
    assert "    100" in caught.value.what
    assert "    50\n" not in caught.value.what
    assert caught.value.where.startswith(f"{log}\n")
    assert caught.value.where.endswith(paste(["sh", "-c", "seq 100; exit 9"]))


def test_the_end_of_a_huge_log_is_read_without_the_rest(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as sparse:
        sparse.truncate(2**32)
        sparse.seek(0, os.SEEK_END)
        sparse.write(b"\nlast\n\n")
    assert tail_of_file(log, lines=1) == "    last"
    assert tail_of_file(tmp_path / "none") == ""


def test_waiting_with_patience_tells_running_from_ended(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with supervised(
        ["sh", "-c", "read go < fifo; exit 5"], log=tmp_path / "log", cwd=tmp_path
    ) as p:
        assert p.poll() is None
        assert p.wait(0.05) is None
        fifo.write_text("go\n")
        assert p.wait(PATIENCE_S) == 5
        assert p.poll() == 5


@pytest.mark.parametrize(
    "argv",
    [SLEEPERS, ["sh", "-c", "trap '' TERM HUP INT; sleep 1000 & sleep 1000; sleep 1000"]],
    ids=["obedient", "stubborn"],
)
def test_leaving_the_block_by_an_exception_ends_the_whole_group(
    tmp_path: Path, argv: list[str]
) -> None:
    groups = []

    def interrupted() -> None:
        with supervised(argv, log=tmp_path / "log") as process:
            groups.append(process.group)
            assert eventually(lambda: "sleep" in living(process.group))
            assert process.group in process.members()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not living(groups[0])


def test_what_a_command_left_in_the_background_ends_with_it(tmp_path: Path) -> None:
    with supervised(["sh", "-c", "sleep 1000 &"], log=tmp_path / "log") as process:
        assert process.wait(PATIENCE_S) == 0
        assert eventually(lambda: living(process.group) == ["sleep"])
    assert not living(process.group)


_KILLED_LAB = """
import sys, time
from pathlib import Path
from lab.base.process import Process
process = Process(["sh", "-c", "sleep 1000 & wait"], log=Path(sys.argv[1]))
print(process.group, flush=True)
time.sleep(1000)
"""


def test_no_process_outlives_a_lab_that_is_killed(tmp_path: Path) -> None:
    lab = subprocess.Popen(
        [sys.executable, "-c", _KILLED_LAB, str(tmp_path / "log")], stdout=subprocess.PIPE
    )
    group = 0
    try:
        assert lab.stdout is not None
        with lab.stdout:
            group = int(lab.stdout.readline())
        assert eventually(lambda: "sleep" in living(group))
        lab.send_signal(signal.SIGKILL)
        lab.wait()
        assert eventually(lambda: not living(group))
    finally:
        lab.kill()
        lab.wait()
        if group and living(group):
            os.killpg(group, signal.SIGKILL)


def test_a_process_can_be_ended_twice(tmp_path: Path) -> None:
    process = Process(["true"], log=tmp_path / "log")
    assert process.wait(PATIENCE_S) == 0
    process.kill()
    process.kill()


def test_piped_input_reaches_the_command(tmp_path: Path) -> None:
    argv = ["sh", "-c", 'cat > "$1"', "sh", "a b"]
    with piped(argv, cwd=tmp_path) as stream:
        stream.write(b"hello")
    assert (tmp_path / "a b").read_text() == "hello"


def test_a_piped_command_that_fails_early_gives_its_own_reason() -> None:
    def feed() -> None:
        with piped(["sh", "-c", "echo no such thing >&2; exit 4"]) as stream:
            for _ in range(100):
                stream.write(b"x" * 65536)

    with pytest.raises(CommandError, match="no such thing") as caught:
        feed()
    assert caught.value.status == 4


def test_an_error_while_feeding_a_command_ends_it(tmp_path: Path) -> None:
    record = tmp_path / "pid"

    def feed() -> None:
        with piped(["sh", "-c", "echo $$ > new; mv new pid; exec cat"], cwd=tmp_path):
            assert eventually(record.exists)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        feed()
    assert not Path(f"/proc/{record.read_text().strip()}").exists()


def test_a_repository_that_git_names_to_its_hooks_is_not_taken_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "A")
    assert "GIT_DIR" not in run(["env"]).output
    assert "GIT_AUTHOR_NAME=A" in run(["env"]).output
    assert "GIT_DIR=/own" in run(["env"], env={"GIT_DIR": "/own"}).output
