# SPDX-License-Identifier: GPL-2.0-or-later
"""A QEMU that is its monitor alone."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from pathlib import Path


class Qemu:
    """Answers as QEMU's monitor does, events between, and notes what it is told.

    infos are the answers to its ``info`` commands.
    """

    def __init__(
        self, path: Path, log: list[tuple[str, str]], infos: Mapping[str, str] | None = None
    ) -> None:
        self.path, self.log, self.running = path, log, True
        self._infos = infos or {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        stream = self._listener.accept()[0].makefile("rw")

        def say(message: object) -> None:
            stream.write(json.dumps(message) + "\n")
            stream.flush()

        say({"QMP": {"version": {}}})
        for line in stream:
            order = json.loads(line)
            command = order["execute"]
            answer: object = {}
            if command == "human-monitor-command":
                topic = order["arguments"]["command-line"].removeprefix("info ")
                answer = self._infos[topic].replace("\n", "\r\n")
                self.log.append((self.path.name, topic))
            if command in ("stop", "cont"):
                self.running = command == "cont"
                self.log.append((self.path.name, command))
                say({"event": command.upper(), "timestamp": {}})
            say({"return": answer})
