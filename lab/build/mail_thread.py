# SPDX-License-Identifier: GPL-2.0-or-later
"""The thread that a series was mailed in, as a reply names it, and the commit that it is for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from email.message import Message
from email.utils import formataddr, getaddresses
from functools import lru_cache

from lab.build import mail_text

# RFC 5322 has more forms; these are the ones that mail programs write.
_ID = re.compile(r"<[^<>\s]{1,250}>", re.ASCII)
_ADDRESS = re.compile(r"[^\s<>@,;:\"()]{1,64}@[A-Za-z0-9.-]{1,250}", re.ASCII)
_BASE = re.compile(r"^base-commit: ([0-9a-f]{12,64})\s*$", re.MULTILINE | re.ASCII)
_COVER = re.compile(r"\b0+/\d+\b", re.ASCII)
# Chosen: who copies in more people than this wants no answer to all of them.
_MOST_PEOPLE = 50
_MOST_REFERENCES = 50


@dataclass(frozen=True)
class Thread:
    """The mail that a reply goes to: the cover letter, else the first patch.

    sender, to and cc are addresses with names.
    """

    message_id: str
    references: tuple[str, ...]
    subject: str
    sender: str
    date: str
    to: tuple[str, ...]
    cc: tuple[str, ...]


def find(content: bytes, where: str, first: str, senders: Collection[str]) -> Thread | None:
    """The thread of a series in a mailbox; None where its mails have no Message-ID.

    first is the subject of its first patch, with its tags, and senders are those who sent the
    patches: only their cover letter is one, and of several, for a series may be sent again, the
    last.
    """
    cover, patch = _first_mails(content, where, first, frozenset(senders))
    first_mail = patch if cover is None else cover
    if first_mail is None or not (
        ids := _ID.findall(str(first_mail.get("Message-ID") or "")[:2000])
    ):
        return None
    return Thread(
        message_id=ids[0],
        references=tuple(_ID.findall(_all(first_mail, "References"))[-_MOST_REFERENCES:]),
        subject=mail_text.header(first_mail, "Subject"),
        sender=next(iter(_people(first_mail, "From")), ""),
        date=mail_text.header(first_mail, "Date"),
        to=_people(first_mail, "To"),
        cc=_people(first_mail, "Cc"),
    )


def cover_letter(content: bytes, where: str, first: str, senders: Collection[str]) -> str:
    """The text of a series' cover letter, as find() finds it; empty without one."""
    cover, _ = _first_mails(content, where, first, frozenset(senders))
    return mail_text.text(cover) if cover is not None else ""


def named_base(content: bytes, where: str, senders: Collection[str]) -> str:
    """The commit that the mails of some senders say that their series applies to; else empty."""
    return base_commit(mail_text.text(mail) for mail in _of(content, where, senders))


def base_commit(texts: Iterable[str]) -> str:
    """The commit that a series says it applies to, the last that is named; empty without one."""
    named = [commit for text in texts for commit in _BASE.findall(text)]
    return named[-1] if named else ""


@lru_cache(maxsize=1)
def _first_mails(
    content: bytes, where: str, first: str, senders: frozenset[str]
) -> tuple[Message | None, Message | None]:
    """The cover letter of a series and the mail of its first patch; the last mailbox is kept, for
    what is wanted of it is asked in turn.
    """
    version = mail_text.version(mail_text.tags(first)[0])
    cover: Message | None = None
    patch: Message | None = None
    for mail in _of(content, where, senders):
        subject = mail_text.header(mail, "Subject")
        words = mail_text.tags(subject)[0]
        if _COVER.search(words) and mail_text.version(words) == version:
            cover = mail
        elif subject == first:
            patch = mail
    return cover, patch


def _of(content: bytes, where: str, senders: Collection[str]) -> Iterator[Message]:
    for mail in mail_text.mails(content, where):
        try:
            if mail_text.sender(mail) in senders:
                yield mail
        except mail_text.MALFORMED:
            continue


def _all(mail: Message, name: str) -> str:
    return " ".join(map(str, mail.get_all(name) or ()))[:100_000]


def _people(mail: Message, name: str) -> tuple[str, ...]:
    """The addresses of a header that can be written to, each once."""
    people = {}
    for person, address in getaddresses([_all(mail, name)]):
        if _ADDRESS.fullmatch(address) and address.lower() not in people:
            people[address.lower()] = formataddr((mail_text.decoded(person), address))
    return tuple(people.values())[:_MOST_PEOPLE]
