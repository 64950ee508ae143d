# SPDX-License-Identifier: GPL-2.0-or-later
"""t/io_uring, the program of fio's source that peak IOPS are quoted with, and no package has."""

from __future__ import annotations

from pathlib import Path

from lab.base import apt, cache
from lab.base.errors import UsageError
from lab.base.process import run
from lab.base.progress import Progress

# Raise it when the program is built differently of the same source.
_LAYOUT = 2


def io_uring(progress: Progress) -> Path:
    """The program, which needs no library; built of Debian's source of fio the first time. Raises
    UsageError on other systems, LabError when the source cannot be had or built.
    """
    codename = apt.system_codename()
    if codename is None:
        raise UsageError(
            "t/io_uring is built of fio's source on Debian only",
            hint="build it yourself, and name it by its path: --run './t/io_uring ...'",
        )
    folder = cache.root() / "tools" / cache.key("t/io_uring", _LAYOUT, codename)
    program = folder / "io_uring"
    if not cache.whole(folder):
        with cache.building(folder) as making, cache.scratch() as scratch:
            built = _build(apt.private([codename], "deb-src"), scratch, progress)
            built.rename(making / program.name)
    return program


def _build(archive: apt.PrivateApt, scratch: Path, progress: Progress) -> Path:
    """Build the program in scratch; its place there."""
    with progress.step("downloading fio's source"):
        archive.update()
        tarball = archive.download_source("fio", scratch)
    with progress.step("building t/io_uring"):
        run(["tar", "-xf", str(tarball), "-C", str(scratch)])
        (source,) = (path for path in scratch.iterdir() if path.is_dir())
        options = ("--build-static", "--disable-native", "--disable-numa")
        run([str(source / "configure"), *options], cwd=source)
        run(["make", "t/io_uring"], cwd=source)
        run(["strip", "t/io_uring"], cwd=source)
    return source / "t/io_uring"
