# SPDX-License-Identifier: GPL-2.0-or-later
"""Folders in which something is executed: whose they are, and what they may be called."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.base import places
from lab.base.errors import UsageError


@pytest.fixture(autouse=True)
def _asked_anew() -> None:
    places.trusted.cache_clear()


@pytest.mark.parametrize("name", ["a b", "a:b", "it's", "a;b", "a\nb", "100%", "$x", "\udcff"])
def test_names_that_make_does_not_take_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="has characters") as caught:
        places.trusted(tmp_path / name, "LAB_CACHE")
    assert "LAB_CACHE" in caught.value.hint
    str(caught.value).encode("ascii")


@pytest.mark.parametrize("name", ["a,b", "é", "x" * 99, "~me", "a@b+c"])
def test_other_names_are_taken(tmp_path: Path, name: str) -> None:
    assert places.trusted(tmp_path / name, "LAB_CACHE") == tmp_path / name


@pytest.mark.parametrize(("name", "fine"), [("x" * 251, True), ("x" * 252, False)])
def test_a_path_that_tools_cut_off_is_refused(name: str, fine: bool) -> None:
    path = Path("/aa", name)
    if fine:
        assert places.trusted(path, "LAB_CACHE") == path
        return
    with pytest.raises(UsageError, match="256 bytes, more than 255: /aa/xxx") as caught:
        places.trusted(path, "LAB_CACHE")
    assert caught.value.hint == "set LAB_CACHE to a shorter path"


@pytest.mark.parametrize(("mode", "fine"), [(0o755, True), (0o700, True), (0o757, False)])
def test_nobody_else_may_write_there(tmp_path: Path, mode: int, fine: bool) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own").chmod(mode)
    if fine:
        assert places.trusted(tmp_path / "own", "X")
        return
    with pytest.raises(UsageError, match="others may write"):
        places.trusted(tmp_path / "own", "X")


def test_nobody_else_reads_there(tmp_path: Path) -> None:
    """A build can leave a program that runs as the user for whoever reaches it."""
    place = tmp_path / "own"
    place.mkdir()
    place.chmod(0o755)
    places.trusted(place, "X")
    places.trusted(tmp_path / "new/own", "X")
    places.make(tmp_path / "new/own/below")
    for folder in (place, tmp_path / "new/own"):
        assert folder.stat().st_mode & 0o7777 == 0o700


def test_a_folder_behind_a_link_is_named_without_it(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "own")
    assert places.trusted(tmp_path / "link", "X") == tmp_path / "own"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(UsageError, match="loop is a link to itself"):
        places.trusted(tmp_path / "loop", "X")


def test_a_group_may_write_there_if_it_is_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own").chmod(0o775)
    status = (tmp_path / "own").stat()
    if status.st_gid == status.st_uid:
        assert places.trusted(tmp_path / "own", "X")
    else:
        with pytest.raises(UsageError):
            places.trusted(tmp_path / "own", "X")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_another_users_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    os.chown(tmp_path / "own", 4711, 4711)
    with pytest.raises(UsageError, match=r"belongs to another user \(uid 4711\)"):
        places.trusted(tmp_path / "own", "X")


def test_no_home_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", fail)
    with pytest.raises(UsageError, match="no home folder"):
        places.home()
