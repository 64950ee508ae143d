# SPDX-License-Identifier: GPL-2.0-or-later
"""The raw files of boots: a folder each, and equal files kept once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from lab.base import cache

_READ_ONLY = 0o444


class RawFiles:
    """Files below a results folder: ``boots/ID/NAME``, and ``objects/`` by their SHA-256."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def boot_folder(self, identity: str) -> Path:
        """Where the files of a boot lie."""
        return self._folder / "boots" / identity

    def keep(self, folder: Path) -> None:
        """Keep a boot's files below objects/ by SHA-256, and one file for all boots that agree.

        What lies in the boot's folder are hard links to them. Exact boots agree in megabytes. Where
        a file system has no hard links, or no more of them, files stay as they are.
        """
        for path in folder.glob("*"):
            if path.is_symlink() or not path.is_file() or not path.stat().st_size:
                continue
            path.chmod(_READ_ONLY)
            digest = cache.file_hash(path)
            kept = cache.make_folder(self._folder / "objects" / digest[:2]) / digest
            with suppress(OSError):
                try:
                    kept.hardlink_to(path)
                except FileExistsError:
                    aside = path.with_name(f".{path.name}")
                    aside.hardlink_to(kept)
                    aside.replace(path)

    def sweep(self) -> None:
        """Delete the files that no boot has any more."""
        for path in (self._folder / "objects").glob("*/*"):
            if path.stat().st_nlink == 1:
                path.unlink()
