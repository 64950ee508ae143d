# SPDX-License-Identifier: GPL-2.0-or-later
"""A thread of a list's archive as a mailbox, fetched by b4: it knows archives, mirrors, proxies."""

from __future__ import annotations

import re
import shutil

from lab.base import cache
from lab.base.errors import LabError, UsageError
from lab.base.process import run, tail

_ID = re.compile(r"<?([^<>\s/?#-][^<>\s/?#]{0,249}@[^<>\s/?#]{1,250})>?", re.ASCII)
_NAME = "thread.mbx"
_LIMIT_S = 300.0


def thread(message_id: str) -> bytes:
    """The mailbox of the thread that a message is in. Raises UsageError for what is no Message-ID,
    LabError when b4 is missing or finds nothing.
    """
    match = _ID.fullmatch(message_id)
    if not match:
        raise UsageError(
            f"not a Message-ID: {message_id!r}", hint="write lore:20240131-x-v1-0-1@example.org"
        )
    if not shutil.which("b4"):
        raise LabError(
            "b4 is not installed, which fetches threads",
            hint="apt-get install b4, dnf install b4, or pipx install b4; or save the thread as a "
            "mailbox and give that",
        )
    with cache.scratch() as folder:
        argv = ["b4", "mbox", "--outdir", str(folder), "--mbox-name", _NAME, match[1]]
        done = run(argv, check=False, merge=True, timeout_s=_LIMIT_S)
        made = folder / _NAME
        if done.status or not made.exists():
            raise LabError(
                f"b4 does not get the thread of {match[1]}:\n{tail(done.output)}",
                where=" ".join(argv),
                hint="check the network and the Message-ID, or save the thread as a mailbox and "
                "give that",
            )
        return made.read_bytes()
