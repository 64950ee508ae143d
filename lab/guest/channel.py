# SPDX-License-Identifier: GPL-2.0-or-later
"""The result channel: the records that the agent writes, read while they come in.

A record is a line ``@KIND NAME LENGTH``, LENGTH bytes of payload and a newline. Kinds: ``phase``
(the agent enters a phase), ``file`` (an output), ``fail`` (a step failed; the payload says why),
``end`` (all steps done).

The other end is a kernel that may be anybody's: what the agent cannot have written is an error of
that kernel, and neither the memory that it takes here nor the time is more than the agent's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lab.base.errors import GuestError

_HEADER = re.compile(rb"@(phase|file|fail|end) ([\w.-]{1,64}) ([0-9]{1,9})")
_MAX_HEADER = 100
# Of all records of a boot. Chosen: a trace of ten thousand requests is 2 MiB.
MAX_BYTES = 64 << 20


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
        self._buffer = bytearray()
        self._fed = 0

    def feed(self, data: bytes) -> Iterator[Record]:
        """Take more bytes and yield every record that is now complete.

        Raises GuestError: ``corrupt`` when the agent cannot have written the bytes, ``flooded``
        when there are more than MAX_BYTES of them.
        """
        self._fed += len(data)
        if self._fed > MAX_BYTES:
            raise too_much("records", MAX_BYTES)
        self._buffer += data
        while (record := self._cut()) is not None:
            yield record

    def _cut(self) -> Record | None:
        end = self._buffer.find(b"\n", 0, _MAX_HEADER + 1)
        if end < 0 and len(self._buffer) <= _MAX_HEADER:
            return None
        line = bytes(self._buffer[: end if end >= 0 else _MAX_HEADER])
        header = _HEADER.fullmatch(line) if end >= 0 else None
        if not header:
            raise GuestError("corrupt", f"the guest wrote no record: {line!r}")
        start, length = end + 1, int(header[3])
        if length > MAX_BYTES:
            raise too_much("records", MAX_BYTES)
        if len(self._buffer) <= start + length:
            return None
        payload = bytes(self._buffer[start : start + length])
        if self._buffer[start + length] != ord("\n"):
            raise GuestError("corrupt", f"the guest wrote no record: {line!r} is not its length")
        # A bytearray forgets its beginning without moving the rest.
        del self._buffer[: start + length + 1]
        return Record(header[1].decode(), header[2].decode(), payload)


def too_much(what: str, limit: int) -> GuestError:
    """The error of a guest that wrote more than limit bytes of something."""
    return GuestError("flooded", f"the guest wrote more than {limit >> 20} MiB of {what}")
