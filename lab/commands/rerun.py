# SPDX-License-Identifier: GPL-2.0-or-later
"""One boot once more: the same cell on the same kernel, its numbers beside the recorded ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from lab.base import cache
from lab.base.errors import GuestError, LabError
from lab.base.text import visible
from lab.build import kernel
from lab.guest import qemu_files
from lab.guest.qemu_command import QEMU_FOLDER
from lab.measure import sampling
from lab.measure.cell import Task
from lab.measure.job import Job, resolve
from lab.measure.recorded import Recorded
from lab.measure.session import Session

# With a debugger nobody waits for a guest that stands still.
_AT_LEISURE = 1000.0
_CONSOLE = "console.log"


@dataclass(frozen=True)
class Repeated:
    """A boot and its repetition: now has the new numbers, failure how the guest failed, if it did.

    changed says what is executed that was not then; empty when it is all the same. A guest that was
    debugged is compared with nothing: where it stood still its clock went on.
    """

    recorded: Recorded
    now: dict[str, float]
    failure: GuestError | None
    changed: str
    debugged: bool = False

    @property
    def equal(self) -> bool:
        """Whether it ended as it did, and with the same numbers, to the last digit."""
        outcome = self.failure.outcome if self.failure else "ok"
        return outcome == self.recorded.outcome and self.now == dict(self.recorded.values)


def run(recorded: Recorded, session: Session, *, console: bool, gdb: bool) -> Repeated:
    """Boot what was recorded again. Nothing is written down.

    console prints the kernel's console while it boots; gdb has QEMU wait for a debugger, and says
    what to type. Raises LabError when the kernel is gone.
    """
    cached = kernel.find(recorded.kernel)
    if cached is None:
        raise LabError(
            f"the kernel of {recorded.id} is no longer in the cache ({recorded.kernel})",
            hint="the command of its run, which the run's page names, builds it again",
        )
    functions = session.store.block_layer(recorded.id)
    task = Task(cell=recorded.cell, kernel=cached, arm=recorded.arm, block_layer=functions)
    session.progress.say(f"{recorded.arm}: {task}, kernel {cached.release} {cached.id}")
    with session.measuring([task]), cache.scratch() as folder:
        job = resolve(task, session.testbed)
        if job.refusal:
            raise LabError(f"this cannot be booted: {job.refusal}")
        changed = _changed(recorded, job)
        if gdb:
            job = _debugged(job)
            session.progress.say(
                f"QEMU waits. In another terminal:\n  gdb {cached.vmlinux} "
                f"-ex 'target remote {folder / QEMU_FOLDER / 'gdb'}' -ex continue"
            )
        watch = _Console(folder) if console else None
        try:
            sample = sampling.measure(job, folder, watch.show if watch else lambda phase: None)
            return Repeated(recorded, dict(sample.values), None, changed, debugged=gdb)
        except GuestError as exc:
            return Repeated(recorded, {}, exc, changed, debugged=gdb)
        finally:
            if watch:
                watch.show()


def text(repeated: Repeated) -> str:
    """What is equal and what is not, number by number."""
    return "\n".join(_lines(repeated)) + "\n"


def _lines(repeated: Repeated) -> Iterator[str]:
    if repeated.changed:
        yield repeated.changed
    before, now = repeated.recorded, repeated.now
    if repeated.failure:
        yield f"the guest failed: {repeated.failure.outcome}: {repeated.failure.what}"
        then = f"{before.outcome}: {before.reason}" if before.reason else before.outcome
        yield f"then it ended: {visible(then)}"
        return
    if repeated.debugged:
        yield "it came to its end; its numbers are a debugger's as well, and not compared"
        return
    if before.outcome != "ok":
        yield f"then it ended: {visible(f'{before.outcome}: {before.reason}')}"
    both = {**before.values, **now}
    differ = [m for m in sorted(both) if before.values.get(m) != now.get(m)]
    for metric in differ:
        yield f"  {metric}: {_shown(before.values.get(metric))} then, {_shown(now.get(metric))} now"
    same = len(both) - len(differ)
    if not differ:
        yield f"equal: all {same} numbers, to the last digit"
    else:
        deterministic = before.cell.engine.deterministic
        why = "" if deterministic else ", as numbers of the host's clock do"
        yield f"{len(differ)} of {same + len(differ)} numbers differ{why}"


def _shown(value: float | None) -> str:
    return "nothing" if value is None else repr(value)


def _changed(recorded: Recorded, job: Job) -> str:
    """That something else is executed than then, which explains other numbers."""
    if not recorded.key or recorded.key == job.key:
        return ""
    return (
        "not quite the same is booted: QEMU, its plugin, the guest's programs or the files of the "
        "cell have changed since"
    )


def _debugged(job: Job) -> Job:
    """The job with a QEMU that waits for a debugger, and all the time in the world."""
    patience = {phase: _AT_LEISURE * s for phase, s in job.orders.deadlines_s.items()}
    return replace(
        job,
        machine=replace(job.machine, gdb=True),
        orders=replace(job.orders, deadlines_s=patience),
    )


class _Console:
    """Prints what is new of a guest's console; what it holds does nothing to the terminal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read = 0

    def _opened(self) -> IO[bytes]:
        """The console's file, which a deterministic guest's QEMU writes in its own folder."""
        try:
            return qemu_files.opened(self._folder / QEMU_FOLDER / _CONSOLE)
        except FileNotFoundError:
            return qemu_files.opened(self._folder / _CONSOLE)

    def show(self, phase: str = "") -> None:
        """Print what has come since the last time, in whole lines while it goes on."""
        try:
            with self._opened() as stream:
                stream.seek(self._read)
                piece = stream.read()
        except FileNotFoundError:
            return
        whole = piece if not phase else piece[: piece.rfind(b"\n") + 1]
        self._read += len(whole)
        if whole:
            sys.stdout.write(visible(whole.decode(errors="replace").replace("\r\n", "\n")))
            sys.stdout.flush()
