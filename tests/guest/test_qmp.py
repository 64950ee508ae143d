# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's monitor, as a QEMU answers that was taken over: nothing of it hangs or breaks the lab."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.guest import qmp
from lab.guest.qmp import Monitor

EVENT = '{"event": "RESUME"}\n'


def answering(path: Path, *answers: str) -> list[str]:
    """A monitor that says this when it is connected to, and notes what it is told."""
    commands: list[str] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        stream = listener.accept()[0].makefile("rw")
        try:
            for answer in answers:
                stream.write(answer)
                stream.flush()
            commands.extend(json.loads(line)["execute"] for line in stream)
        except (OSError, ValueError):
            pass

    threading.Thread(target=serve, daemon=True).start()
    return commands


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until the thread that serves has come so far."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qmp, "_TIMEOUT_S", 1.0)
    monkeypatch.setattr(qmp, "_MOST_CHARACTERS", 10_000)


@pytest.mark.parametrize(
    "answer",
    ["5\n", "null\n", '"return"\n', "[]\n", "rubbish\n", "\n", "[" * 9_000 + "\n", "x" * 20_000],
    ids=["number", "null", "text", "list", "rubbish", "nothing", "deep", "without end"],
)
def test_an_answer_that_is_none_of_qemus_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str
) -> None:
    monkeypatch.setattr(qmp, "_TIMEOUT_S", 0.1)
    answering(tmp_path / "qmp", EVENT, answer, answer, answer)
    monitor = Monitor(tmp_path / "qmp")
    monitor.stop()
    assert monitor.info("registers") == ""
    monitor.close()


def test_events_without_end_end(tmp_path: Path) -> None:
    answering(tmp_path / "qmp", EVENT * 3 * qmp._MOST_EVENTS)
    monitor = Monitor(tmp_path / "qmp")
    assert monitor.info("registers") == ""
    monitor.close()


def test_a_link_to_a_socket_of_somebody_elses_is_not_followed(tmp_path: Path) -> None:
    commands = answering(tmp_path / "docker.sock", EVENT, '{"return": {}}\n' * 9)
    (tmp_path / "qmp").symlink_to(tmp_path / "docker.sock")
    monitor = Monitor(tmp_path / "qmp")
    monitor.stop()
    monitor.close()
    assert commands == []
    direct = Monitor(tmp_path / "docker.sock")
    direct.stop()
    direct.close()
    wait_for(lambda: "stop" in commands)
