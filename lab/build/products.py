# SPDX-License-Identifier: GPL-2.0-or-later
"""What a build made, taken with care: whoever wrote the makefiles decides what lies there."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from lab.base.errors import BuildError

_MIB = 2**20
# Chosen: several times what the debug kernel's are.
_MOST_BYTES = {"vmlinux": 2048 * _MIB, "System.map": 64 * _MIB, ".config": 4 * _MIB}
_USUAL_MOST = 256 * _MIB
_SYMBOL = re.compile(rb"[0-9a-f]{1,16} [!-~] [!-~]+")
_RELEASE = re.compile(r"[\w.+~-]{1,64}", re.ASCII)


def product(objects: Path, name: str) -> Path:
    """The path of a product. Raises BuildError where it is missing, too large, or anything but a
    regular file of the objects' own.
    """
    path = objects / name
    try:
        status = path.lstat()
    except OSError as exc:
        raise BuildError(f"the build made no {name}: {exc.strerror}", where=str(path)) from exc
    if not stat.S_ISREG(status.st_mode) or path.resolve() != objects.resolve() / name:
        raise BuildError(f"the build's {name} is not a file of its own", where=str(path))
    most = _MOST_BYTES.get(path.name, _USUAL_MOST)
    if status.st_size > most:
        size = f"{status.st_size / _MIB:.0f} MiB, more than {most / _MIB:.0f}"
        raise BuildError(f"the build's {name} is too large: {size}", where=str(path))
    return path


def text(objects: Path, name: str) -> str:
    """The content of a product that is text. Raises BuildError like product."""
    return product(objects, name).read_text(errors="replace")


def release(objects: Path) -> str:
    """The kernel's release, as uname will print it. Raises BuildError for what cannot be one."""
    name = "include/config/kernel.release"
    printed = product(objects, name).open("rb").read(4096).decode(errors="replace").strip()
    if not _RELEASE.fullmatch(printed):
        raise BuildError(f"not a kernel release: {printed!r:.80}", where=str(objects / name))
    return printed


def check_symbols(objects: Path) -> None:
    """Raise BuildError for a line of System.map without an address, a type and a name."""
    path = product(objects, "System.map")
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not _SYMBOL.fullmatch(line):
            raise BuildError(f"not a symbol: {line[:80]!r}", where=f"{path}:{number}")
