# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's monitor protocol, as far as stopping, resuming and examining a guest goes."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path

# Chosen: QEMU answers in a millisecond, but on a host that stalls its main loop waits, too.
_TIMEOUT_S = 20.0
# Of an answer, and of events before it. Chosen: the registers of 64 vCPUs have 150,000 characters.
_MOST_CHARACTERS = 1 << 22
_MOST_EVENTS = 1000


class Monitor:
    """The monitor of a running guest. Commands to a guest that has exited are ignored."""

    def __init__(self, path: Path) -> None:
        """Connect to the socket at path, however long the path is."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_TIMEOUT_S)
        self._stream = self._socket.makefile("rw")
        with contextlib.suppress(OSError, ValueError):
            self._connect(path)
            self._stream.readline(_MOST_CHARACTERS)  # the greeting
            self._command("qmp_capabilities")

    def stop(self) -> None:
        """Stop the guest and its clock; returns when it has stopped."""
        self._command("stop")

    def resume(self) -> None:
        """Let the guest run on."""
        self._command("cont")

    def info(self, topic: str) -> str:
        """What QEMU prints for ``info topic``; nothing if it is gone."""
        answer = self._command("human-monitor-command", {"command-line": f"info {topic}"})
        return answer if isinstance(answer, str) else ""

    def close(self) -> None:
        """Hang up; the guest stays as it is."""
        with contextlib.suppress(OSError):
            self._stream.close()
        self._socket.close()

    def _connect(self, path: Path) -> None:
        # The address of a socket holds 108 bytes (unix(7)); the path of its folder may be longer.
        # QEMU's own socket, and not one of somebody else's that a link leads to.
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        try:
            self._socket.connect(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)

    def _command(self, name: str, arguments: Mapping[str, str] | None = None) -> object:
        """Give a command and return its answer; None when there is none, or none that is QEMU's."""
        with contextlib.suppress(OSError, ValueError, RecursionError):
            order = {"execute": name, "arguments": dict(arguments or {})}
            self._stream.write(json.dumps(order) + "\n")
            self._stream.flush()
            for _ in range(_MOST_EVENTS):
                message = json.loads(self._stream.readline(_MOST_CHARACTERS))
                if not isinstance(message, dict):
                    return None
                if not {"return", "error"}.isdisjoint(message):
                    return message.get("return")
        return None
