# SPDX-License-Identifier: GPL-2.0-or-later
"""Somebody's patches, however they come: mailbox, archive, folder, git range, standard input."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import IO

from lab.base import cache
from lab.base.errors import UsageError
from lab.base.process import CommandError
from lab.build import lore, mail_text, mail_thread, repository
from lab.build.mail_thread import Thread

# Chosen: the largest series on record have some hundred patches of some hundred KiB.
_MOST_BYTES = 50 << 20
_MOST_PATCHES = 1000
_UNKNOWN = "nobody"

_PATCH = re.compile(r"\bPATCH")
_PLACE = re.compile(r"\b(\d+)/(\d+)\b", re.ASCII)
_REPLY = re.compile(r"(?:re|aw|fwd?)\s*:", re.IGNORECASE)
_AUTHOR = re.compile(r"^From: *(.+)$", re.MULTILINE)
# Whatever the user's configuration of git says about what people read.
_AS_GIT_APPLIES = (
    *("--no-ext-diff", "--no-textconv", "--no-attach", "--submodule=short"),
    *("--src-prefix=a/", "--dst-prefix=b/"),
)


@dataclass(frozen=True)
class Patch:
    """One patch of a series: its place in it, its title, who sent it, the mail as text, and the
    whole subject with its tags.
    """

    number: int
    total: int
    version: int
    title: str
    sender: str
    text: str
    subject: str


@dataclass(frozen=True)
class Collected:
    """Patches as files, in order, and the titles of those that were found and skipped.

    thread is the mail that they came in, if any, cover the text of its cover letter; base_commit
    what they say that they apply to.
    """

    patches: tuple[Path, ...]
    skipped: tuple[str, ...] = ()
    thread: Thread | None = None
    base_commit: str = ""
    cover: str = ""


def collect(source: str, senders: Collection[str] = ()) -> Collected:
    """The patches that source names, in order, as files.

    source is a mailbox, a folder of patches, a patch, ``git:PATH@A..B``, ``git:PATH@COMMIT``,
    ``lore:MESSAGE-ID``, or ``-`` for a mailbox on standard input; series has the rules of a
    mailbox, and what senders are.
    Raises UsageError when there is no patch, or one of a series is missing, LabError when the
    thread cannot be fetched.
    """
    if source == "-":
        # Python has none when it was closed.
        content = _read(sys.stdin.buffer, "standard input") if sys.stdin else b""
        return _written(content, "standard input", senders)
    if source.startswith("git:"):
        return Collected(_from_git(source))
    if source.startswith("lore:"):
        return _written(lore.thread(source.removeprefix("lore:")), source, senders)
    path = Path(source)
    if path.is_dir():
        files = tuple(sorted(file for file in path.glob("*.patch") if file.is_file()))
        if not files:
            raise UsageError(f"no *.patch lies in {path}", hint="`git format-patch` makes them")
        base = mail_thread.base_commit(file.read_text(errors="replace") for file in files)
        return Collected(tuple(file.absolute() for file in files), base_commit=base)
    try:
        with path.open("rb") as file:
            content = _read(file, str(path))
    except OSError as exc:
        raise UsageError(
            f"cannot read {path}: {exc.strerror}",
            hint="give a mailbox, a folder of patches, git:PATH@A..B, lore:MESSAGE-ID, or - for "
            "standard input",
        ) from exc
    return _written(content, str(path), senders)


def author(patch: Path) -> str:
    """Who wrote a patch, as its text says: its first line where that names somebody, for then
    another one sent it; else its header. Empty when neither does.
    """
    with patch.open(errors="replace") as file:
        head, _, body = file.read(10_000).partition("\n\n")
    match = _AUTHOR.match(body.lstrip()) or _AUTHOR.search(head)
    return " ".join(match[1].split()) if match else ""


def title(text: str) -> str:
    """The subject of a patch's text without its tags; empty without one."""
    return mail_text.tags(mail_text.header(message_from_string(text), "Subject"))[1]


def parse(content: bytes, where: str) -> list[Patch]:
    """All patches in a mailbox or in a single patch file, whoever sent them, without cover letters
    and replies. Raises UsageError when there is no patch, or too many.
    """
    patches = []
    for mail in mail_text.mails(content, where):
        try:
            patch = _patch(mail)
        except mail_text.MALFORMED:
            continue  # no mail that a mail program sends
        if patch:
            patches.append(patch)
    if not patches:
        raise UsageError("no patch is in it", where=where, hint="a patch has a diff in plain text")
    if len(patches) > _MOST_PATCHES:
        raise UsageError(f"more than {_MOST_PATCHES:,} patches", where=where, hint="try `b4 am`")
    return patches


def series(patches: Sequence[Patch], where: str, senders: Collection[str] = ()) -> list[Patch]:
    """The patches of a series among all that a mailbox has, in order; the newest version counts.

    senders are the addresses of those whose patches are wanted. Without them one person must have
    sent all, for anybody can write into a thread; who wrote a patch does not matter. Raises
    UsageError when several people sent patches, or a number is missing, or is there twice.
    """
    wanted = _sent_by(patches, senders, where)
    newest = max(patch.version for patch in wanted)
    latest = [patch for patch in wanted if patch.version == newest]
    numbered = [patch for patch in latest if patch.number]
    return _in_order(numbered, where) if numbered else _once(latest)


