# SPDX-License-Identifier: GPL-2.0-or-later
"""Confinement: what a view gives is there, all else is not; no mode is used that does not work."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.base import sandbox
from lab.base.errors import UsageError
from lab.base.process import Result, run
from lab.base.sandbox import Limits, Mode, View

NOBODY = 65534


@pytest.fixture(params=[Mode.BWRAP, Mode.LANDLOCK])
def confining(request: pytest.FixtureRequest) -> Mode:
    """Each mode that confines, where it works."""
    how = Mode(request.param)
    if why := sandbox.obstacle_to(how):
        pytest.skip(f"{how}: {why}")
    return how


@pytest.fixture
def nothing_confines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which neither mode works."""
    monkeypatch.delenv(sandbox.CHOICE, raising=False)
    monkeypatch.delenv(sandbox.TRUST, raising=False)
    monkeypatch.setattr(sandbox, "obstacle_to", lambda how: "" if how is Mode.NONE else "not here")


def shell(script: str, view: View, how: Mode, *words: str | Path) -> Result:
    """A shell script, confined."""
    argv = ["sh", "-c", script, "sh", *map(str, words)]
    return run(sandbox.confined(argv, view, how), check=False, merge=True, timeout_s=60)


def test_a_view_is_read_and_written_as_it_says(confining: Mode, tmp_path: Path) -> None:
    read, write = tmp_path / "read", tmp_path / "read/write"
    write.mkdir(parents=True)
    (read / "file").write_text("content")
    (tmp_path / "other").write_text("secret")
    view = View(read=(read,), write=(write,))
    script = 'cat "$1/file"; echo x >"$1/write/new"; echo y >"$1/new"; cat "$2"; exit 0'
    printed = shell(script, view, confining, read, tmp_path / "other").output
    assert "content" in printed
    assert "secret" not in printed
    assert (write / "new").read_text() == "x\n"
    assert not (read / "new").exists()


def test_a_path_that_is_not_there_hinders_nothing(confining: Mode, tmp_path: Path) -> None:
    view = View(read=(tmp_path / "gone",), write=(tmp_path,))
    assert shell("true", view, confining).status == 0


def test_a_link_leads_to_nothing_that_is_not_in_view(confining: Mode, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "secret").write_text("secret")
    (own / "link").symlink_to(tmp_path / "secret")
    done = shell('cat "$1/link"; echo bad >"$1/link"', View(write=(own,)), confining, own)
    assert "secret" not in done.output.replace(str(tmp_path), "")
    assert (tmp_path / "secret").read_text() == "secret"


@pytest.mark.parametrize("how", Mode)
def test_the_environment_is_the_views(
    how: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why := sandbox.obstacle_to(how):
        pytest.skip(f"{how}: {why}")
    monkeypatch.setenv("TOKEN_OF_THE_USER", "t0ken")
    monkeypatch.setenv("LD_PRELOAD_OF_THE_USER", "x")
    printed = shell("env", View(env={"GIVEN": "a b"}), how).output
    assert "GIVEN=a b" in printed.splitlines()
    assert "_OF_THE_USER" not in printed


def test_no_server_of_this_machine_is_reached(confining: Mode) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        connect = f"echo >/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        assert run(["bash", "-c", connect], check=False).status == 0
        done = run(sandbox.confined(["bash", "-c", connect], View(), confining), check=False)
        assert done.status != 0


def test_limits_hold_for_what_is_confined(confining: Mode, tmp_path: Path) -> None:
    view = View(write=(tmp_path,), limits=Limits(file_bytes=4096, cpu_s=7))
    done = shell('ulimit -t; ulimit -c; head -c 9999 /dev/zero >"$1/f"', view, confining, tmp_path)
    assert done.output.split()[:2] == ["7", "0"]
    assert (tmp_path / "f").stat().st_size == 4096


def test_no_capability_is_left_to_root(confining: Mode) -> None:
    script = "while read name value; do case $name in Cap[EB]*) echo $value;; esac; done"
    printed = shell(f"{script} </proc/self/status", View(read=(Path("/proc"),)), confining).output
    effective, bounding = (int(word, 16) for word in printed.split())
    assert effective == 0
    assert os.geteuid() or bounding == 0


@pytest.fixture
def anybodys() -> Iterator[Path]:
    """A folder that every user reaches; tmp_path's parents are its owner's."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_user_without_privileges_confines_as_well(
    confining: Mode, anybodys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid():
        pytest.skip("the other tests are run by such a user")
    own = anybodys / "own"
    own.mkdir()
    own.chmod(0o777)
    (anybodys / "secret").write_text("secret")
    user = [*("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")]
    python = [*user, "env", sys.executable, "-V"]  # setpriv itself still may what root may
    if confining is Mode.LANDLOCK and run(python, check=False).status:
        pytest.skip("this Python is root's alone")
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    argv = ["sh", "-c", 'echo x >"$1/new"; cat "$1/../secret"', "sh", str(own)]
    command = [*user, *sandbox.confined(argv, View(write=(own,)), confining)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "namespace" in done.stderr or "uid map" in done.stderr:
        pytest.skip(f"users may not do it here: {done.stderr.strip()}")
    assert (own / "new").exists(), done.stderr
    assert "secret" not in done.stdout


def test_the_best_mode_that_works_is_used_and_tells_why_no_better_one(
    nothing_confines: None,
) -> None:
    assert sandbox.mode() is Mode.NONE
    assert sandbox.description() == "none (bwrap: not here; landlock: not here)"


def test_a_mode_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sandbox.CHOICE, "none")
    assert sandbox.mode() is Mode.NONE


def test_a_mode_that_is_chosen_has_to_exist_and_work(
    nothing_confines: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sandbox.CHOICE, "bwarp")
    with pytest.raises(UsageError, match="bwarp"):
        sandbox.mode()
    monkeypatch.setenv(sandbox.CHOICE, "bwrap")
    with pytest.raises(UsageError, match="does not work here: not here"):
        sandbox.mode()


def test_a_program_that_fails_proves_no_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho no permission >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    sandbox.obstacle_to.cache_clear()
    sandbox._namespaces.cache_clear()
    try:
        assert sandbox.obstacle_to(Mode.BWRAP) == "no permission"
    finally:
        sandbox.obstacle_to.cache_clear()
        sandbox._namespaces.cache_clear()


def test_foreign_code_needs_a_sandbox_or_trust(
    nothing_confines: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="the patch p would run unconfined") as caught:
        sandbox.require_for("the patch p")
    assert "bubblewrap" in caught.value.hint
    assert "--trust" in caught.value.hint
    monkeypatch.setenv(sandbox.TRUST, "1")
    sandbox.require_for("the patch p")


def test_foreign_code_is_not_refused_where_it_is_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(sandbox.CHOICE, raising=False)
    monkeypatch.setattr(sandbox, "obstacle_to", lambda how: "")
    sandbox.require_for("the patch p")
