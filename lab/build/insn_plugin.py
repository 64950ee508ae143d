# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's TCG plugin, compiled at first use for the QEMU at hand."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.base import cache
from lab.base.errors import LabError
from lab.base.process import CommandError, run
from lab.base.system import PACKAGE, QEMU

SOURCE = PACKAGE / "build/insns.c"
# The agent calls it to end a phase; nothing else in a guest does.
MARKER = "__x64_sys_sethostname"
# A plugin names one version of the interface, and QEMU refuses one that it does not support: 7.2
# wants 1, 10.0 has 4. No header with the number is installed, so they are tried; 9 leaves room.
_INTERFACES = range(1, 10)
_FLAGS = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")


def compiled(emulator: str) -> Path | None:
    """The plugin for this host's QEMU, which has to take plugins; None without a compiler.

    Raises LabError when it compiles for no interface version that this QEMU takes.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        return None
    target = cache.root() / "plugins" / cache.key(cache.file_hash(SOURCE), emulator)
    plugin = target / "insns.so"
    if plugin.exists():
        return plugin
    refusal = ""
    for interface in _INTERFACES:
        with cache.building(target) as folder:
            define = f"-DPLUGIN_API={interface}"
            run([compiler, *_FLAGS, define, "-o", str(folder / "insns.so"), str(SOURCE)])
        refusal = _refusal(plugin)
        if not refusal:
            return plugin
        cache.remove(target)
    raise LabError(f"this QEMU does not load the plugin: {refusal}", where=str(SOURCE))


def _refusal(plugin: Path) -> str:
    """What QEMU says against the plugin; empty when it loads it."""
    argv = [QEMU, "-M", "none", "-display", "none", "-nodefaults", "-monitor", "stdio"]
    try:
        run([*argv, "-plugin", f"{plugin},out=/dev/null"], stdin="quit\n", timeout_s=30)
    except CommandError as exc:
        return exc.output.strip().splitlines()[-1]
    return ""