def _patch(mail: Message) -> Patch | None:
    """The patch that a mail is; None for cover letters, replies and everything else."""
    subject = mail_text.header(mail, "Subject")
    words, title = mail_text.tags(subject)
    if not _PATCH.search(words):
        words = ""
    body = mail_text.text(mail)
    if _REPLY.match(title) or not mail_text.has_diff(body):
        return None
    place = _PLACE.search(words)
    version = mail_text.version(words)
    number, total = map(_bounded, place.groups()) if place else (0, 0)
    if place and number == 0:
        return None
    text = f"From: {mail_text.header(mail, 'From')}\nSubject: {subject}\n\n{body}"
    sender = mail_text.sender(mail) or _UNKNOWN
    return Patch(number, total, version, title, sender, text, subject)


def _bounded(digits: str) -> int:
    """A number of a subject; one that no series has is the first that is too large."""
    return int(digits) if len(digits) < 5 else _MOST_PATCHES + 1


def _sent_by(patches: Sequence[Patch], senders: Collection[str], where: str) -> list[Patch]:
    """The patches of the senders that are wanted, else of the only one that there is."""
    present = list(dict.fromkeys(patch.sender for patch in patches))
    wanted = [address.lower() for address in senders]
    if unknown := [address for address in wanted if address not in present]:
        raise UsageError(
            f"{unknown[0]} sent no patch", where=where, hint=f"these did: {', '.join(present)}"
        )
    if len(present) > 1 and not wanted:
        raise UsageError(
            f"patches of several people: {', '.join(present)}",
            where=where,
            hint=f"choose whose to judge: --from {present[0]}, and once more for each other who "
            "sent a part of the series",
        )
    return [patch for patch in patches if patch.sender in (wanted or present)]


def _in_order(patches: Sequence[Patch], where: str) -> list[Patch]:
    """The patches of one version of a series in order; the same one from several lists is one."""
    by_number: dict[int, Patch] = {}
    for patch in patches:
        known = by_number.setdefault(patch.number, patch)
        if mail_text.diff(known.text) != mail_text.diff(patch.text):
            raise UsageError(
                f"patch {patch.number} is there twice and not the same: {known.title!r} by "
                f"{known.sender}, {patch.title!r} by {patch.sender}",
                where=where,
                hint="take the wrong one out, or try `b4 am`",
            )
    total = max(patch.total for patch in patches)
    if total > _MOST_PATCHES or max(by_number) > total:
        misplaced = next(p for p in patches if p.total > _MOST_PATCHES or p.number > total)
        raise UsageError(
            f"{misplaced.title!r} has an impossible place in its series",
            where=where,
            hint=f"a series has at most {_MOST_PATCHES:,} patches: [PATCH 1/{_MOST_PATCHES}]",
        )
    missing = [str(number) for number in range(1, total + 1) if number not in by_number]
    if missing:
        raise UsageError(
            f"patch {', '.join(missing)} of {total} is missing", where=where, hint="try `b4 am`"
        )
    return [by_number[number] for number in sorted(by_number)]


def _once(patches: Sequence[Patch]) -> list[Patch]:
    """Patches without numbers, in the order in which they came, each once."""
    return list({mail_text.diff(patch.text): patch for patch in reversed(patches)}.values())[::-1]


def _read(file: IO[bytes], where: str) -> bytes:
    """All of a mailbox; UsageError for one of a size that none has."""
    content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise UsageError(
            f"more than {_MOST_BYTES >> 20} MiB: no mailbox of a thread is so large",
            where=where,
            hint="try `b4 am`, or give a folder of patches or git:PATH@A..B",
        )
    return content


def _written(content: bytes, where: str, senders: Collection[str]) -> Collected:
    """The patches of a mailbox as files that keep their order, under a hash of what they are."""
    mailed = parse(content, where)
    patches = series(mailed, where, senders)
    folder = cache.root() / "series" / cache.key([patch.text for patch in patches])
    names = [f"{n:04}-{slug(patch.title)}.patch" for n, patch in enumerate(patches, start=1)]
    if not cache.whole(folder):
        with cache.building(folder) as aside:
            for name, patch in zip(names, patches, strict=True):
                (aside / name).write_text(patch.text)
    taken = {mail_text.diff(patch.text) for patch in patches}
    skipped = [patch for patch in mailed if mail_text.diff(patch.text) not in taken]
    chosen_senders = {patch.sender for patch in patches}
    return Collected(
        tuple(folder / name for name in names),
        tuple(f"{patch.title}, version {patch.version}, by {patch.sender}" for patch in skipped),
        *mail_thread.read(content, where, patches[0].subject, chosen_senders),
    )


def _from_git(source: str) -> tuple[Path, ...]:
    """The commits of git:PATH@A..B as patches, or the one of git:PATH@COMMIT."""
    path, at, commits = source.removeprefix("git:").rpartition("@")
    if not at or not commits:
        raise UsageError(f"not commits: {source!r}", hint="write git:PATH@A..B or git:PATH@COMMIT")
    if ".." not in commits:
        commits = f"{commits}^..{commits}"
    try:
        with repository.opened(Path(path)) as repo:
            if repo.git("rev-list", "--merges", commits):
                raise UsageError(f"{commits} has merges", hint="give a range of plain commits")
            ids = repo.git("rev-list", commits)
            if not ids:
                raise UsageError(f"no commit is in {commits}", where=path)
            folder = cache.root() / "series" / cache.key("git", 3, ids)
            if not cache.whole(folder):
                with cache.building(folder) as aside:
                    options = ["-q", "--no-signature", *_AS_GIT_APPLIES, "-o", str(aside)]
                    repo.git("format-patch", *options, commits)
    except CommandError as exc:
        raise UsageError(f"git cannot read {commits}: {exc.output.strip()}", where=path) from exc
    return tuple(sorted(folder.glob("*.patch")))


def slug(title: str) -> str:
    """A title as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", title).strip("-")[:50].strip("-") or "patch"
