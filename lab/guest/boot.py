# SPDX-License-Identifier: GPL-2.0-or-later
"""Run one guest to its end and collect what it sent, with a deadline for every phase."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import IO

from lab.base import cache, sandbox
from lab.base.errors import GuestError
from lab.base.process import Process, supervised, tail_of_file
from lab.guest import (
    affinity,
    console,
    host_noise,
    lost_interrupt,
    qemu_command,
    qemu_files,
    qemu_inputs,
)
from lab.guest.channel import Reader, Record, too_much
from lab.guest.orders import Orders, facts
from lab.guest.qemu_command import Machine
from lab.guest.time_slices import Slot
from lab.inputs.terms import Engine

# What a killed process ends with, and bubblewrap when its program was killed.
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
# The phase in which a guest is measured, and so the one in which the host must not disturb it.
MEASURED = "workload"
# These are chosen. Polling limits how exactly phases are timed, a few seconds each at least;
# the host's noise is read so often that little of the measured phase is missed at its end; and a
# guest that has sent its last record has nothing to do but exit.
_POLL_S = 0.05
_LISTEN_S = 0.5
# Chosen: longer than most guests take to boot, and far shorter than a deadline.
_EXAMINE_S = 15.0
_CPU_TIME_S = 1.0
_EXIT_S = 30.0
# A deterministic guest's deadline is CPU time that QEMU had: how long a busy host takes to give it
# that is not the guest's matter. But a QEMU that does nothing at all must end as well; 10 is
# chosen.
_PATIENCE = 10.0
# Of what else a guest makes the host write. Chosen: a console has 20 KiB, what the plugin counts of
# 128 jobs 1.3 MiB.
_MAX_CONSOLE = 64 << 20
_MAX_COUNTS = 256 << 20
_PIECE = 1 << 20
# A guest ends where less is free on the disk. Chosen: no honest one writes so much in a moment.
_LEAST_FREE = 16 << 20
# Of the words of a step that failed, and of its log.
_SHOWN = 600


@dataclass(frozen=True)
class Boot:
    """A guest that did all its steps.

    facts are what it reported of itself, outputs its files by name, phases_s the host's seconds
    from entering a phase to the next, noise how the host disturbed the phase ``workload``,
    complaints what its kernel complained of, each kind once.
    """

    facts: Mapping[str, str]
    outputs: Mapping[str, str]
    phases_s: Mapping[str, float]
    noise: Mapping[str, float] = field(default_factory=dict)
    complaints: tuple[str, ...] = ()


@dataclass
class _Watch:
    """The state of a running guest, kept up to date by its records."""

    orders: Orders
    read_noise: Callable[[], host_noise.Reading | None]
    phase: str = "boot"
    readings: list[host_noise.Reading] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)
    phases_s: dict[str, float] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    failure: Record | None = None
    offence: GuestError | None = None
    ended: bool = False
    lost: str = ""
    examined: float = field(default_factory=time.monotonic)
    cpu_time_read: float = 0.0

    def take(self, record: Record) -> None:
        if self.ended:
            raise GuestError("corrupt", "the guest sent more after its end")
        if record.kind == "phase":
            self.begin(record.name)
        elif record.kind == "file":
            if record.name not in self.orders.outputs:
                raise GuestError(
                    "corrupt", f"the guest sent a file that nobody asked for: {record.name}"
                )
            self.outputs[record.name] = record.text
        elif record.kind == "fail":
            self.failure = record
        elif record.kind == "end":
            self.enter("exit")
            self.ended = True

    def listen(self) -> None:
        """Read the host's noise now and then while the guest is measured.

        The last reading counts: at the very end QEMU and its threads are gone.
        """
        if self.phase != MEASURED:
            return
        due = not self.readings or time.monotonic() - self.readings[-1].at > _LISTEN_S
        if due and (reading := self.read_noise()):
            self.readings = [*self.readings[:1], reading]

    def to_examine(self, *, late: bool) -> bool:
        """Whether it is time to look for a lost interrupt: now and then until the guest is
        measured, a last time when that begins, and when it is late before.

        Not later: QEMU's monitor serves one client at a time, and then that is the guest's slot.
        """
        if self.done or self.examined == inf:
            return False
        last = late or self.phase == MEASURED
        due = last or time.monotonic() - self.examined > _EXAMINE_S
        if due:
            self.examined = inf if last else time.monotonic()
        return due

    def begin(self, phase: str) -> None:
        if phase not in self.orders.deadlines_s:
            raise GuestError("corrupt", f"the guest began a phase that nobody asked for: {phase}")
        if phase == self.phase or phase in self.phases_s:
            raise GuestError("endless", f"the guest began the phase {phase} once more")
        self.enter(phase)

    def enter(self, phase: str) -> None:
        now = time.monotonic()
        self.phases_s[self.phase] = self.phases_s.get(self.phase, 0.0) + now - self.since
        self.phase, self.since = phase, now

    @property
    def done(self) -> bool:
        return self.ended or self.failure is not None or self.offence is not None


def run(
    machine: Machine,
    orders: Orders,
    observe: Callable[[str], None] = lambda phase: None,
    slot: Slot | None = None,
) -> Boot:
    """Boot a machine, let it carry out orders, and return what it sent.

    observe is called with the current phase many times a second; what it raises ends the guest.
    With a slot the guest is measured in time slices, and its deadline counts only its own slices.

    Raises GuestError: ``panic`` when the kernel died, ``hang`` when it is stuck or a phase passed
    its deadline, ``failed`` when a step failed, ``died`` when QEMU ended by itself, ``lost`` when
    it lost an interrupt of the guest, ``corrupt`` when the result channel holds what the agent does
    not write for these orders, ``flooded`` when the guest makes the host write too much,
    ``endless`` when it begins a phase again. Console and command line stay in machine.folder in any
    case. Raises LabError when the disk is full: of that no kernel is guilty.
    """
    folder = cache.make_folder(machine.folder)
    argv, log = qemu_command.command(machine), folder / qemu_inputs.log_name(machine)
    with cache.disk_space_matters(folder):
        qemu_inputs.write(machine, orders, argv)
    try:
        command = sandbox.confined(argv, qemu_inputs.view(machine))
        with contextlib.ExitStack() as stack:
            tcg = machine.engine is Engine.TCG
            with affinity.on_one_cpu() if tcg else contextlib.nullcontext():
                guest = stack.enter_context(supervised(command, log=log, cwd=machine.qemu_folder))
            watch = _Watch(orders, lambda: _noise(guest, slot))
            _follow(guest, machine, watch, observe, slot)
            if watch.done and not watch.offence:
                guest.wait(_EXIT_S)
                watch.offence = _flood(machine)
            status = guest.poll()
    finally:
        names = [path.name for path in machine.written]
        foreign = qemu_files.keep(machine.qemu_folder, folder, names)
    watch.offence = watch.offence or foreign
    _judge(machine, watch, status)
    noise = host_noise.signals(*watch.readings) if len(watch.readings) > 1 else {}
    complaints = console.complaints(_console(machine))
    return Boot(facts(watch.outputs), watch.outputs, watch.phases_s, noise, complaints)


def _noise(guest: Process, slot: Slot | None) -> host_noise.Reading | None:
    """The host's noise; None once a guest of the round has ended: its CPU time can't be read."""
    if slot is None:
        return host_noise.reading(guest.members())
    company = slot.company()
    reading = host_noise.reading(guest.members(), company) if company else None
    return reading if slot.company() == company else None


def _follow(
    guest: Process,
    machine: Machine,
    watch: _Watch,
    observe: Callable[[str], None],
    slot: Slot | None,
) -> None:
    """Read records until the guest is done, has ended, is late or has lost an interrupt.

    Raises LabError when the disk is full, where QEMU waits for ever for its write to succeed.
    """
    reader, on_one_cpu = Reader(), machine.engine is Engine.TCG
    with qemu_files.opened(machine.live(machine.results)) as stream:
        while not watch.done:
            alive = guest.poll() is None
            watch.offence = _read(stream, reader, watch) or _flood(machine)
            if on_one_cpu and watch.phase != "boot":
                on_one_cpu = False
                affinity.on_all_cpus(guest.members())
            late = _late(guest, machine, watch, slot)
            cache.require_free(machine.folder, _LEAST_FREE)
            if late:  # a quota shows nowhere else
                cache.require_writable(machine.folder)
            # A deterministic guest has no monitor.
            if alive and not machine.engine.deterministic and watch.to_examine(late=late):
                watch.lost = lost_interrupt.lost_interrupt(machine.monitor)
            if slot:
                measured = watch.phase == MEASURED and not watch.done
                slot.follow(guest, machine.monitor, measured=measured)
            if not machine.engine.deterministic:  # such a guest cannot notice the host's noise
                watch.listen()
            observe(watch.phase)
            if late or watch.lost or not alive:
                return
            time.sleep(_POLL_S)


def _read(stream: IO[bytes], reader: Reader, watch: _Watch) -> GuestError | None:
    """Take all records that have come; the error of a guest that sent what the agent does not."""
    try:
        while not watch.done and (piece := stream.read(_PIECE)):
            for record in reader.feed(piece):
                watch.take(record)
    except GuestError as exc:
        return exc
    return None


def _flood(machine: Machine) -> GuestError | None:
    """The error of a guest that made the host write too much beside its records."""
    limits = {machine.folder / qemu_inputs.log_name(machine): _MAX_CONSOLE}
    limits |= {machine.live(machine.console): _MAX_CONSOLE}
    files = (machine.counts, machine.calls, machine.stacks)
    limits |= {machine.live(path): _MAX_COUNTS for path in files}
    for path, limit in limits.items():
        if qemu_files.size(path) > limit:
            return too_much(path.name, limit)
    return None


def _late(guest: Process, machine: Machine, watch: _Watch, slot: Slot | None) -> bool:
    """Whether the guest's phase has passed its deadline."""
    deadlines_s = watch.orders.deadlines_s
    allowed = deadlines_s.get(watch.phase, deadlines_s["boot"])
    ran_s = slot.ran_s if slot else None
    waited = time.monotonic() - watch.since if ran_s is None else ran_s
    if waited <= allowed or not machine.engine.deterministic:
        return waited > allowed
    # All processes of the host are read for that.
    if time.monotonic() - watch.cpu_time_read < _CPU_TIME_S:
        return False
    watch.cpu_time_read = time.monotonic()
    had = sum(map(host_noise.cpu_seconds, guest.members()))
    return had > allowed or waited > _PATIENCE * allowed


