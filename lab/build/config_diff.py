# SPDX-License-Identifier: GPL-2.0-or-later
"""In which options of their configuration two kernels differ.

Both are configured with the same fragments. Where patches change a default, or select what nobody
asked for, a difference between the kernels need not be one of their code.
"""

from __future__ import annotations

import re

from lab.build.kernel import Kernel
from lab.inputs import kconfig

# What Rust compiler make found: no kernel here is compiled by one, and a sandbox may hide it.
_OF_THE_HOST = re.compile(r"CONFIG_RUSTC_")


def changed_options(before: Kernel, after: Kernel) -> tuple[str, ...]:
    """The options that differ, such as ``CONFIG_X: n -> y``; none where a kernel is not there."""
    files = [kernel.folder / "config" for kernel in (before, after)]
    if before.id == after.id or not all(file.is_file() for file in files):
        return ()
    old, new = (file.read_text(errors="replace") for file in files)
    differences = kconfig.differences(old, new)
    return tuple(option for option in differences if not _OF_THE_HOST.match(option))
