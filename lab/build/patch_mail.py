# SPDX-License-Identifier: GPL-2.0-or-later
"""Somebody's patches, however they come: mailbox, folder, git range, standard input."""

from __future__ import annotations

import mailbox
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from pathlib import Path

from lab.base import cache
from lab.base.errors import UsageError
from lab.base.process import CommandError, run

# "[PATCH v2 3/5] subject", in whatever order the words in brackets stand.
_TAG = re.compile(r"\[(?P<words>[^\]]*\bPATCH\b[^\]]*)\]\s*(?P<title>.*)", re.DOTALL)
_VERSION = re.compile(r"\bv(\d+)\b", re.IGNORECASE)
_PLACE = re.compile(r"\b(\d+)/(\d+)\b")
_DIFF = re.compile(r"^(diff --git |--- (a/|/dev/null))", re.MULTILINE)
_REPLY = re.compile(r"\s*(re|aw|fwd?)\s*:", re.IGNORECASE)


@dataclass(frozen=True)
class Patch:
    """One patch of a series: its place in it, its subject, and the whole mail as text."""

    number: int
    total: int
    version: int
    title: str
    text: str


def collect(source: str) -> tuple[Path, ...]:
    """The patches that source names, in order, as files in the cache.

    source is a mailbox, a folder of patches, a patch, ``git:PATH@A..B``, or ``-`` for a mailbox on
    standard input. Cover letters and replies are left out; of several versions of a series the
    newest counts. Raises UsageError when there is no patch, or one of a series is missing.
    """
    if source == "-":
        # Python has none when it was closed.
        return _written(parse(sys.stdin.buffer.read() if sys.stdin else b"", "standard input"))
    if source.startswith("git:"):
        return _from_git(source)
    path = Path(source)
    if path.is_dir():
        files = tuple(sorted(path.glob("*.patch")))
        if not files:
            raise UsageError(f"no *.patch lies in {path}", hint="`git format-patch` makes them")
        return tuple(file.absolute() for file in files)
    try:
        return _written(parse(path.read_bytes(), str(path)))
    except OSError as exc:
        raise UsageError(
            f"cannot read {path}: {exc.strerror}",
            hint="give a mailbox, a folder of patches, git:PATH@A..B, or - for standard input",
        ) from exc


def parse(content: bytes, where: str) -> list[Patch]:
    """The patches in a mailbox (or in a single patch file) in the order of the series.

    Raises UsageError when there is none, or a number of the series is missing.
    """
    found = [patch for mail in _mails(content) if (patch := _patch(mail))]
    if not found:
        raise UsageError("no patch is in it", where=where, hint="a patch has a diff in plain text")
    newest = max(patch.version for patch in found)
    by_number: dict[int, Patch] = {}
    unnumbered = [patch for patch in found if not patch.number]
    for patch in found:
        if patch.version == newest and patch.number:
            by_number.setdefault(patch.number, patch)  # the same mail from several lists
    if not by_number:
        return unnumbered
    total = max(patch.total for patch in by_number.values())
    missing = [str(number) for number in range(1, total + 1) if number not in by_number]
    if missing:
        raise UsageError(
            f"patch {', '.join(missing)} of {total} is missing", where=where, hint="try `b4 am`"
        )
    return [by_number[number] for number in sorted(by_number)]


def _mails(content: bytes) -> Iterator[Message]:
    """The messages of a mailbox; a text without a "From " line is one message."""
    with tempfile.NamedTemporaryFile(suffix=".mbox") as file:
        begins = content.startswith(b"From ")
        file.write(content if begins else b"From lab Thu Jan  1 00:00:00 1970\n" + content)
        file.flush()
        yield from mailbox.mbox(file.name, create=False)


def _patch(mail: Message) -> Patch | None:
    """The patch that a mail is; None for cover letters, replies and everything else."""
    subject = " ".join(_header(mail.get("Subject", "")).split())
    body = _body(mail)
    if _REPLY.match(subject) or not _DIFF.search(body):
        return None
    tag = _TAG.match(subject)
    words = tag["words"] if tag else ""
    place, version = _PLACE.search(words), _VERSION.search(words)
    number, total = (int(place[1]), int(place[2])) if place else (0, 0)
    if place and number == 0:
        return None
    title = tag["title"] if tag else subject
    text = f"From: {mail.get('From', '')}\nSubject: {subject}\n\n{body}"
    return Patch(number, total, int(version[1]) if version else 1, title, text)


def _header(text: str) -> str:
    """A header decoded; as it is when it names an encoding that there is not."""
    try:
        return str(make_header(decode_header(text)))
    except (LookupError, UnicodeError, HeaderParseError):
        return text


def _body(mail: Message) -> str:
    """The plain text of a mail, decoded."""
    parts = [part for part in mail.walk() if part.get_content_type().startswith("text/")]
    texts = []
    for part in parts:
        content = part.get_payload(decode=True)
        if isinstance(content, bytes):
            texts.append(_decoded(content, part.get_content_charset() or "utf-8"))
    return "\n".join(texts).replace("\r\n", "\n")


def _decoded(content: bytes, charset: str) -> str:
    """Text in an encoding; in UTF-8 where there is no such encoding."""
    try:
        return content.decode(charset, "replace")
    except (LookupError, ValueError):
        return content.decode("utf-8", "replace")


def _written(patches: Sequence[Patch]) -> tuple[Path, ...]:
    """The patches as files that keep their order, under a hash of what they are."""
    folder = cache.root() / "series" / cache.key([patch.text for patch in patches])
    names = [f"{n:04}-{_slug(patch.title)}.patch" for n, patch in enumerate(patches, start=1)]
    if not cache.whole(folder):
        with cache.building(folder) as aside:
            for name, patch in zip(names, patches, strict=True):
                (aside / name).write_text(patch.text)
    return tuple(folder / name for name in names)


def _from_git(source: str) -> tuple[Path, ...]:
    """The commits of git:PATH@A..B as patches."""
    path, at, commits = source.removeprefix("git:").rpartition("@")
    if not at or ".." not in commits:
        raise UsageError(f"not a range: {source!r}", hint="write git:PATH@A..B")
    repository = Path(path).expanduser()
    try:
        listed = run(["git", "-C", str(repository), "rev-list", "--merges", commits]).output
        if listed.strip():
            raise UsageError(f"{commits} has merges", hint="give a range of plain commits")
        ids = run(["git", "-C", str(repository), "rev-list", commits]).output
        if not ids.strip():
            raise UsageError(f"no commit is in {commits}", where=str(repository))
        folder = cache.root() / "series" / cache.key("git", ids)
        if not cache.whole(folder):
            with cache.building(folder) as aside:
                options = ["-q", "--no-signature", "-o", str(aside)]
                run(["git", "-C", str(repository), "format-patch", *options, commits])
    except CommandError as exc:
        raise UsageError(f"git cannot read {commits}: {exc.output.strip()}", where=path) from exc
    return tuple(sorted(folder.glob("*.patch")))


def _slug(title: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", title).strip("-")[:50].strip("-") or "patch"
