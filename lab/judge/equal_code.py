# SPDX-License-Identifier: GPL-2.0-or-later
"""Proof that two kernels do the same in a cell: no code that its guests executed differs."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from lab.build import code_diff
from lab.build.code_diff import CodeDiff, function
from lab.build.kernel import Kernel
from lab.guest.qemu_command import COUNTS, TIMES
from lab.measure import insn_counts, plugin_output
from lab.measure.boot_store import BootStore


def functions(
    kernels: tuple[Kernel, Kernel], boots: tuple[Collection[str], Collection[str]], store: BootStore
) -> int:
    """How many functions the guests of two kernels executed, from the first instruction of their
    kernel to the last; 0 where one of them may differ.

    boots are the ids of some boots of each kernel. What a function does is in its code and in the
    variables that it uses. Code that ran only while the guest booted counts, for it sets defaults.
    """
    names: set[str] = set()
    for kernel, ids in zip(kernels, boots, strict=True):
        for boot in ids:
            executed = _executed(store.boot_folder(boot), kernel.system_map)
            if executed is None:
                return 0
            names |= executed
    difference = _difference(*kernels)
    return 0 if difference.values or names & difference.functions else len(names)


@lru_cache(maxsize=256)
def _executed(boot: Path, system_map: Path) -> frozenset[str] | None:
    """The functions that a boot's guest executed, by its folder and its kernel's addresses; None
    where nothing tells, or some code is not in the kernel's image. Several findings share a boot.
    """
    record = next((boot / name for name in (COUNTS, TIMES) if (boot / name).exists()), None)
    executed = plugin_output.executed(record.read_text(errors="replace")) if record else None
    if executed is None or executed.elsewhere:
        return None
    symbols = insn_counts.symbols(system_map)
    return frozenset(function(name) for unit in executed.ranges() for name in symbols.within(*unit))


@lru_cache(maxsize=64)
def _difference(before: Kernel, after: Kernel) -> CodeDiff:
    return code_diff.compare(before.vmlinux, after.vmlinux)
