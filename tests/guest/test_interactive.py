# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest to type at: the steps of the cell up to the workload, and a shell of its own."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import guests as fakes
import pytest

from lab.base import sandbox
from lab.guest import interactive
from lab.guest.qemu_command import Machine
from lab.inputs.terms import Engine
from lab.measure.cell import Task
from lab.measure.job import resolve

SHELL = Path(interactive.__file__).with_name("shell")
needs_busybox = pytest.mark.skipif(not shutil.which("busybox"), reason="busybox is not installed")


def test_the_steps_before_the_workload_are_carried_out_and_its_files_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    booted: list[list[str]] = []
    monkeypatch.setattr(interactive, "converse", booted.append)
    monkeypatch.setattr(interactive, "_pack", lambda machine, archive: None)
    monkeypatch.setattr(sandbox, "confined", lambda argv, view: argv)
    task = Task(cell=fakes.cell("nullb_mq", "bfq"), kernel=fakes.kernel("k"))
    job = resolve(task, fakes.checked_testbed(task.kernel, Engine.TCG))
    interactive.talk(job.at(tmp_path), job.orders)
    with tarfile.open(fileobj=io.BytesIO((tmp_path / "cell.tar").read_bytes())) as orders:
        plan = orders.extractfile("plan")
        assert plan
        steps = plan.read().decode().splitlines()
        assert "fio.fio" in orders.getnames()
    assert "scheduler bfq" in steps
    assert not any(step.startswith(("phase", "fio")) for step in steps)
    (argv,) = booted
    assert argv[argv.index("-serial") + 1] == "mon:stdio"
    assert "rdinit=/shell" in argv[argv.index("-append") + 1].split()


def test_a_new_init_comes_after_the_guests_root(tmp_path: Path) -> None:
    task = Task(cell=fakes.cell(), kernel=fakes.kernel("k"))
    job = resolve(task, fakes.checked_testbed(task.kernel, Engine.TCG))
    machine: Machine = job.at(tmp_path)
    machine.guest.folder.mkdir(parents=True)
    machine.guest.initramfs.write_bytes(b"root" * 128)
    interactive._pack(machine, tmp_path / "initramfs.cpio")
    packed = (tmp_path / "initramfs.cpio").read_bytes()
    assert packed.startswith(b"root" * 128 + b"070701")
    assert SHELL.read_bytes() in packed


@needs_busybox
def test_it_takes_all_of_the_agent_but_its_end() -> None:
    subprocess.run(["busybox", "sh", "-n", str(SHELL)], check=True)
    agent = SHELL.with_name("agent").read_text()
    assert agent.count("\nprepare\n") == 1
    assert "sed '/^prepare$/,$d' /init" in SHELL.read_text()
