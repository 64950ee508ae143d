# SPDX-License-Identifier: GPL-2.0-or-later
"""What is deleted, and above all what is not."""

from __future__ import annotations

import fcntl
import os
import re
import time
from pathlib import Path

import examples
import guests as fakes
import pytest

from lab.base import cache, durable
from lab.base.errors import UsageError
from lab.base.system import PROJECT
from lab.build.kernel import Kernel
from lab.commands import gc
from lab.commands.gate_history import GateHistory
from lab.inputs.terms import Engine
from lab.measure.boot_store import BootStore, Provenance
from lab.measure.cell import Task
from lab.measure.sampling import Sample
from lab.report import record_store

KERNEL = Kernel("kernel", "6.12.117", "tree", ("base",), "gcc")
TASK = Task(cell=fakes.cell(engine=Engine.EXACT), kernel=KERNEL)
OLD = 100 * 86400.0


@pytest.fixture
def store(tmp_path: Path) -> BootStore:
    return BootStore(tmp_path / "results")


def age(*paths: Path, age_s: float = OLD) -> None:
    """Let files be last changed so many seconds ago."""
    for path in paths:
        os.utime(path, (time.time() - age_s,) * 2)


def booted(store: BootStore, boot: str, kernel: str, age_s: float = OLD) -> None:
    store.boot_folder(boot).mkdir(parents=True)
    (store.boot_folder(boot) / "results").write_bytes(bytes(1000))
    origin = Provenance(boot, kernel, "q", "h")
    store.add(boot, TASK, origin, time.time() - age_s, Sample({"iops": 1.0}, {}, {}))


def cached(folder: str, name: str, age_s: float = OLD) -> Path:
    path = cache.make_folder(cache.root() / folder / name)
    (path / "content").write_bytes(bytes(500))
    age(path / "content", path, age_s=age_s)
    return path


def recorded(store: BootStore, run: str, boot: str, kernel: str) -> None:
    """A run whose only cell names a boot."""
    made = examples.matrix_run(1)
    (cell,) = made.cells
    boot_record = cell.boots[0].model_copy(update={"id": boot, "kernel": kernel})
    cells = (cell.model_copy(update={"boots": (boot_record,)}),)
    record_store.save(made.model_copy(update={"id": run, "cells": cells}), store.folder)


def garbage_names(store: BootStore, days: float = 30) -> set[str]:
    return {item.path.name for item in gc.garbage(store, GateHistory(store), days)}


def test_old_boots_go_unless_a_report_names_them(store: BootStore) -> None:
    for boot in ("named", "unnamed"):
        booted(store, boot, "k")
    booted(store, "recent", "k", age_s=60)
    recorded(store, "r1", "named", "k")
    assert garbage_names(store) == {"unnamed"}


def test_what_a_killed_lab_left_of_a_run_goes(store: BootStore) -> None:
    recorded(store, "whole", "named", "k")
    for run, age_s in (("killed", OLD), ("being-written", 60.0)):
        half = store.folder / "runs" / run / ".run.json.123"
        half.parent.mkdir()
        half.write_text("{")
        age(half, half.parent, age_s=age_s)
    assert garbage_names(store) == {"killed"}


def test_kernels_stay_that_were_booted_lately_or_belong_to_a_baseline(store: BootStore) -> None:
    for kernel in ("good", "bad", "lately"):
        booted(store, f"boot-{kernel}", kernel, age_s=60 if kernel == "lately" else OLD)
        cached("kernels", kernel)
    cached("kernels", "new", age_s=60)
    recorded(store, "r-good", "boot-good", "good")
    recorded(store, "r-bad", "boot-bad", "bad")
    history = GateHistory(store)
    history.add("next", "git:/linux@1", "r-good", "", {})
    history.add("next", "git:/linux@2", "r-bad", "dearer", {})
    assert garbage_names(store) == {"bad"}
    history.accept("next", "git:/linux@2", "worth it")
    assert garbage_names(store) == {"good"}


def test_roots_and_sources_go_when_nobody_used_them(store: BootStore) -> None:
    folders = [folder for _, folder in gc._CACHED if folder != "kernels"]
    for folder in folders:
        cached(folder, f"old-{folder}")
        cached(folder, f"new-{folder}", age_s=60)
    assert garbage_names(store) == {f"old-{folder}" for folder in folders}


# What cannot be had again for sure, or is small: sources, checks of engines, locks, keys, ccache's
# own.
KEPT = {"set-id.bpf", "ccache", "commands", "fio", "fleet", "host", "objects.git", "sources"}


def test_every_folder_of_the_cache_is_collected_or_kept_on_purpose() -> None:
    written = "".join(path.read_text() for path in (PROJECT / "lab").rglob("*.py"))
    used = set(re.findall(r'cache\.root\(\) / "([\w.-]+)"', written))
    assert used == {folder for _, folder in gc._CACHED} | {"logs"} | KEPT


def test_old_logs_go_and_are_gone(store: BootStore) -> None:
    logs = cache.make_folder(cache.root() / "logs")
    for name, age_s in (("old.log", OLD), ("new.log", 60.0)):
        (logs / name).write_text("error")
        age(logs / name, age_s=age_s)
    garbage = gc.garbage(store, GateHistory(store), 30)
    assert [(item.kind, item.path.name, item.size) for item in garbage] == [("log", "old.log", 5)]
    gc.delete(garbage, store)
    assert [path.name for path in logs.iterdir()] == ["new.log"]


def test_what_is_deleted_is_gone_and_the_rest_is_whole(store: BootStore) -> None:
    booted(store, "unnamed", "k")
    booted(store, "recent", "k", age_s=60)
    kernel = cached("kernels", "unused")
    history = GateHistory(store)
    garbage = gc.garbage(store, history, 30)
    assert {(item.kind, item.size) for item in garbage} == {("boot", 1000), ("kernel", 500)}
    gc.delete(garbage, store)
    assert not kernel.exists()
    assert not store.boot_folder("unnamed").exists()
    assert len(list(store.folder.glob("objects/*/*"))) == 1
    assert store.finished("unnamed") == []
    assert len(store.finished("recent")) == 1
    assert gc.garbage(store, history, 30) == []


def test_nothing_is_guessed_of_a_record_that_cannot_be_read(store: BootStore) -> None:
    booted(store, "boot", "k")
    recorded(store, "r1", "boot", "k")
    (store.folder / "runs/r1/run.json").write_text("{")
    with pytest.raises(UsageError):
        garbage_names(store)


def test_what_a_process_uses_or_used_lately_stays(store: BootStore) -> None:
    used, free, recent = (cached("kernels", name) for name in ("used", "free", "recent"))
    os.utime(recent)
    held = durable.hold(used)
    locked = cached("workbench", "locked")
    (locked / "lock").touch()
    age(locked / "lock", locked)
    with (locked / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert garbage_names(store, days=0) == {free.name}
    os.close(held)
    assert garbage_names(store, days=0) == {free.name, used.name, locked.name}


def test_a_clock_that_jumped_ahead_makes_nothing_old(
    store: BootStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    booted(store, "recent", "k", age_s=60)
    cached("kernels", "recent", age_s=60)
    later = time.time() + OLD
    monkeypatch.setattr(time, "time", lambda: later)
    assert garbage_names(store) == set()
