# SPDX-License-Identifier: GPL-2.0-or-later
"""The mails of a mailbox and what is written in them, whoever made them.

Anybody may write such a mail. Everything here is limited and takes a time that grows with the
size of the mail, not with its square.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.utils import parseaddr

from lab.base.errors import UsageError

# Chosen: a thread of a mailing list has hundreds of mails of hundreds of lines, and in a mail not
# more than a handful of parts lie inside of each other.
_MOST_MAILS = 10_000
_MOST_LINES = 2_000_000
_MOST_NESTED = 20
# A header is cut off there; what is longer is no subject.
_LONGEST_HEADER = 2000
# What the parser of the standard library raises for what nobody writes by accident.
MALFORMED = (LookupError, ValueError, TypeError, AttributeError, MessageError)

# The line before a mail: an address and a date. A sentence may begin with "From", too.
_BEGIN = re.compile(rb"^From [^\n]{1,200}?\d\d:\d\d:\d\d[^\n]{0,40}\n", re.MULTILINE)
_NESTED = re.compile(rb"(?:\A|[\r\n])content-type:[ \t\r\n]*(?:multipart|message)/", re.IGNORECASE)
_LONG = re.compile(rb"(?:\A|[\r\n])content-[a-z-]+:(?:[^\r\n]|[\r\n]+[ \t]){2000}", re.IGNORECASE)
_DIFF = re.compile(r"^(?:diff --git |--- (?:a/|/dev/null))", re.MULTILINE)
# "[PATCH v2 3/5] subject", in whatever order the words in brackets stand, in one pair or several.
_TAGS = re.compile(r"(?:\[[^\]]*\]\s*)*")
_VERSION = re.compile(r"(?:\b|PATCH)v(\d{1,4})\b", re.IGNORECASE | re.ASCII)
_ATTACHED = ("text/x-patch", "text/x-diff", "text/plain")
# Encodings of Python that are none of a text.
_NO_CHARSETS = ("idna", "punycode", "raw-unicode-escape", "unicode-escape")


def mails(content: bytes, where: str) -> Iterator[Message]:
    """The mails of a mailbox; a text without a line that begins one is one mail.

    A mail that no mail program makes is skipped, for it could keep the parser busy for hours.
    Raises UsageError for a mailbox of too many mails or lines.
    """
    texts = _BEGIN.split(content, maxsplit=_MOST_MAILS + 1)
    lines = content.count(b"\n") + content.count(b"\r")
    if len(texts) > _MOST_MAILS + 1 or lines > _MOST_LINES:
        raise UsageError(
            f"more than {_MOST_MAILS:,} mails or {_MOST_LINES:,} lines",
            where=where,
            hint="try `b4 am`",
        )
    for text in texts if texts[0].strip() else texts[1:]:
        if len(_NESTED.findall(text)) <= _MOST_NESTED and not _LONG.search(text):
            yield message_from_bytes(text)


def header(mail: Message, name: str) -> str:
    """A header, decoded, on one line; as it is when it names an encoding that there is not."""
    return decoded(_written(mail, name))


def decoded(written: str) -> str:
    """A header's text, decoded, on one line; as it is when it names no known encoding."""
    try:
        shown = str(make_header(decode_header(written)))
    except MALFORMED:
        shown = written
    return " ".join(_printable(shown).split())


def tags(subject: str) -> tuple[str, str]:
    """The words in brackets that a subject begins with, and the rest of it."""
    match = _TAGS.match(subject)
    return (match[0], subject[match.end() :]) if match else ("", subject)


def version(words: str) -> int:
    """The version of a series in the tags of a subject: 1 where none is, the highest of several."""
    return max(map(int, _VERSION.findall(words)), default=1)  # b4 writes "v2->v3"


def sender(mail: Message) -> str:
    """The address that a mail is from, in small letters; empty when it names none.

    It is looked for before anything is decoded: a name may be encoded, and look like an address.
    """
    return _printable(parseaddr(_written(mail, "From"))[1].lower())


def text(mail: Message) -> str:
    """The plain text of a mail, decoded; where it has no diff, the patches that are attached.

    What is written in HTML is never read: a reader of the plain text would not see it.
    """
    parts = [part for part in _parts(mail) if part.get_content_type() in _ATTACHED]
    inline = _joined([part for part in parts if not _is_attached(part)])
    if has_diff(inline):
        return inline
    return f"{inline}\n{_joined([part for part in parts if _is_attached(part)])}"


def has_diff(text: str) -> bool:
    """Whether a text has a diff in it."""
    return bool(_DIFF.search(text))


def diff(text: str) -> str:
    """The diff of a text, without what was written before it and signed below it."""
    match = _DIFF.search(text)
    below = text[match.start() :] if match else ""
    return below.partition("\n-- \n")[0].rstrip()


def _written(mail: Message, name: str) -> str:
    return str(mail.get(name) or "")[:_LONGEST_HEADER]


def _parts(mail: Message) -> Iterator[Message]:
    """The parts of a mail that hold its own text; a mail inside of it is none."""
    if mail.get_content_maintype() == "message":
        return
    payload = mail.get_payload()
    if not mail.is_multipart():
        yield mail
    elif isinstance(payload, list):
        for part in payload:
            if isinstance(part, Message):
                yield from _parts(part)


def _is_attached(part: Message) -> bool:
    return part.get_content_disposition() == "attachment" or part.get_content_type() != "text/plain"


def _joined(parts: list[Message]) -> str:
    texts = []
    for part in parts:
        content = part.get_payload(decode=True)
        if isinstance(content, bytes):
            texts.append(_decoded(content, part.get_content_charset() or "utf-8"))
    return "\n".join(texts).replace("\r\n", "\n")


def _decoded(content: bytes, charset: str) -> str:
    """Text in an encoding; in UTF-8 where there is no such encoding."""
    try:
        known = codecs.lookup(charset).name not in _NO_CHARSETS
        return _printable(content.decode(charset if known else "utf-8", "replace"))
    except (LookupError, ValueError):
        return content.decode("utf-8", "replace")


def _printable(text: str) -> str:
    """Text that can be written in UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")
