# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab command in a process of its own, all real but what is built and booted.

The kernel is a small source with a make of its own, and a guest is a process that sleeps; what it
measures follows from the kernel's file alone, so that undisturbed runs are equal.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import guests
import pytest

from lab.base import cache
from lab.base.errors import GuestError
from lab.build import guest_root, tcg_plugin
from lab.build.guest_root import GuestRoot
from lab.cli import main
from lab.guest import boot, qemu_command
from lab.guest.orders import Orders
from lab.guest.qemu_command import Machine
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
# What a guest's process does, in the folder of its QEMU; as QEMU does it writes again for ever what
# the disk has no space for.
_WRITE = 'write() { until printf "$1" >>results; do sleep 0.05; done; }\n'
_BEGIN = "".join(f"write '@phase {name} 0\\n\\n'\n" for name in ("agent", "setup", "workload"))
_END = "test -e done || echo x >>disk.raw\nwrite '@end ok 0\\n\\n'\n"
_LEFT = ("insns", "console.log", "calls", "facts.tsv", "cost.tsv", "results")
# What FAKE_GUEST names: the usual guest, one that fills the disk, one that leaves links.
_GUESTS = {
    "": f"echo up >console.log\nsleep {_GUEST_S}\n{_END}",
    "fills": "while :; do cat /dev/zero >>insns; sleep 0.01; done\n",
    "links": f"{_END}for name in {' '.join(_LEFT)}; do ln -sf $CANARY $name; done\n",
}
_ORDERS = Orders(
    ("phase setup", "phase workload"),
    dict.fromkeys(("boot", "agent", "setup", "workload"), 120.0),
)


def _command(machine: Machine) -> list[str]:
    """What stands for QEMU, with its folder among its words."""
    script = _WRITE + _BEGIN + _GUESTS[os.environ.get("FAKE_GUEST", "")]
    canary = f"CANARY={os.environ['FAKE_CANARY']}"
    return ["env", canary, "sh", "-c", script, str(machine.folder)]


def measure(
    job: Job,
    folder: Path,
    observe: Callable[[str], None] = lambda phase: None,
    slot: Slot | None = None,
    host_cpu: int | None = None,
) -> Sample:
    """What stands for lab.measure.sampling.measure: a guest that is booted, with made-up counts."""
    code = job.task.kernel.vmlinux.read_text()
    boot.run(replace(job.machine, folder=folder, plugin=None), _ORDERS, observe)
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
    return EngineReport(engine, engine in (Engine.TCG, Engine.EXACT), "fake")


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
    patch.setattr(host, "check_engine", _prove)
    patch.setattr(host, "facts", lambda: guests.report().facts)
    patch.setattr(host, "identity", lambda: "here")
    patch.setattr(dbench, "load_file", lambda: guests.LOAD)
    patch.setattr(sampling, "measure", measure)
    patch.setattr(qemu_command, "command", _command)
    patch.setattr(sys, "argv", ["lab", *sys.argv[1:]])
    Path(os.environ["FAKE_BEGAN"]).touch()
    main.main()


if __name__ == "__main__":
    run()
