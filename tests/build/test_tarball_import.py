# SPDX-License-Identifier: GPL-2.0-or-later
"""Tarballs of strangers: what no kernel's holds is refused by its header, and nothing is kept."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.base.errors import LabError
from lab.build import tarball_import
from lab.build.source import git, import_tar

# What a refusal may take of memory; what is refused would take thousands of times as much.
MOST_BYTES = 64 * 2**20


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_BYTES


def tarball(
    fake_tree: Path, *entries: tarfile.TarInfo, format: int = tarfile.DEFAULT_FORMAT
) -> Path:
    """The fake kernel's tarball with more members in it, whose content is zeros."""
    path = fake_tree.parent / "hostile.tar"
    with tarfile.open(path, "w", format=format) as tar:
        tar.add(fake_tree, fake_tree.name)
        for entry in entries:
            tar.addfile(entry, io.BytesIO(bytes(entry.size)))
    return path


def member(name: str = "linux-0.1/x", **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def refused(path: Path) -> str:
    with little_memory(), pytest.raises(LabError) as caught:
        import_tar(path)
    assert str(path) in str(caught.value)
    assert "surrogates not allowed" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("format", ["gnu", "posix"])
def test_a_sparse_file_of_40_gib_in_10_kib_is_refused(fake_tree: Path, format: str) -> None:
    with (fake_tree / "sparse").open("wb") as file:
        file.truncate(40 * 2**30)
    path = fake_tree.parent / "sparse.tar"
    pack = ["tar", f"--format={format}", "-cSf", str(path), "-C", str(fake_tree.parent)]
    subprocess.run([*pack, fake_tree.name], check=True)
    assert path.stat().st_size < 64 * 1024
    assert "a sparse file, which no kernel has" in refused(path)


def test_a_member_that_claims_to_be_huge_is_refused_by_its_header(fake_tree: Path) -> None:
    path = tarball(fake_tree)
    header = member(size=40 * 2**30).tobuf(tarfile.GNU_FORMAT)
    path.write_bytes(header + path.read_bytes())
    assert "linux-0.1/x is too large: 42,949,672,960 bytes" in refused(path)


@pytest.mark.parametrize(
    ("limit", "most", "message"),
    [
        ("MOST_BYTES", 1000, "all files together have more than 1,000 bytes"),
        ("MOST_MEMBERS", 5, "there are more than 5"),
    ],
)
def test_files_that_together_are_too_much_are_refused(
    fake_tree: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, message: str
) -> None:
    monkeypatch.setattr(tarball_import, limit, most)
    assert message in refused(tarball(fake_tree))


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("link", [False, True])
def test_a_name_that_is_not_utf_8_is_refused_and_shown(
    fake_tree: Path, format: int, link: bool
) -> None:
    name = b"linux-0.1/\xff\xfe".decode(errors="surrogateescape")
    entry = member(linkname=name, type=tarfile.SYMTYPE) if link else member(name)
    said = refused(tarball(fake_tree, entry, format=format))
    assert "not UTF-8: a kernel's names are" in said
    assert link or "linux-0.1/\\xff\\xfe" in said


@pytest.mark.parametrize(
    ("pax", "message"),
    [
        ({"path": "linux-0.1/" + "x" * 5000}, "a name of 5,010 bytes"),
        ({"path": "linux-0.1/" + "x" * 100_000}, "a name or header of"),
        ({"comment": "1" * 100_000}, "a name or header of"),
        ({"size": str(40 * 2**30)}, "too large"),
        ({"size": "-5"}, "not a readable tar archive"),
        ({"path": "linux-0.1/a\0b"}, "a name with a zero byte"),
        ({"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}, "a sparse file"),
        ({"GNU.sparse.map": "0,1", "GNU.sparse.size": "99999999999"}, "a sparse file"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_a_header_claims_is_not_believed(
    fake_tree: Path, pax: dict[str, str], message: str
) -> None:
    path = tarball(fake_tree)
    header = member(pax_headers=pax, size=1).tobuf(tarfile.PAX_FORMAT)
    path.write_bytes(header + b"x".ljust(512, b"\0") + path.read_bytes())
    assert message in refused(path)


@pytest.mark.parametrize("target", ["linux-0.1/block", "linux-0.1/none", "linux-0.1/later"])
def test_a_hard_link_to_no_file_before_it_is_refused(fake_tree: Path, target: str) -> None:
    """One to a folder would be a copy of it: thirty such links make a thousand million files."""
    link = member(type=tarfile.LNKTYPE, linkname=target)
    path = tarball(fake_tree, link, member("linux-0.1/later"))
    assert "linux-0.1/x is a link to no file before it" in refused(path)


def test_hard_links_count_as_the_files_that_they_are(
    fake_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tarball_import, "MOST_BYTES", 100_000)
    large = member("linux-0.1/large", size=9000)
    links = [
        member(f"linux-0.1/{number}", type=tarfile.LNKTYPE, linkname=large.name)
        for number in range(20)
    ]
    path = tarball(fake_tree, large, *links)
    assert "all files together have more than 100,000 bytes" in refused(path)


def test_what_is_refused_leaves_no_tree(fake_tree: Path, fake_tarball: Path) -> None:
    before = import_tar(fake_tarball)
    refused(tarball(fake_tree, member("linux-0.1/\udcff")))
    assert import_tar(fake_tarball) == before
    assert git("cat-file", "-t", before) == "tree"


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_headers_that_extend_each_other_without_end_are_refused(
    fake_tree: Path, kind: bytes
) -> None:
    header = member(type=kind, size=12).tobuf(tarfile.USTAR_FORMAT)
    path = fake_tree.parent / "hostile.tar"
    path.write_bytes(5000 * (header + b"12 path=a/b\n".ljust(512, b"\0")))
    assert "recursion" in refused(path)
