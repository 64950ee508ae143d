# SPDX-License-Identifier: GPL-2.0-or-later
"""The functions of the block layer, by what they are compiled from.

What an I/O costs in them is judged; the rest of the kernel, where programs map their memory and are
scheduled, differs by chance. What belongs to which is fixed here, before anything is measured.
"""

from __future__ import annotations

from pathlib import Path

from lab.base import cache, sandbox
from lab.base.process import run
from lab.base.sandbox import View

# fs/io_uring.c moved to io_uring/ with commit ed29b0b4fd83 ("io_uring: move to separate directory")
# (in v6.0).
_FOLDERS = (
    *("block", "io_uring", "fs/iomap"),
    *("drivers/block", "drivers/md", "drivers/nvme", "drivers/scsi"),
)
# Where a kernel's list lies, beside its image.
FILE = "block-layer"
_PATIENCE_S = 600.0  # chosen: it takes a second
_FILES = ("fs/aio.o", "fs/direct-io.o", "fs/io_uring.o", "lib/sbitmap.o")


def functions(objects: Path) -> list[str]:
    """The names of all functions of the block layer in a folder of objects, sorted."""
    own = [objects / folder / "built-in.a" for folder in _FOLDERS]
    found = [str(path) for path in (*own, *(objects / name for name in _FILES)) if path.exists()]
    # Confined: what nm reads here was made by somebody else's makefiles.
    nm = ["nm", "--defined-only", *found]
    view = View(read=(objects, *sandbox.installation("nm")))
    listed = run(sandbox.confined(nm, view), timeout_s=_PATIENCE_S).output if found else ""
    # Among the symbols stand the names of archives and their objects.
    words = (line.split() for line in listed.splitlines())
    return sorted({own[2] for own in words if len(own) == 3 and own[1] in "tTwW"})


def of_kernel(identity: str) -> frozenset[str]:
    """The functions of the block layer of a kernel in the cache; OSError when it is gone."""
    path = cache.root() / "kernels" / identity / FILE
    return frozenset(path.read_text(errors="replace").splitlines())
