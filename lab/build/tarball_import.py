# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel's tarball in the language of git fast-import.

Anybody may have made it: a few KiB can stand for a terabyte. So what it holds is refused by its
header, before a byte of it is read, where no kernel is as large.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import IO

from lab.base.errors import LabError
from lab.base.text import visible
from lab.build.object_store import MOST_BYTES, MOST_FILE_BYTES

MOST_MEMBERS = 1_000_000  # chosen: Linux 6.12 has 90,000 files
# Python's parser of such a header takes time that grows with the square of it.
_MOST_HEADER_BYTES = 16 * 1024
_MOST_NAME = 4095  # PATH_MAX, in linux/limits.h
_EXTENSIONS = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)
_SPARSE = "a sparse file, which no kernel has"


def feed(tarball: Path, stream: IO[bytes]) -> None:
    """Write a tarball's files and links, without its top folder, to a git fast-import. Raises
    LabError for what is no tar archive, and for what no kernel's is.
    """
    try:
        with tarfile.open(tarball, "r|*", tarinfo=_Member) as tar:
            total, sizes = 0, dict[str, int]()
            for number, member in enumerate(tar, start=1):
                path = _below_top(member.name)
                # A link to a folder would be a copy of it, and one of a link to that as well.
                linked = sizes.get(_below_top(member.linkname)) if member.islnk() else None
                sizes[path] = member.size if linked is None else linked
                total += sizes[path]
                why = _refusal(member, total, number)
                if member.islnk() and linked is None:
                    why = why or "a link to no file before it"
                if why:
                    raise tarfile.ReadError(f"{_shown(member.name)} is {why}")
                if member.isdir():
                    del sizes[path]
                _feed(stream, tar, member)
    except (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError) as exc:
        # tarfile takes each header that extends the next one a level deeper.
        raise LabError(
            f"{tarball} is not a readable tar archive of a kernel: {exc}",
            hint="fetch it again from where it was released",
        ) from exc


class _Member(tarfile.TarInfo):
    """A header that is damaged is an error, where tarfile would take it for the end, and so is one
    that would have it read without end.
    """

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> _Member:
        # Not frombuf(), which Python's later releases no longer call for an archive's members.
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # typeshed forgot it
            raise  # the block of zeros that ends every archive
        except tarfile.HeaderError as exc:
            raise tarfile.ReadError(f"damaged or cut off: {exc}") from exc

    def _proc_member(self, tarfile_: tarfile.TarFile) -> tarfile.TarInfo:
        """What tarfile does with a header of any kind: it reads an extension as a whole."""
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError(f"{_shown(self.name)} is {_SPARSE}")
        if self.type in _EXTENSIONS and self.size > _MOST_HEADER_BYTES:
            raise tarfile.ReadError(f"a name or header of {self.size:,} bytes")
        member = super()._proc_member(tarfile_)  # type: ignore[misc]  # not in typeshed
        assert isinstance(member, tarfile.TarInfo)
        return member

    def _proc_sparse_map(self, *_: object) -> None:
        raise tarfile.ReadError(f"{_shown(self.name)} is {_SPARSE}")

    # The maps of the sparse files of pax, in each of its three versions.
    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _proc_sparse_map


def _refusal(member: tarfile.TarInfo, total: int, number: int) -> str:
    """Why a member is none of a kernel's; empty when it may be one."""
    if member.issparse():
        return _SPARSE
    if member.size < 0:
        return f"of {member.size} bytes"
    if member.size > MOST_FILE_BYTES:
        return f"too large: {member.size:,} bytes, more than {MOST_FILE_BYTES:,}"
    if total > MOST_BYTES:
        return f"too much: all files together have more than {MOST_BYTES:,} bytes"
    if number > MOST_MEMBERS:
        return f"one too many: there are more than {MOST_MEMBERS:,}"
    for name in (member.name, member.linkname):
        if "\0" in name:
            return "a name with a zero byte"
        try:
            length = len(name.encode())
        except UnicodeEncodeError:
            return "not UTF-8: a kernel's names are"
        if length > _MOST_NAME:
            return f"a name of {length:,} bytes"
    return ""


def _shown(name: str) -> str:
    """The beginning of a name, with what is not UTF-8 as an escape."""
    return visible(name[:200].encode(errors="surrogateescape").decode(errors="backslashreplace"))


def _feed(stream: IO[bytes], tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    """Write one archive member in git fast-import's language."""
    path = _below_top(member.name)
    if not path or member.isdir():
        return
    if member.islnk():
        stream.write(f"C {_quoted(_below_top(member.linkname))} {_quoted(path)}\n".encode())
        return
    if member.issym():
        mode, content = "120000", member.linkname.encode()
    elif member.isfile():
        extracted = tar.extractfile(member)
        assert extracted is not None
        mode = "100755" if member.mode & 0o100 else "100644"
        content = extracted.read()
    else:
        return
    stream.write(f"M {mode} inline {_quoted(path)}\ndata {len(content)}\n".encode())
    stream.write(content)
    stream.write(b"\n")


def _below_top(name: str) -> str:
    """A member's path without the archive's top folder."""
    return name.removeprefix("./").partition("/")[2]


def _quoted(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
