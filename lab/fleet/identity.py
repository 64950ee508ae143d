# SPDX-License-Identifier: GPL-2.0-or-later
"""What hosts must have in common to give the same exact numbers, as far as a name tells it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from lab.base import cache
from lab.base.system import PACKAGE

_CODE = {".py", ".c", ".h"}


@dataclass(frozen=True)
class Identity:
    """A host's lab, by its source; its QEMU with its firmware; and the plugin made for that."""

    lab: str
    qemu: str
    plugin: str

    def difference(self, other: Identity) -> str:
        """In what another host differs; empty when it does not."""
        here, there = asdict(self), asdict(other)
        return ", ".join(
            f"another {name} ({there[name]}, not {here[name]})"
            for name in here
            if here[name] != there[name]
        )


def of_host(emulator: str, plugin: Path | None) -> Identity:
    """The identity of this host, of whose QEMU and plugin these are the names."""
    files = sorted(p for p in PACKAGE.rglob("*") if p.suffix in _CODE or p.name == "agent")
    source = [(str(p.relative_to(PACKAGE)), cache.file_hash(p)) for p in files if p.is_file()]
    return Identity(cache.key(source), emulator, plugin.parent.name if plugin else "none")
