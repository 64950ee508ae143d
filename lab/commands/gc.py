# SPDX-License-Identifier: GPL-2.0-or-later
"""What cache and results may forget: nothing that a baseline, a report or present work needs.

Records and the boots that they name are kept for ever; they are small. A kernel is large and can
be built again, so only those are kept that were booted lately or that a baseline was judged with.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from lab.base import cache, durable
from lab.commands.gate_history import GateHistory
from lab.measure.boot_store import BootStore
from lab.report import record_store

_DAY_S = 86400.0
# What was used just now may be needed by a command that is between two steps.
_HOUR_S = 3600.0
# What the cache holds that can be made again: what it is called, and its folder.
_CACHED = (
    ("kernel", "kernels"),
    ("guest root", "guests"),
    ("source", "workbench"),
    ("patch series", "series"),
    ("plugin", "plugins"),
    ("library", "stubs"),
    ("benchmark", "benchmarks"),
    ("package lists", "apt"),
    ("probe", "probe"),
    ("tool", "tools"),
)


@dataclass(frozen=True)
class Garbage:
    """A folder or file that nothing needs any more, what it is, and its size in bytes."""

    kind: str
    path: Path
    size: int


def garbage(store: BootStore, history: GateHistory, days: float) -> list[Garbage]:
    """All that nothing needs, that was not used for some days and that no process uses now.

    Days are counted back from the newest boot: a clock that jumped ahead makes nothing old. Raises
    UsageError when a record cannot be read, for then what it needs is not known.
    """
    newest = store.newest()
    now = time.time() if newest is None else min(time.time(), newest)
    horizon = now - max(days * _DAY_S, _HOUR_S)
    folders = [store.folder / "runs" / run for run in record_store.known(store.folder)]
    boots: dict[str, set[str]] = {}
    for folder in folders:
        cells = record_store.load(folder).cells
        boots[folder.name] = {boot.id for cell in cells for boot in cell.boots}
    named = {boot for run_boots in boots.values() for boot in run_boots}
    unneeded = [
        _garbage("boot", store.boot_folder(boot))
        for boot in store.started_before(horizon)
        if boot not in named
    ]
    unneeded += [
        _garbage("unfinished run", path)
        for path in sorted((store.folder / "runs").glob("*"))
        if path.is_dir() and path.name not in boots and _touched(path) < horizon
    ]
    good = {boot for run in history.baseline_runs() for boot in boots.get(run, ())}
    needed = store.kernels_since(horizon) | {
        boot.kernel for boot in store.boots(sorted(good)).values()
    }
    for kind, name in _CACHED:
        unneeded += [
            _garbage(kind, path)
            for path in sorted((cache.root() / name).glob("*"))
            if path.is_dir() and path.name not in needed and _unused(path, horizon)
        ]
    unneeded += [
        Garbage("log", path, path.lstat().st_size)
        for path in sorted((cache.root() / "logs").glob("*.log"))
        if path.lstat().st_mtime < horizon
    ]
    return unneeded


def delete(unneeded: list[Garbage], store: BootStore) -> None:
    """Delete what garbage() found; of boots also what the store knows of them."""
    store.forget([entry.path.name for entry in unneeded if entry.kind == "boot"])
    for entry in unneeded:
        if entry.path.is_dir():
            cache.remove(entry.path)
        else:
            entry.path.unlink(missing_ok=True)
    store.sweep()


def _garbage(kind: str, path: Path) -> Garbage:
    files = (file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    return Garbage(kind, path, sum(file.stat().st_size for file in files))


def _unused(path: Path, horizon: float) -> bool:
    """Whether an entry of the cache was not used for long; a lock in it tells its use, too."""
    used = _touched(path) >= horizon or durable.in_use(path)
    return not used and not ((path / "lock").exists() and durable.in_use(path / "lock"))


def _touched(path: Path) -> float:
    """When a folder or what lies directly in it was last changed, in seconds since 1970."""
    return max(entry.lstat().st_mtime for entry in (path, *path.iterdir()))
