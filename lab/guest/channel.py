# SPDX-License-Identifier: GPL-2.0-or-later
"""The result channel: the records that the agent writes, read while they come in.

A record is a line ``@KIND NAME LENGTH``, LENGTH bytes of payload and a newline. Kinds: ``phase``
(the agent enters a phase), ``file`` (an output), ``fail`` (a step failed; the payload says why),
``end`` (all steps done).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lab.base.errors import GuestError

_HEADER = re.compile(rb"@(phase|file|fail|end) ([\w.-]+) (\d+)$")
_MAX_HEADER = 200


@dataclass(frozen=True)
class Record:
    """One record: kind, name and payload."""

    kind: str
    name: str
    payload: bytes

    @property
    def text(self) -> str:
        """The payload as text."""
        return self.payload.decode(errors="replace")


class Reader:
    """Cuts a growing byte stream into records."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> Iterator[Record]:
        """Take more bytes and yield every record that is now complete.

        Raises GuestError (``garbled``) when the agent cannot have written the bytes.
        """
        self._buffer += data
        while (record := self._cut()) is not None:
            yield record

    def _cut(self) -> Record | None:
        line, newline, rest = self._buffer.partition(b"\n")
        if not newline and len(line) <= _MAX_HEADER:
            return None
        header = _HEADER.match(line)
        if not newline or not header:
            raise GuestError("garbled", f"the guest wrote no record: {line[:_MAX_HEADER]!r}")
        length = int(header[3])
        if len(rest) <= length:
            return None
        self._buffer = rest[length + 1 :]
        return Record(header[1].decode(), header[2].decode(), rest[:length])
