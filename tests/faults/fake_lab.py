# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab command in a process of its own, all real but what is built and booted.

The kernel is a small source with a make of its own, and a guest is a process that sleeps; what it
measures follows from the kernel's file alone, so that undisturbed runs are equal.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import guests
import pytest

from lab.base import cache
from lab.base.errors import GuestError
from lab.base.process import supervised
from lab.build import guest_root, tcg_plugin
from lab.build.guest_root import GuestRoot
from lab.cli import main
from lab.guest.time_slices import Slot
from lab.inputs import kconfig, profile
from lab.inputs.terms import Engine
from lab.measure import cost, dbench, host, sampling
from lab.measure.cost import Cost
from lab.measure.host import EngineReport
from lab.measure.job import Job
from lab.measure.sampling import Sample

# What makes an I/O dearer in the fake kernel's source, and what takes its guests down.
SLOW, BROKEN = "SLOW", "BROKEN"
_GUEST_S = "0.2"
# A guest's process is told by its folder and this.
_GUEST = f'sleep {_GUEST_S}; test -e done || echo x >>"$PWD/disk.raw"'


def measure(
    job: Job,
    folder: Path,
    observe: Callable[[str], None] = lambda phase: None,
    slot: Slot | None = None,
    host_cpu: int | None = None,
) -> Sample:
    """What stands for lab.measure.sampling.measure."""
    cache.make_folder(folder)
    code = job.task.kernel.vmlinux.read_text()
    disk = folder / "disk.raw"
    try:
        with cache.disk_space_matters(folder):
            disk.write_bytes(bytes(4096))
            (folder / "console.log").write_bytes(b"up\n" * 2000)
        with supervised(["sh", "-c", _GUEST], log=folder / "qemu.log", cwd=folder) as guest:
            while (status := guest.poll()) is None:
                observe("workload")
                time.sleep(0.02)
        if status:
            raise GuestError("died", f"QEMU ended by itself ({status})", where=str(folder))
    finally:
        disk.unlink(missing_ok=True)
    if BROKEN in code:
        raise GuestError("panic", "the guest's kernel died: BUG", where=str(folder))
    found = Cost(10.0, {"blk_mq_submit_bio": 1000.0, "bfq_insert": 500.0 * (1 + code.count(SLOW))})
    with cache.disk_space_matters(folder):
        (folder / "cost.tsv").write_text(cost.to_text(found))
    total = found.kernel_total
    values = {cost.KERNEL: total, cost.BLOCK_LAYER: total, cost.USER: found.user}
    return Sample({**values, "measured_share": 50.0, "iops": total}, {"release": "fake"}, {})


def _guest_root(progress: object) -> GuestRoot:
    root = GuestRoot(cache.key("fake guest"))
    if not cache.whole(root.folder):
        with cache.building(root.folder) as folder:
            (folder / "initramfs.cpio").write_bytes(bytes(10_000))
    return root


def _plugin(version: object, emulator: str) -> Path:
    target = cache.root() / "plugins" / cache.key("fake plugin")
    if not cache.whole(target):
        with cache.building(target) as folder:
            (folder / "sim.so").write_bytes(bytes(5000))
    return target / "sim.so"


def _prove(engine: Engine, *rest: object) -> EngineReport:
    return EngineReport(engine, engine in (Engine.TCG, Engine.ICOUNT), "fake")


def run() -> None:
    """Run the lab's command line; $FAKE_TREE is the kernel, $FAKE_FRAGMENTS its fragments."""
    patch = pytest.MonkeyPatch()
    own = {"tree": os.environ["FAKE_TREE"], "kernel": ("base",)}
    quick = profile.get("quick").model_copy(update=own)
    patch.setattr(profile, "get", lambda name: quick)
    fragments = Path(os.environ["FAKE_FRAGMENTS"])
    patch.setattr(kconfig, "merge", functools.partial(kconfig.merge, folder=fragments))
    patch.setattr(cache, "require_space", lambda *asked: None)  # to meet a full disk in the work
    patch.setattr(guest_root, "build", _guest_root)
    patch.setattr(tcg_plugin, "compiled", _plugin)
    patch.setattr(host, "prove", _prove)
    patch.setattr(host, "facts", lambda: guests.report().facts)
    patch.setattr(host, "identity", lambda: "here")
    patch.setattr(dbench, "load_file", lambda: guests.LOAD)
    patch.setattr(sampling, "measure", measure)
    patch.setattr(sys, "argv", ["lab", *sys.argv[1:]])
    Path(os.environ["FAKE_BEGAN"]).touch()
    main.main()


if __name__ == "__main__":
    run()
