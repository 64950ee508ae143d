# SPDX-License-Identifier: GPL-2.0-or-later
"""The thread that a series was mailed in, as a reply names it, and the commit that it is for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from email.message import Message
from email.utils import formataddr, getaddresses

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
    """The mail that a reply goes to, the cover letter or else the first patch; sender, to and cc
    are addresses with names.
    """

    message_id: str
    references: tuple[str, ...]
    subject: str
    sender: str
    date: str
    to: tuple[str, ...]
    cc: tuple[str, ...]


def read(
    content: bytes, where: str, first: str, senders: Collection[str]
) -> tuple[Thread | None, str, str]:
    """The thread of a series in a mailbox, the commit that its mails say it is for, and the text of
    its cover letter; None and empty where there is none.

    first is the subject of its first patch, with its tags, and senders are those who sent the
    patches: only their mails count, and of several cover letters, for a series may be sent again,
    the last. Without a Message-ID there is no thread.
    """
    version = mail_text.version(mail_text.tags(first)[0])
    cover: Message | None = None
    patch: Message | None = None
    texts, cover_text = [], ""
    for mail in mail_text.mails(content, where):
        try:
            if mail_text.sender(mail) not in senders:
                continue
            text = mail_text.text(mail)
        except mail_text.MALFORMED:
            continue
        texts.append(text)
        subject = mail_text.header(mail, "Subject")
        words = mail_text.tags(subject)[0]
        if _COVER.search(words) and mail_text.version(words) == version:
            cover, cover_text = mail, text
        elif subject == first:
            patch = mail
    answered = patch if cover is None else cover
    thread = None if answered is None else _thread(answered)
    return thread, base_commit(texts), cover_text


def base_commit(texts: Iterable[str]) -> str:
    """The commit that a series says it applies to, the last that is named; empty without one."""
    named = [commit for text in texts for commit in _BASE.findall(text)]
    return named[-1] if named else ""


def _thread(mail: Message) -> Thread | None:
    ids = _ID.findall(str(mail.get("Message-ID") or "")[:2000])
    if not ids:
        return None
    return Thread(
        message_id=ids[0],
        references=tuple(_ID.findall(_all(mail, "References"))[-_MOST_REFERENCES:]),
        subject=mail_text.header(mail, "Subject"),
        sender=next(iter(_people(mail, "From")), ""),
        date=mail_text.header(mail, "Date"),
        to=_people(mail, "To"),
        cc=_people(mail, "Cc"),
    )


def _all(mail: Message, name: str) -> str:
    return " ".join(map(str, mail.get_all(name) or ()))[:100_000]


def _people(mail: Message, name: str) -> tuple[str, ...]:
    """The addresses of a header that can be written to, each once."""
    people = {}
    for person, address in getaddresses([_all(mail, name)]):
        if _ADDRESS.fullmatch(address) and address.lower() not in people:
            people[address.lower()] = formataddr((mail_text.decoded(person), address))
    return tuple(people.values())[:_MOST_PEOPLE]
