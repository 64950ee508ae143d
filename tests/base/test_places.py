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


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder of the user's."""
    (tmp_path / "own").mkdir()
    return tmp_path / "own"


def refused(path: Path, why: str) -> UsageError:
    with pytest.raises(UsageError, match=why) as caught:
        places.trusted(path, "LAB_CACHE")
    return caught.value


@pytest.mark.parametrize("name", ["a b", "a:b", "it's", "a;b", "a\nb", "100%", "$x", "\udcff"])
def test_names_that_make_does_not_take_are_refused(tmp_path: Path, name: str) -> None:
    error = refused(tmp_path / name, "has characters")
    assert "LAB_CACHE" in error.hint
    str(error).encode("ascii")


@pytest.mark.parametrize("name", ["a,b", "é", "x" * 99, "~me", "a@b+c"])
def test_other_names_are_taken(tmp_path: Path, name: str) -> None:
    assert places.trusted(tmp_path / name, "LAB_CACHE") == tmp_path / name


def test_a_path_that_tools_cut_off_is_refused() -> None:
    longest = Path("/aa", "x" * 251)
    assert places.trusted(longest, "LAB_CACHE") == longest
    error = refused(Path("/aa", "x" * 252), "256 bytes, more than 255: /aa/xxx")
    assert error.hint == "set LAB_CACHE to a shorter path"


@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_nobody_else_reads_there(own: Path, tmp_path: Path, mode: int) -> None:
    """A build can leave a program that runs as the user for whoever reaches it."""
    own.chmod(mode)
    places.trusted(own, "X")
    places.trusted(tmp_path / "new/own", "X")
    places.make(tmp_path / "new/own/below")
    for folder in (own, tmp_path / "new/own"):
        assert folder.stat().st_mode & 0o7777 == 0o700


def test_nobody_else_may_write_there(own: Path) -> None:
    own.chmod(0o757)
    refused(own, "others may write")


def test_a_group_may_write_there_if_it_is_the_users_own(own: Path) -> None:
    own.chmod(0o775)
    if own.stat().st_gid == own.stat().st_uid:
        assert places.trusted(own, "X")
    else:
        refused(own, "others may write")


def test_a_folder_behind_a_link_is_named_without_it(own: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(own)
    assert places.trusted(tmp_path / "link", "X") == own
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refused(tmp_path / "loop", "loop is a link to itself")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_another_users_folder_is_refused(own: Path) -> None:
    os.chown(own, 4711, 4711)
    refused(own, r"belongs to another user \(uid 4711\)")


def test_no_home_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", fail)
    with pytest.raises(UsageError, match="no home folder"):
        places.home()
