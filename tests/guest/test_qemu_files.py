# SPDX-License-Identifier: GPL-2.0-or-later
"""What a QEMU that was taken over leaves in its folder reads and writes nothing beside it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.base.errors import KERNEL_FAILURES, GuestError
from lab.guest import qemu_files


def socket_at(path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    folder = os.open(path.parent, os.O_PATH)
    listener.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


LEFT: dict[str, Callable[[Path], None]] = {
    "a link to a file": lambda path: path.symlink_to(path.parent.parent / "secret"),
    "a link to nothing": lambda path: path.symlink_to("/nowhere/at/all"),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a pipe": lambda path: os.mkfifo(path),
    "a folder": lambda path: (path / "below").mkdir(parents=True),
    "a socket": socket_at,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A boot's folder with that of its QEMU in it, and a file beside both."""
    (tmp_path / "secret").write_text("s3cret")
    (tmp_path / "boot/qemu").mkdir(parents=True)
    return tmp_path / "boot"


@pytest.mark.parametrize("leave", LEFT.values(), ids=LEFT)
def test_nothing_but_a_regular_file_is_opened_or_kept(
    folder: Path, leave: Callable[[Path], None]
) -> None:
    path = folder / "qemu/console.log"
    leave(path)
    with pytest.raises(GuestError, match=r"console\.log is no regular file") as caught:
        qemu_files.opened(path)
    assert caught.value.outcome in KERNEL_FAILURES
    assert qemu_files.size(path) == 0
    (folder / "qemu/insns").write_text("counts")
    error = qemu_files.keep(folder / "qemu", folder, ["console.log", "insns", "calls"])
    assert error
    assert "console.log is no regular file" in error.what
    assert sorted(path.name for path in folder.iterdir()) == ["insns"]
    assert (folder.parent / "secret").read_text() == "s3cret"


def test_a_file_is_opened_sized_and_kept(folder: Path) -> None:
    path = folder / "qemu/insns"
    path.write_text("counts")
    with qemu_files.opened(path) as stream:
        assert stream.read() == b"counts"
    assert qemu_files.size(path) == 6
    assert qemu_files.keep(folder / "qemu", folder, ["insns"]) is None
    assert (folder / "insns").read_text() == "counts"
    with pytest.raises(FileNotFoundError):
        qemu_files.opened(path)


def test_what_nobody_may_enter_and_what_is_deeper_than_a_path_goes(folder: Path) -> None:
    place = folder / "qemu"
    (place / "shut").mkdir(mode=0)
    opened = os.open(place, os.O_PATH)
    for _ in range(3000):
        os.mkdir("d", dir_fd=opened)
        below = os.open("d", os.O_PATH, dir_fd=opened)
        os.close(opened)
        opened = below
    os.close(opened)
    assert qemu_files.keep(place, folder, []) is None
    assert not place.exists()
