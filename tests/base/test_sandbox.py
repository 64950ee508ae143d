# SPDX-License-Identifier: GPL-2.0-or-later
"""Confinement: what a view gives is there, all else is not; no mode is used that does not work."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.base import cache, landlock, sandbox
from lab.base.errors import LabError, UsageError
from lab.base.process import Result, run
from lab.base.sandbox import Limits, Mode, View

NOBODY = 65534


def skip_unless_works(how: Mode) -> None:
    if why := sandbox.obstacle_to(how):
        pytest.skip(f"{how}: {why}")


@pytest.fixture(params=[Mode.BWRAP, Mode.LANDLOCK])
def confining(request: pytest.FixtureRequest) -> Mode:
    """Each mode that confines, where it works."""
    how = Mode(request.param)
    skip_unless_works(how)
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
    folder = tmp_path / "own"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    done = shell('cat "$1/link"; echo bad >"$1/link"', View(write=(folder,)), confining, folder)
    assert "secret" not in done.output.replace(str(tmp_path), "")
    assert (tmp_path / "secret").read_text() == "secret"


@pytest.mark.parametrize("how", Mode)
def test_the_environment_is_the_views(how: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_unless_works(how)
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
def anybodys(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that every user reaches and writes; tmp_path's parents are its owner's."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "own").mkdir()
        (Path(folder) / "own").chmod(0o777)
        # Bubblewrap's filter lies in the cache.
        monkeypatch.setenv("LAB_CACHE", f"{folder}/cache")
        cache.make_folder(cache.root()).chmod(0o711)
        yield Path(folder)


@pytest.fixture(params=["as the user", "without privileges"])
def user(
    request: pytest.FixtureRequest,
    confining: Mode,
    anybodys: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> list[str]:
    """What a command begins with to be run as the user, or by root as somebody without rights."""
    if request.param == "as the user":
        return []
    if os.geteuid():
        pytest.skip("the user has no privileges")
    argv = [*("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")]
    for python in (sys.executable, "/usr/bin/python3"):
        # Not setpriv's own start: that one still may what root may.
        if not run([*argv, "env", python, "-V"], check=False).status:
            monkeypatch.setattr(sys, "executable", python)
            break
    else:
        if confining is Mode.LANDLOCK:
            pytest.skip("every Python is root's alone")
    if confining is Mode.LANDLOCK and run([*argv, "cat", landlock.__file__], check=False).status:
        pytest.skip("the lab's code is root's alone")
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    done = run([*argv, *sandbox.confined(["true"], View(), confining)], check=False, merge=True)
    if "namespace" in done.output or "uid map" in done.output:
        pytest.skip(f"users may not do it here: {done.output.strip()}")
    return argv


def test_every_user_confines(confining: Mode, user: list[str], anybodys: Path) -> None:
    folder = anybodys / "own"
    (anybodys / "secret").write_text("secret")
    argv = ["sh", "-c", 'echo x >"$1/new"; cat "$1/../secret"', "sh", str(folder)]
    command = [*user, *sandbox.confined(argv, View(write=(folder,)), confining)]
    done = run(command, check=False, merge=True, timeout_s=60)
    assert (folder / "new").exists(), done.output
    assert "secret\n" not in done.output


# Perl hands no constant text to system calls.
_PERL = "umask 0; use Fcntl; use POSIX; $f = q(f);"


def _by_number(arguments: str) -> str:
    return f"perl -e '{_PERL} syscall({arguments}) >= 0 or die'"


# Ways to make a file that runs as its owner or its group, whoever starts it.
SET_ID = {
    "chmod": "touch f; chmod 4755 f",
    "chmod of the group": "touch f; chmod 2755 f",
    "install": "install -m 6755 /bin/true f",
    "open": f"perl -e '{_PERL} sysopen(F, q(f), O_CREAT|O_RDWR, 04755) or die'",
    "a file without a name": f"perl -e '{_PERL} sysopen(F, q(.), 020200002, 04755) or die;"
    " $p = q(/proc/self/fd/).fileno(F);"
    " syscall(265, -100, $p, -100, $f, 0x400) >= 0 or die'",
    "creat": _by_number("85, $f, 04755"),
    "openat2": _by_number("437, -100, $f, $h = pack(q(QQQ), 0102, 04755, 0), 24"),
    "mknod": _by_number("133, $f, 0104755, 0"),
    "mknodat": _by_number("259, -100, $f, 0104755, 0"),
    "fchmod": "touch f; " + _by_number("91, do { open(F, q(<), q(f)); fileno(F) }, 04755"),
    "fchmodat2": "touch f; " + _by_number("452, -100, $f, 04755, 0"),
}


def privileged(folder: Path) -> list[str]:
    """The files of a folder that run as their owner or their group."""
    return [path.name for path in folder.iterdir() if path.lstat().st_mode & 0o6000]


def _set_ids(user: list[str], how: Mode, folder: Path) -> set[str]:
    """The ways that made such a file."""
    ways = set()
    for way, script in SET_ID.items():
        place = folder / way.replace(" ", "-")
        place.mkdir()
        place.chmod(0o777)
        argv = ["sh", "-c", f'cd "$1"; {script}', "sh", str(place)]
        view = View(read=(Path("/proc"),) if how is Mode.LANDLOCK else (), write=(place,))
        run([*user, *sandbox.confined(argv, view, how)], check=False, merge=True, timeout_s=60)
        ways |= {way} if privileged(place) else set()
    return ways


@pytest.mark.slow
def test_no_file_is_made_that_runs_as_its_owner(
    confining: Mode, user: list[str], anybodys: Path
) -> None:
    assert _set_ids(user, confining, anybodys / "own") == set()


def test_such_files_are_made_where_nothing_confines(tmp_path: Path) -> None:
    # An older kernel lacks the newest of the calls.
    assert SET_ID.keys() - _set_ids([], Mode.NONE, tmp_path) <= {"fchmodat2", "openat2"}


def test_usual_modes_are_given(confining: Mode, user: list[str], anybodys: Path) -> None:
    folder = anybodys / "own"
    script = (
        'cd "$1"; touch f; chmod 755 f; install -m 644 f g; mkdir -m 700 d; cp -a f d/;'
        "ln -s f l; echo x >n; perl -e 'open(F, q(>), q(p)) or die'; stat -c %a f g d n p"
    )
    argv = ["sh", "-c", script, "sh", str(folder)]
    command = [*user, *sandbox.confined(argv, View(write=(folder,)), confining)]
    done = run(command, merge=True, timeout_s=60)
    assert done.output.split() == ["755", "644", "700", "644", "644"]


def test_landlock_leaves_no_file_to_everybody(tmp_path: Path) -> None:
    skip_unless_works(Mode.LANDLOCK)
    (tmp_path / "own").mkdir()
    file = tmp_path / "other"
    file.touch(mode=0o600)
    script = 'chmod 666 "$1"; setfattr -n user.x -v y "$1"; exit 0'
    shell(script, View(write=(tmp_path / "own",)), Mode.LANDLOCK, file)
    assert file.stat().st_mode & 0o7777 == 0o600
    assert not os.listxattr(file)
    shell(script, View(), Mode.NONE, file)
    assert file.stat().st_mode & 0o7777 == 0o666


@pytest.mark.parametrize("place", ["read", "write"])
@pytest.mark.parametrize("below", ["", "folder"])
def test_no_view_leads_through_a_link(
    confining: Mode, place: str, below: str, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    (victim / "folder").mkdir(parents=True)
    link = cache.make_folder(cache.root()) / "link"
    link.symlink_to(victim)
    paths = (link / below if below else link,)
    view = View(read=paths) if place == "read" else View(write=paths)
    with pytest.raises(LabError, match="it is a link, or lies behind one") as caught:
        sandbox.confined(["true"], view, confining)
    assert str(victim) in caught.value.where


def test_a_link_in_a_view_is_followed_where_nobody_looks(
    confining: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    monkeypatch.setattr(sandbox, "_refuse_links", lambda view: None)
    shell('echo bad >"$1/new"', View(write=(tmp_path / "link",)), confining, tmp_path / "link")
    assert (tmp_path / "victim/new").exists()


def test_devices_take_nothing_up() -> None:
    skip_unless_works(Mode.BWRAP)
    script = "echo x >/dev/new; echo x >/dev/shm/new && echo x >/dev/null && head -c1 /dev/zero"
    done = shell(f"{script} && df --output=size -B1M /dev/shm", View(), Mode.BWRAP)
    assert done.status == 0
    assert int(done.output.split()[-1]) == 64
    assert "/dev/new: Read-only file system" in done.output


@pytest.mark.slow
def test_memory_is_limited_where_that_is_asked_for(confining: Mode) -> None:
    script = "perl -e '$x = q(x) x (300 << 20); print length $x'"
    done = shell(script, View(limits=Limits(memory_bytes=200 << 20)), confining)
    assert done.status != 0
    assert shell(script, View(), confining).output == str(300 << 20)


def test_what_uses_too_much_memory_is_ended_before_others(confining: Mode) -> None:
    limits = Limits(memory_bytes=1 << 30)
    view = View(read=(Path("/proc"),) if confining is Mode.LANDLOCK else (), limits=limits)
    assert int(shell("cat /proc/self/oom_score_adj", view, confining).output) >= 500


def test_of_a_home_only_programs_and_libraries_are_in_view(
    confining: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = tmp_path / "home/.local"
    for name in ("bin/tool", "lib/library", "share/qemu/bios", "share/keyrings/login"):
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).write_text(f"#!/bin/sh\ncat {prefix}/lib/* {prefix}/share/*/*\n")
    (prefix / "bin/tool").chmod(0o755)
    monkeypatch.setenv("PATH", f"{prefix}/bin:{os.environ['PATH']}")
    seen = sandbox.installation("tool")
    assert set(seen) == {prefix / name for name in ("bin", "lib", "share/qemu")}
    (prefix / "share/keyrings/login").write_text("s3cret")
    printed = shell("tool; exit 0", View(read=seen), confining).output
    assert "#!/bin/sh" in printed
    assert "s3cret" not in printed


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
