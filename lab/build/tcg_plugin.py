# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's TCG plugins, compiled at first use for the QEMU at hand."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.base import cache
from lab.base.errors import LabError
from lab.base.process import CommandError, run
from lab.base.system import PACKAGE, QEMU
from lab.inputs.terms import Engine

# The agent calls it to end a phase; nothing else in a guest does.
MARKER = "__x64_sys_sethostname"
# Every I/O of a disk goes through it once.
PER_IO = "submit_bio"
# A plugin names one version of the interface, and QEMU refuses one that it does not support: 7.2
# wants 1, 10.0 has 4. No header with the number is installed, so they are tried; 9 leaves room.
_NEWEST = 9
_FLAGS = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True)
class Plugin:
    """A plugin's sources, and the first version of QEMU's interface that it is written for."""

    folder: Path
    interface: int = 1

    @property
    def sources(self) -> list[Path]:
        """Its C files, sorted."""
        return sorted(self.folder.glob("*.c"))


PLUGINS = {
    Engine.ICOUNT: Plugin(PACKAGE / "build/insns"),
    # qemu_plugin_insn_data() copies since version 3 (QEMU's include/qemu/qemu-plugin.h).
    Engine.SIM: Plugin(PACKAGE / "build/sim", interface=3),
}


def compiled(emulator: str) -> Mapping[Engine, Path]:
    """The plugins that this host's QEMU takes, by the engines that need them.

    QEMU has to take plugins at all. Without a compiler there are none.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        return {}
    found = {engine: _compiled(compiler, own, emulator) for engine, own in PLUGINS.items()}
    return {engine: path for engine, path in found.items() if path}


def _compiled(compiler: str, plugin: Plugin, emulator: str) -> Path | None:
    """A plugin for QEMU; None when it is too old for it.

    Raises LabError when it compiles for no interface version that this QEMU takes.
    """
    files = sorted(plugin.folder.iterdir())
    target = cache.root() / "plugins" / cache.key(*map(cache.file_hash, files), emulator)
    path = target / f"{plugin.folder.name}.so"
    if path.exists():
        return path
    refusal = ""
    for interface in range(plugin.interface, _NEWEST + 1):
        with cache.building(target) as folder:
            built = ["-o", str(folder / path.name), *map(str, plugin.sources)]
            run([compiler, *_FLAGS, f"-DPLUGIN_API={interface}", *built])
        refusal = _refusal(path)
        if not refusal:
            return path
        cache.remove(target)
    if plugin.interface > 1:
        return None
    raise LabError(f"this QEMU does not load the plugin: {refusal}", where=str(plugin.folder))


def _refusal(plugin: Path) -> str:
    """What QEMU says against the plugin; empty when it loads it."""
    argv = [QEMU, "-M", "none", "-display", "none", "-nodefaults", "-monitor", "stdio"]
    try:
        run([*argv, "-plugin", f"{plugin},out=/dev/null"], stdin="quit\n", timeout_s=30)
    except CommandError as exc:
        return exc.output.strip().splitlines()[-1]
    return ""
