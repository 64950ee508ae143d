# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the lab's files lie, and what of this system its set-up and its engines ask."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from lab.base import places
from lab.base.process import run

PACKAGE = Path(__file__).resolve().parents[1]
PROJECT = PACKAGE.parent
# None where the lab is installed: then there is no Makefile, no git and no folder for results.
CHECKOUT = PROJECT if (PROJECT / "pyproject.toml").is_file() else None
# The oldest QEMU whose engines are checked (lab/measure/host.py). 10.0.2 was seen to work; a
# guest of 8.2.2 stops under the plugin, and 9 was not tried.
MIN_QEMU = (10, 0)
QEMU = "qemu-system-x86_64"
KVM = Path("/dev/kvm")
# Names the kernel source where profiles and series name Debian's.
TREE = "LAB_TREE"


def data(name: str) -> Path:
    """One of the folders that people write: configs, workloads or kernel-patches.

    They stand at the top of a checkout; a wheel has them inside of the package, where no folder is
    called by a name with a hyphen (pyproject.toml maps them).
    """
    return CHECKOUT / name if CHECKOUT else PACKAGE / "_data" / name.replace("-", "_")


def results() -> Path:
    """Where results go when nobody says: into the checkout, else the user's folder for state."""
    if CHECKOUT:
        return CHECKOUT / "results"
    base = os.environ.get("XDG_STATE_HOME") or places.home() / ".local/state"
    return Path(base).absolute() / "blocklab"


def kernel_source(written: str) -> str:
    """The kernel source to take for one that a file of the lab names: LAB_TREE's, where Debian's is
    named and that is set, for only Debian has it.
    """
    tree = os.environ.get(TREE, "")
    return tree if tree and written.startswith("debian:") else written


def which(program: str) -> str | None:
    """Where a program lies: in PATH, or in a folder that may be in root's PATH alone."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def qemu_version() -> tuple[int, ...]:
    """The installed QEMU's version; (0,) when there is none."""
    return version_in(run([QEMU, "--version"]).output) if shutil.which(QEMU) else (0,)


def version_in(printed: str) -> tuple[int, ...]:
    """The version in what a QEMU printed of itself; (0,) when there is none."""
    match = re.search(r"version (\d+(?:\.\d+)+)", printed)
    return tuple(int(part) for part in match[1].split(".")) if match else (0,)
