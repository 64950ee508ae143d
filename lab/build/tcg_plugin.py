# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's TCG plugin, the deterministic guests' clock, compiled at first use for the QEMU at
hand.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.base import cache
from lab.base.errors import LabError
from lab.base.process import CommandError, run
from lab.base.system import MIN_QEMU, PACKAGE, QEMU

# The agent calls it to end a phase; nothing else in a guest does.
MARKER = "__x64_sys_sethostname"
# Every I/O of a disk goes through it once.
PER_IO = "submit_bio"
# A plugin names one version of the interface, and QEMU refuses one that it does not support: 10.0
# has 4. No header with the number is installed, so they are tried, the newest first. QEMU has no
# version 9 yet.
_INTERFACES = range(9, 3, -1)
_FLAGS = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
_LIBRARIES = ("-lcapstone",)
_SOURCE = PACKAGE / "build/sim"


def compiled(version: tuple[int, ...], emulator: str) -> Path | None:
    """The plugin for this host's QEMU, which is of that version and has to take plugins at all.

    None without a compiler, or for a QEMU that is too old. Raises LabError without Capstone, and
    when it compiles for no version of the interface that this QEMU takes.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler or version < MIN_QEMU:
        return None
    files = sorted(_SOURCE.iterdir())
    target = cache.root() / "plugins" / cache.key(*map(cache.file_hash, files), emulator)
    path = target / f"{_SOURCE.name}.so"
    if cache.whole(target):
        return path
    refusal = ""
    sources = [str(file) for file in files if file.suffix == ".c"]
    for interface in _INTERFACES:
        with cache.building(target) as folder:
            define, output = f"-DPLUGIN_API={interface}", str(folder / path.name)
            _compile([compiler, *_FLAGS, define, "-o", output, *sources, *_LIBRARIES])
        refusal = _refusal(path)
        if not refusal:
            return path
        cache.remove(target)
    raise LabError(f"this QEMU does not load the plugin: {refusal}", where=str(_SOURCE))


def _compile(argv: list[str]) -> None:
    try:
        run(argv)
    except CommandError as exc:
        if "capstone" not in exc.output:
            raise
        raise LabError(
            "the plugin does not compile: Capstone is not installed",
            where=str(_SOURCE),
            hint="`make setup`, or `python3 -m lab.setup`, installs what the lab needs",
        ) from exc


def _refusal(plugin: Path) -> str:
    """What QEMU says against the plugin; empty when it loads it."""
    argv = [QEMU, "-M", "none", "-display", "none", "-nodefaults", "-monitor", "stdio"]
    try:
        run([*argv, "-plugin", f"{plugin},out=/dev/null"], stdin="quit\n", timeout_s=30)
    except CommandError as exc:
        return exc.output.strip().splitlines()[-1]
    return ""
