# SPDX-License-Identifier: GPL-2.0-or-later
"""The cache: whole or not at all, stable ids, and a full disk that is told clearly."""

from __future__ import annotations

import io
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.base import cache
from lab.base.errors import LabError, UsageError
from lab.base.process import run
from lab.base.progress import Progress


def test_what_is_built_appears_only_when_complete(tmp_path: Path) -> None:
    target = tmp_path / "kernels" / "id"
    with cache.building(target) as aside:
        (aside / "image").write_text("x")
        assert not target.exists()
        assert aside.stat().st_dev == target.parent.stat().st_dev  # a rename, not a copy
    assert (target / "image").read_text() == "x"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("end", [ValueError, KeyboardInterrupt])
def test_a_failed_build_leaves_nothing_and_keeps_what_was_there(
    tmp_path: Path, end: type[BaseException]
) -> None:
    target = tmp_path / "id"
    with cache.building(target) as aside:
        (aside / "image").write_text("good")

    def fail() -> None:
        with cache.building(target) as aside:
            (aside / "image").write_text("half")
            raise end

    with pytest.raises(end):
        fail()
    assert (target / "image").read_text() == "good"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_that_another_lab_finished_meanwhile_stays(tmp_path: Path) -> None:
    with cache.building(tmp_path / "id") as ours:
        (ours / "ours").touch()
        with cache.building(tmp_path / "id") as theirs:
            (theirs / "theirs").touch()
    assert os.listdir(tmp_path / "id") == ["theirs"]
    assert os.listdir(tmp_path) == ["id"]


def test_what_a_killed_build_left_is_not_taken_over(tmp_path: Path) -> None:
    left = tmp_path / ".id.0123"
    left.mkdir()
    (left / "half").touch()
    with cache.building(tmp_path / "id") as aside:
        assert list(aside.iterdir()) == []
    assert list((tmp_path / "id").iterdir()) == []


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    cache.write_atomically(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "text"
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    cache.write_atomically(tmp_path / "fifo", "text")
    assert os.read(reader, 9) == b"text"
    os.close(reader)
    assert (tmp_path / "fifo").is_fifo()


def test_where_nothing_can_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match=r"cannot write .*folder"):
        cache.write_atomically(tmp_path / "folder", "text")


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "record.json"
    for text in ("a long first text", "second"):
        cache.write_atomically(path, text)
    assert path.read_text() == "second"
    assert list(path.parent.iterdir()) == [path]


def _write_to_a_full_disk() -> None:
    Path("/dev/full").write_text("x")


def _copy_to_a_full_disk() -> None:
    run(["cp", "/proc/self/status", "/dev/full"])


@pytest.mark.parametrize("fill", [_write_to_a_full_disk, _copy_to_a_full_disk])
def test_a_full_disk_is_one_clear_message(tmp_path: Path, fill: Callable[[], None]) -> None:
    with (
        pytest.raises(LabError, match=r"^no space left on the disk\n") as caught,
        cache.disk_space_matters(tmp_path / "new"),
    ):
        fill()
    assert str(tmp_path) in caught.value.where
    assert "MiB free" in caught.value.where
    assert "LAB_CACHE" in caught.value.hint


@pytest.mark.parametrize("error", [PermissionError(13, "denied"), LabError("no patience left")])
def test_other_errors_are_not_taken_for_a_full_disk(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error)) as caught, cache.disk_space_matters(tmp_path):
        raise error
    assert caught.value is error


def test_too_little_space_is_told_before_the_work(tmp_path: Path) -> None:
    total = shutil.disk_usage(tmp_path).total / 2**30
    with pytest.raises(LabError, match=r"^a copy of it all needs [\d.e+]+ GiB of disk, [\d.]+ GiB"):
        cache.require_space(tmp_path / "new", total + 1, "a copy of it all")
    cache.require_space(tmp_path / "new", 0.0, "nothing")


def test_ids_stay_the_same_from_one_run_to_the_next() -> None:
    assert cache.key("kernel", 1, {"b": 2, "a": [Path("/x"), None]}) == "92700ef2b9335611"


def test_ids_depend_on_content_not_on_the_order_of_keys() -> None:
    assert cache.key({"a": 1, "b": 2}) == cache.key({"b": 2, "a": 1})


@pytest.mark.parametrize(
    ("one", "other"),
    [((1,), ("1",)), (("ab", "c"), ("a", "bc")), ((["a"], "b"), (["a", "b"],)), ((1,), (1, 1))],
)
def test_different_inputs_have_different_ids(
    one: tuple[object, ...], other: tuple[object, ...]
) -> None:
    assert cache.key(*one) != cache.key(*other)


@pytest.mark.parametrize(
    ("settings", "folder"),
    [
        ({"LAB_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"LAB_CACHE": "", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/blocklab"),
        ({"LAB_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/blocklab"),
    ],
)
def test_the_cache_lies_where_the_user_wants_it(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], folder: str
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert cache.root() == Path(folder)


def test_a_relative_cache_folder_stays_the_same_wherever_a_command_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAB_CACHE", "here")
    assert cache.root() == tmp_path / "here"


def test_a_cache_that_cannot_be_made_is_the_users_to_mend(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot create") as caught:
        cache.make_folder(tmp_path / "file" / "sub")
    assert "LAB_CACHE" in caught.value.hint


def test_a_lock_waits_for_the_other_lab_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "workbench" / "lock"
    order: list[str] = []
    out = io.StringIO()
    held = threading.Event()

    def other_lab() -> None:
        with cache.lock(path, Progress(out=io.StringIO()), "building"):
            held.set()
            waiting.wait(0.3)
            order.append("other")

    waiting = threading.Event()
    thread = threading.Thread(target=other_lab)
    thread.start()
    held.wait()
    with cache.lock(path, Progress(out=out), "building"):
        order.append("mine")
    thread.join()
    assert order == ["other", "mine"]
    assert "waiting for another lab that is building" in out.getvalue()


def test_a_free_lock_is_silent(tmp_path: Path) -> None:
    out = io.StringIO()
    for _ in range(2):
        with cache.lock(tmp_path / "lock", Progress(out=out), "building"):
            pass
    assert out.getvalue() == ""
