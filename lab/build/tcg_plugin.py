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
_INTERFACES = range(1, 10)
_FLAGS = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True)
class Plugin:
    """The folder of a plugin's sources, and the first QEMU that it is written for."""

    folder: Path
    since: tuple[int, ...] = ()


PLUGINS = {
    Engine.ICOUNT: Plugin(PACKAGE / "build/insns"),
    # qemu_plugin_insn_data() copies since version 3 of the interface, which came with QEMU 9.1
    # (include/qemu/qemu-plugin.h).
    Engine.SIM: Plugin(PACKAGE / "build/sim", since=(9, 1)),
}


def compiled(version: tuple[int, ...], emulator: str) -> Mapping[Engine, Path]:
    """The plugins for this host's QEMU, which is of that version, by the engines that need them.

    QEMU has to take plugins at all. Without a compiler there are none. Raises LabError when one
    compiles for no version of the interface that this QEMU takes.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        return {}
    return {
        engine: _compiled(compiler, own.folder, emulator)
        for engine, own in PLUGINS.items()
        if version >= own.since
    }


def _compiled(compiler: str, source: Path, emulator: str) -> Path:
    """The plugin of a folder for QEMU."""
    files = sorted(source.iterdir())
    target = cache.root() / "plugins" / cache.key(*map(cache.file_hash, files), emulator)
    path = target / f"{source.name}.so"
    if path.exists():
        return path
    refusal = ""
    sources = [str(file) for file in files if file.suffix == ".c"]
    for interface in _INTERFACES:
        with cache.building(target) as folder:
            define, output = f"-DPLUGIN_API={interface}", str(folder / path.name)
            run([compiler, *_FLAGS, define, "-o", output, *sources])
        refusal = _refusal(path)
        if not refusal:
            return path
        cache.remove(target)
    raise LabError(f"this QEMU does not load the plugin: {refusal}", where=str(source))


def _refusal(plugin: Path) -> str:
    """What QEMU says against the plugin; empty when it loads it."""
    argv = [QEMU, "-M", "none", "-display", "none", "-nodefaults", "-monitor", "stdio"]
    try:
        run([*argv, "-plugin", f"{plugin},out=/dev/null"], stdin="quit\n", timeout_s=30)
    except CommandError as exc:
        return exc.output.strip().splitlines()[-1]
    return ""
