# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the project lies, and what of this system its set-up and its engines ask."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from lab.base.process import run

PROJECT = Path(__file__).resolve().parents[2]
# Under icount an older QEMU gives one vCPU all instructions until the next timer, and hangs when a
# second one starts (seen with 7.2, not with 10.0.2). Commit 83ecdb18eb65
# ("accel/tcg/tcg-accel-ops-rr: ensure fairness with icount") (in v8.1.0) divides them.
MIN_QEMU = (8, 1)
QEMU = "qemu-system-x86_64"


def qemu_version() -> tuple[int, ...]:
    """The installed QEMU's version; (0,) when there is none."""
    if not shutil.which(QEMU):
        return (0,)
    found = re.search(r"version (\d+(?:\.\d+)+)", run([QEMU, "--version"]).output)
    return tuple(int(part) for part in found[1].split(".")) if found else (0,)
