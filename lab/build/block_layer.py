# SPDX-License-Identifier: GPL-2.0-or-later
"""The functions of the block layer, by what they are compiled from.

What an I/O costs in them is judged; the rest of the kernel, where programs map their memory and are
scheduled, differs by chance. What belongs to which is fixed here, before anything is measured.

The makefiles of a patched kernel decide what lies in its archives, so its own list proves nothing.
All arms of a comparison have one list: that of the reference, a kernel without these patches.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from lab.base import cache, sandbox
from lab.base.errors import BuildError
from lab.base.process import CommandError, run, tail
from lab.base.sandbox import View
from lab.build import products

# fs/io_uring.c moved to io_uring/ with commit ed29b0b4fd83 ("io_uring: move to separate directory")
# (in v6.0).
_FOLDERS = (
    *("block", "io_uring", "fs/iomap"),
    *("drivers/block", "drivers/md", "drivers/nvme", "drivers/scsi"),
)
# Where a kernel's list lies, beside its image.
FILE = "block-layer"
_PATIENCE_S = 600.0  # chosen: it takes a second
_MOST_STATUS = 125  # above are a shell's and env's own, and signals
_FILES = ("fs/aio.o", "fs/direct-io.o", "fs/io_uring.o", "lib/sbitmap.o")


def functions(objects: Path) -> list[str]:
    """The names of all functions of the block layer in a folder of objects, sorted. Raises
    BuildError where a build left there what is none of a kernel's.
    """
    names = (*(f"{folder}/built-in.a" for folder in _FOLDERS), *_FILES)
    files = [
        str(products.product(objects, name)) for name in names if os.path.lexists(objects / name)
    ]
    # Confined: what nm reads here was made by somebody else's makefiles.
    nm = ["nm", "--defined-only", *files]
    view = View(read=(objects, *sandbox.installation("nm")))
    try:
        listed = run(sandbox.confined(nm, view), timeout_s=_PATIENCE_S).output if files else ""
    except CommandError as exc:
        if exc.status > _MOST_STATUS:
            raise  # nm did not end by itself
        raise BuildError(
            f"the build left objects that nm cannot read:\n{tail(exc.output, 3)}",
            where=str(objects),
        ) from exc
    return sorted(_names(listed))


def of_kernel(identity: str) -> frozenset[str]:
    """The functions of the block layer of a kernel in the cache; OSError when it is gone."""
    path = cache.root() / "kernels" / identity / FILE
    return frozenset(path.read_text(errors="replace").splitlines())


def symbols(system_map: Path) -> frozenset[str]:
    """The names of all functions in a kernel's System.map; OSError when it is gone."""
    return _names(system_map.read_text(errors="replace"))


def _names(listed: str) -> frozenset[str]:
    """The functions among symbols as nm lists them, between the names of archives and objects."""
    words = (line.split() for line in listed.splitlines())
    return frozenset(fields[2] for fields in words if len(fields) == 3 and fields[1] in "tTwW")


def beside(
    reference: Collection[str],
    reference_symbols: Collection[str],
    kernel_functions: Collection[str],
    kernel_symbols: Collection[str],
) -> frozenset[str]:
    """Those of a kernel's functions that count as the block layer, beside a reference.

    reference and kernel_functions are the lists of the two kernels, the symbols all functions of
    each. What the reference has belongs where it belongs there, also when the compiler named a part
    or a copy of it anew (``.isra.0``, ``.cold``). Only of a function that is new the kernel's own
    list decides.
    """
    stems, known_stems = set(map(_stem, reference)), set(map(_stem, reference_symbols))

    def counts(name: str) -> bool:
        if name in reference_symbols:
            return name in reference
        return _stem(name) in stems if _stem(name) in known_stems else name in kernel_functions

    return frozenset(name for name in kernel_symbols if counts(name))


def _stem(name: str) -> str:
    """A function's name in the source: the compiler adds what it made of it behind a dot."""
    return name.partition(".")[0]
