# SPDX-License-Identifier: GPL-2.0-or-later
"""Signals and full outputs: how a command ends in a process of its own, and what it leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

# A command that builds something for ever, with a short program of the lab's running.
_ENDLESS = """
import sys
from lab.base import cache
from lab.base.process import run
from lab.cli import main
from lab.measure.session import Session

def kernel(*args):
    with cache.scratch(), cache.building(cache.root() / "kernels" / "id") as aside:
        (aside / "half").touch()
        {before_it_waits}
        run(["sleep", "4321"], cwd=aside)

Session.kernel = kernel
sys.argv = ["lab", "build"]
main.main()
"""


# A thread of the command's that takes a signal while the command waits.
_TAKING = """import signal, threading
        taking = lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        threading.Timer(1, taking).start()"""


def _endless(
    cache: Path, hangup: str = "default", before_it_waits: str = "pass"
) -> tuple[subprocess.Popen[str], Path]:
    """Start the command; return it, and the folder in which it is, once it is there.

    Who runs these tests under nohup has it ignore SIGHUP, else.
    """
    program = _ENDLESS.format(before_it_waits=before_it_waits)
    argv = ["env", f"--{hangup}-signal=HUP", sys.executable, "-c", program]
    lab = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    for _ in range(500):
        for marker in cache.glob("kernels/.*/half"):
            if _sleeping(marker.parent):
                return lab, marker.parent
        time.sleep(0.02)
    raise AssertionError("it did not begin")


def _sleeping(folder: Path) -> bool:
    """Whether a process works in a folder, also in one that is gone."""
    for entry in Path("/proc").iterdir():
        try:
            is_sleep = entry.name.isdigit() and (entry / "comm").read_text() == "sleep\n"
            if is_sleep and str((entry / "cwd").readlink()).startswith(str(folder)):
                return True
        except OSError:
            continue
    return False


def _gone(folder: Path) -> bool:
    """Whether no process works in a folder, or soon none does: one that is killed takes a while."""
    for _ in range(250):
        if not _sleeping(folder):
            return True
        time.sleep(0.02)
    return False


def _left(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ([signal.SIGTERM], 143),
        ([signal.SIGHUP], 129),
        ([signal.SIGINT], 130),
        ([signal.SIGHUP, signal.SIGTERM], 129),
    ],
)
def test_a_command_that_is_ended_leaves_nothing(
    tmp_path: Path, sent: list[signal.Signals], status: int
) -> None:
    lab, half = _endless(tmp_path / "cache")
    for signum in sent:
        lab.send_signal(signum)
    _, err = lab.communicate(timeout=20)
    assert lab.returncode == status
    assert "run it again to go on" in err
    assert "Traceback" not in err
    assert _left(tmp_path / "cache") == []
    assert _gone(half)


def test_a_signal_that_interrupts_no_wait_ends_the_command(tmp_path: Path) -> None:
    """Python only notes it where another thread takes it, as where it comes just before a wait."""
    lab, _ = _endless(tmp_path / "cache", before_it_waits=_TAKING)
    lab.communicate(timeout=20)
    assert lab.returncode == 143
    assert _left(tmp_path / "cache") == []


def test_what_a_killed_command_leaves_the_next_one_sweeps(tmp_path: Path) -> None:
    lab, half = _endless(tmp_path / "cache")
    lab.kill()
    lab.communicate(timeout=20)
    assert _gone(half)
    assert half.exists()
    again, next_half = _endless(tmp_path / "cache")
    again.terminate()
    again.communicate(timeout=20)
    assert next_half != half
    assert _left(tmp_path / "cache") == []


def test_who_ignores_a_signal_goes_on(tmp_path: Path) -> None:
    lab, _ = _endless(tmp_path / "cache", hangup="ignore")
    lab.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert lab.poll() is None
    lab.terminate()
    lab.communicate(timeout=20)
    assert lab.returncode == 143


@pytest.mark.parametrize("command", [["list"], ["schema", "run"], ["--help"]])
def test_a_full_output_is_one_message(command: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        argv = [sys.executable, "-m", "lab", *command]
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert "No space left" in done.stderr
    assert len(done.stderr.splitlines()) == 1
