# SPDX-License-Identifier: GPL-2.0-or-later
"""Archives of strangers: what is in them arrives, and nothing outside their folder is touched."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from lab.base import archive
from lab.base.errors import LabError


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, 0o4777
    return info


def packed(*members: tarfile.TarInfo) -> io.BytesIO:
    """An archive of members, each file with its name as content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for item in members:
            content = item.name.encode() if item.isreg() else b""
            item.size = len(content)
            tar.addfile(item, io.BytesIO(content))
    buffer.seek(0)
    return buffer


def test_files_folders_and_links_arrive(tmp_path: Path) -> None:
    folder, busybox = tmp_path / "in", tmp_path / "whole/bin/busybox"
    busybox.parent.mkdir(parents=True)
    busybox.write_text("shell")
    busybox.chmod(0o755)
    busybox.with_name("sh").symlink_to("busybox")
    busybox.with_name("ash").hardlink_to(busybox)
    (tmp_path / "whole/empty").mkdir()
    with tarfile.open(tmp_path / "tar", "w") as tar:
        tar.add(tmp_path / "whole", ".")
    with (tmp_path / "tar").open("rb") as sent:
        archive.unpack(sent, folder)
    assert (folder / "bin/sh").readlink() == Path("busybox")
    assert (folder / "bin/sh").read_text() == (folder / "bin/ash").read_text() == "shell"
    assert (folder / "bin/busybox").stat().st_mode & 0o7777 == 0o755
    assert (folder / "empty").is_dir()


def test_no_file_is_everybody_s_or_root_s(tmp_path: Path) -> None:
    archive.unpack(packed(member("file")), tmp_path)
    assert (tmp_path / "file").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize(
    "members",
    [
        (member("../out"),),
        (member("/out"),),
        (member("folder/../../out"),),
        (member("../out", tarfile.DIRTYPE),),
        (member("link", tarfile.SYMTYPE, "/etc/passwd"),),
        (member("link", tarfile.SYMTYPE, "../out"),),
        (member("a/link", tarfile.SYMTYPE, "../../out"),),
        (member("here", tarfile.SYMTYPE, "."), member("here/up", tarfile.SYMTYPE, "../..")),
        (member("twice"), member("twice")),
        (member("link", tarfile.SYMTYPE, "file"), member("link")),
        (member("null", tarfile.CHRTYPE),),
        (member("pipe", tarfile.FIFOTYPE),),
        (member("hard", tarfile.LNKTYPE, "/etc/passwd"),),
    ],
    ids=lambda members: " ".join(f"{item.name}>{item.linkname}" for item in members),
)
def test_what_leads_out_or_is_no_file_is_refused(
    members: tuple[tarfile.TarInfo, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    with pytest.raises(LabError):
        archive.unpack(packed(*members), folder)
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize(
    "bytes_", [b"", b"no archive at all", packed(member("f")).getvalue()[:600]]
)
def test_what_is_no_archive_is_refused(bytes_: bytes, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="not an archive"):
        archive.unpack(io.BytesIO(bytes_), tmp_path)


def test_an_archive_that_claims_to_hold_more_than_any_entry_is_refused(tmp_path: Path) -> None:
    """A sparse file of 40 GiB takes no more than its header."""
    (tmp_path / "in").mkdir()
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(40 * 2**30)
    pack = ["tar", "--format=gnu", "-cSf", str(tmp_path / "tar"), "-C", str(tmp_path), "sparse"]
    subprocess.run(pack, check=True)
    with (tmp_path / "tar").open("rb") as sent, pytest.raises(LabError, match="more than 4,294,"):
        archive.unpack(sent, tmp_path / "in")
    assert list((tmp_path / "in").iterdir()) == []
