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

from lab.base import cache, durable
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
    assert sorted(os.listdir(tmp_path / "id")) == ["sums", "theirs"]
    assert os.listdir(tmp_path) == ["id"]


def test_what_a_killed_build_left_is_not_taken_over(tmp_path: Path) -> None:
    left = tmp_path / ".id.0123"
    left.mkdir()
    (left / "half").touch()
    with cache.building(tmp_path / "id") as aside:
        assert list(aside.iterdir()) == []
    assert os.listdir(tmp_path / "id") == ["sums"]


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


@pytest.mark.parametrize(
    "fill",
    [
        lambda: Path("/dev/full").write_text("x"),
        lambda: run(["cp", "/proc/self/status", "/dev/full"]),
    ],
    ids=["written by the lab", "written by a program"],
)
def test_a_full_disk_is_one_clear_message(tmp_path: Path, fill: Callable[[], object]) -> None:
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


def test_ids_stay_the_same_from_one_run_to_the_next_in_any_order_of_keys() -> None:
    for inputs in ({"b": 2, "a": [Path("/x"), None]}, {"a": [Path("/x"), None], "b": 2}):
        assert cache.key("kernel", 1, inputs) == "92700ef2b9335611"


@pytest.mark.parametrize(
    ("inputs", "other_inputs"),
    [((1,), ("1",)), (("ab", "c"), ("a", "bc")), ((["a"], "b"), (["a", "b"],)), ((1,), (1, 1))],
)
def test_different_inputs_have_different_ids(
    inputs: tuple[object, ...], other_inputs: tuple[object, ...]
) -> None:
    assert cache.key(*inputs) != cache.key(*other_inputs)


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


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An entry of the cache that this process has not used yet."""
    monkeypatch.setattr(cache, "_held", {})
    folder = cache.root() / "kernels" / "id"
    with cache.building(folder) as aside:
        (aside / "image").write_bytes(bytes(5000))
        (aside / "sub").mkdir()
        (aside / "sub" / "config").write_text("y")
        (aside / "link").symlink_to("image")
    os.close(cache._held.pop(folder))
    return folder


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[2500] ^= 1
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a bit flipped": lambda entry: _flip(entry / "image"),
    "cut": lambda entry: os.truncate(entry / "image", 4096),
    "emptied": lambda entry: (entry / "sub/config").write_bytes(b""),
    "gone": lambda entry: (entry / "sub/config").unlink(),
    "a stranger": lambda entry: (entry / "new").touch(),
    "no sums": lambda entry: (entry / "sums").write_bytes(b""),
    "half of the sums": lambda entry: os.truncate(entry / "sums", 80),
    "sums of something": lambda entry: (entry / "sums").write_bytes(bytes(range(256))),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_entry_is_told_and_gone(
    entry: Path, damage: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    damage(entry)
    assert not cache.whole(entry)
    assert list(entry.parent.iterdir()) == []
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_whole_entry_is_looked_at_once(entry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cache.whole(entry)
    _flip(entry / "image")
    assert cache.whole(entry)  # this process has it
    assert capsys.readouterr().err == ""


def test_an_entry_of_before_there_were_sums_gets_them(entry: Path) -> None:
    (entry / "sums").unlink()
    assert cache.whole(entry)
    cache._held.clear()
    _flip(entry / "image")
    assert not cache.whole(entry)


def test_an_entry_of_before_there_were_sums_that_is_not_sound_goes(entry: Path) -> None:
    (entry / "sums").unlink()
    assert not cache.whole(entry, sound=lambda folder: not (folder / "image").exists())
    assert not entry.exists()


def test_an_entry_that_is_used_is_in_use(entry: Path) -> None:
    os.utime(entry, (1000, 1000))
    assert not durable.in_use(entry)
    assert cache.whole(entry)
    assert durable.in_use(entry)
    assert entry.stat().st_mtime > 1000


def test_what_a_killed_lab_left_aside_is_swept_and_nothing_else(tmp_path: Path) -> None:
    top = cache.make_folder(cache.root() / "kernels")
    (top / ".id.0123456789ab").mkdir()
    (top / ".id.0123456789ab" / "half").touch()
    (top / ".id.json.0123456789ab").touch()
    for name in (".hidden", "id", ".id.0123"):
        (top / name).mkdir()
    with cache.building(top / "new"):
        cache.sweep()
    assert sorted(os.listdir(top)) == [".hidden", ".id.0123", "id", "new"]


def test_a_replaced_file_leaves_nothing_aside_when_it_fails(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    with pytest.raises(OSError):
        durable.replace(tmp_path / "target", b"x")
    assert os.listdir(tmp_path) == ["target"]


@pytest.mark.parametrize("text", ["", "{", '{"a"', "[]", '{"b": 1}', "\0\0"])
def test_a_damaged_record_is_told_and_read_as_none(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "record.json"
    assert cache.read(path, lambda record: int(record["a"])) is None
    assert capsys.readouterr().err == ""
    path.write_text(text)
    assert cache.read(path, lambda record: int(record["a"])) is None
    assert "asked again" in capsys.readouterr().err
    path.write_text('{"a": 3}')
    assert cache.read(path, lambda record: int(record["a"])) == 3