def _judge(machine: Machine, watch: _Watch, status: int | None) -> None:
    """Raise the GuestError that fits a guest which did not reach the end of its plan; status is
    QEMU's, None while it runs.
    """
    if watch.ended and not watch.offence:
        return
    text = _console(machine)
    where = str(machine.console)
    cause = console.death(text)
    stuck = cause is None or console.is_hang(cause)
    if watch.lost and stuck:
        raise GuestError(
            "lost",
            f"QEMU lost an interrupt of the guest in phase {watch.phase}: {watch.lost}",
            where=where,
        )
    if cause:
        outcome, fate = ("hang", "is stuck") if stuck else ("panic", "died")
        raise GuestError(
            outcome,
            f"the guest's kernel {fate} in phase {watch.phase} ({console.kind(cause)}): {cause}",
            where=where,
        )
    if watch.offence:
        offence = watch.offence
        what = f"{offence.what} (phase {watch.phase})"
        raise GuestError(offence.outcome, what, where=str(machine.folder))
    if watch.failure:
        what = _failed_step(watch, text, machine.topology.log_prefixes)
        raise GuestError("failed", what, where=str(machine.folder))
    waited = time.monotonic() - watch.since
    if status is not None:
        ending = tail_of_file(machine.folder / qemu_inputs.log_name(machine), 5)
        if status in _KILLED:
            raise GuestError(
                "killed",
                f"somebody killed QEMU in phase {watch.phase}",
                where=str(machine.folder / "command"),
                hint="`dmesg` says whether the host's memory ended",
            )
        raise GuestError(
            "died",
            f"QEMU ended by itself in phase {watch.phase}; its log ends:\n{ending}",
            where=str(machine.folder / "command"),
        )
    fate = (
        "did not come up" if watch.phase == "boot" else f"did not get through phase {watch.phase}"
    )
    raise GuestError(
        "hang",
        f"the guest {fate} within {waited:.0f} s; "
        f"its last console line: {console.last_line(text) or 'none'}",
        where=where,
    )


def _failed_step(watch: _Watch, text: str, prefixes: Sequence[str]) -> str:
    """Which step failed, what it printed, and what the kernel complained of."""
    assert watch.failure is not None
    said = f"the guest failed in phase {watch.phase}: {watch.failure.text[:_SHOWN]}"
    if log := watch.outputs.get(f"{watch.failure.name}.log", "").strip():
        said += f"\n    {log[-_SHOWN:]}"
    complaints = (f"{console.kind(line)}: {line}" for line in console.complaints(text))
    own = console.lines_of(text, prefixes) if watch.phase == "setup" else ()
    return "\n    ".join([said, *complaints, *own])


def driver_lines(machine: Machine) -> tuple[str, ...]:
    """What the kernel of a guest that has ended said of its disk."""
    return console.lines_of(_console(machine), machine.topology.log_prefixes)


def _console(machine: Machine) -> str:
    if not machine.console.exists():
        return ""
    with qemu_files.opened(machine.console) as stream:
        return stream.read(_MAX_CONSOLE).decode(errors="replace")
