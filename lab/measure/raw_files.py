# SPDX-License-Identifier: GPL-2.0-or-later
"""The raw files of boots: a folder each, and equal files kept once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from lab.base import cache, durable
from lab.base.errors import LabError

_READ_ONLY = 0o444


class RawFiles:
    """Files below a results folder: ``boots/ID/NAME``, and ``objects/`` by their SHA-256."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sums: dict[tuple[int, int, int], str] = {}

    def boot_folder(self, identity: str) -> Path:
        """Where the files of a boot lie. Raises LabError for an id that is a path to elsewhere."""
        if identity in ("", "..") or Path(identity).name != identity:
            raise LabError(
                f"these results name a boot {identity!r}, which is no name of a folder",
                where=str(self._folder),
                hint="they were not written by the lab: set LAB_RESULTS to another folder",
            )
        return self._folder / "boots" / identity

    def keep(self, folder: Path) -> dict[str, str]:
        """Keep a boot's files below objects/ by SHA-256, and one file for all boots that agree.

        What lies in the boot's folder are hard links to them. Exact boots agree in megabytes. Where
        a file system has no hard links, or no more of them, files stay as they are. Returns the
        SHA-256 of every file by its name; all are on the disk then.
        """
        sums = {}
        for path in folder.glob("*"):
            if path.is_symlink() or not path.is_file() or not path.stat().st_size:
                continue
            path.chmod(_READ_ONLY)
            digest = sums[path.name] = cache.file_hash(path)
            kept = cache.make_folder(self._folder / "objects" / digest[:2]) / digest
            with suppress(OSError):
                try:
                    kept.hardlink_to(path)
                except FileExistsError:
                    if cache.file_hash(kept) != digest:  # damaged, and so of no use to anybody
                        durable.replace_by_link(kept, path)
                    else:
                        durable.replace_by_link(path, kept)
            durable.sync(path)
            durable.sync_name(kept)
        if sums:
            durable.sync(folder)
        return sums

    def damaged(self, identity: str, sums: Mapping[str, str]) -> str:
        """The first file of a boot that is gone or not what it was; empty for none."""
        folder = self.boot_folder(identity)
        return next(
            (n for n, digest in sorted(sums.items()) if self._sum(folder / n) != digest), ""
        )

    def _sum(self, path: Path) -> str:
        """A file's SHA-256, computed once for all its links; empty where it cannot be read."""
        try:
            status = path.stat()
            same = (status.st_ino, status.st_size, status.st_mtime_ns)
            if same not in self._sums:
                self._sums[same] = cache.file_hash(path)
        except OSError:
            return ""
        return self._sums[same]

    def sweep(self) -> None:
        """Delete the files that no boot has any more; no link is followed."""
        folders = (path for path in (self._folder / "objects").glob("*") if not path.is_symlink())
        for path in (file for folder in folders for file in folder.glob("*")):
            if path.lstat().st_nlink == 1:
                path.unlink()
