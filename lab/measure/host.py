# SPDX-License-Identifier: GPL-2.0-or-later
"""Facts about this machine, and which engines work on it, each checked by booting a guest."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lab.base import cache, sandbox, system
from lab.base.errors import GuestError, LabError
from lab.base.process import run
from lab.base.progress import Progress
from lab.build.guest_root import GuestRoot
from lab.build.kernel import Kernel
from lab.guest import boot, retries
from lab.guest.orders import Orders
from lab.guest.qemu_command import Machine
from lab.inputs import machine_model
from lab.inputs.terms import Engine
from lab.inputs.topology import Disk, Topology

_LEAST_QEMU = ".".join(map(str, system.MIN_QEMU))
_FIRMWARE = ("bios-256k.bin", "linuxboot_dma.bin", "pvh.bin")
# Chosen. On an idle host a guest came up in 3.4 s under TCG and in 4.5 s under exact; 120 s leave
# room for a busy one. KVM is faster where it works; where it does not, all wait for its deadline.
_KVM_S = 20.0
_TCG_S = 120.0
# A guest without a disk.
PROBE = Topology(
    title="the smallest guest",
    hw_queues=1,
    memory_mib=1024,
    holds_data=False,
    disk=Disk(by="name", value="none"),
)


@dataclass(frozen=True)
class Facts:
    """What this machine has; memory and disk in GiB.

    qemu is the first line of `qemu --version`. emulator names everything of QEMU that a count
    depends on: version, build and firmware. sandbox is what confines builds and guests, and why
    nothing better does.
    """

    cpus: int
    cpu_model: str
    memory_gib: float
    disk_free_gib: float
    system: str
    host_kernel: str
    compiler: str
    qemu: str
    plugins: bool
    emulator: str
    sandbox: str = ""

    @property
    def qemu_version(self) -> tuple[int, ...]:
        """The version as numbers, such as (10, 0, 2)."""
        return system.version_in(self.qemu)


@dataclass(frozen=True)
class EngineReport:
    """Whether an engine works here, and how that was found out."""

    engine: Engine
    works: bool
    reason: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Report:
    """Everything ``lab doctor`` says."""

    facts: Facts
    engines: tuple[EngineReport, ...] = ()

    def works(self, engine: Engine) -> bool:
        """Whether an engine was checked to work."""
        return any(report.works for report in self.engines if report.engine is engine)

    def best_wall_clock(self) -> Engine:
        """KVM where it was checked to work, else multi-threaded TCG."""
        return Engine.KVM if self.works(Engine.KVM) else Engine.TCG

    def require(self, engine: Engine) -> None:
        """Raise LabError with the reason when an engine does not work here."""
        for report in self.engines:
            if report.engine is engine and not report.works:
                raise LabError(
                    f"the engine {engine} does not work on this machine: {report.reason}",
                    hint="`lab doctor` shows which engines do",
                )


def facts() -> Facts:
    """Look at this machine. Raises LabError when QEMU or the compiler is missing."""
    qemu = run([system.QEMU, "--version"]).output.splitlines()[0]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Facts(
        cpus=os.cpu_count() or 1,
        cpu_model=cpu_model(),
        memory_gib=memory / 2**30,
        disk_free_gib=shutil.disk_usage(cache.make_folder(cache.root())).free / 2**30,
        system=_system(),
        host_kernel=platform.release(),
        compiler=run(["gcc", "--version"]).output.splitlines()[0],
        qemu=qemu,
        plugins="-plugin" in run([system.QEMU, "--help"]).output,
        emulator=f"{qemu}; firmware {_firmware()}",
        sandbox=sandbox.description(),
    )


def unchecked() -> Report:
    """What is known of this machine before any engine was checked: all that may work do."""
    kvm = os.access(system.KVM, os.R_OK | os.W_OK)
    why = "" if kvm else f"{system.KVM} cannot be opened"
    engines = tuple(EngineReport(engine, engine is not Engine.KVM or kvm, why) for engine in Engine)
    # Experiments ask for the number of CPUs only.
    return Report(Facts(os.cpu_count() or 1, "", 0, 0, "", "", "", "", True, ""), engines)


def identity() -> str:
    """An id for this machine: wall-clock numbers of different hosts are never mixed."""
    machine_id = Path("/etc/machine-id")
    name = machine_id.read_text().strip() if machine_id.exists() else platform.node()
    return cache.key(name, cpu_model(), os.cpu_count())


def examine(
    host_facts: Facts,
    kernel: Kernel,
    guest: GuestRoot,
    plugin: Path | None,
    progress: Progress,
    *,
    fresh: bool = False,
) -> Report:
    """Check each engine by booting kernel, unless that was done since this host was booted.

    KVM may be refused for as long as that. Emulated engines work everywhere: one that did not come
    up met a bad moment of the host, and is asked again.
    """
    identity = cache.key(host_facts.qemu, kernel.id, guest.id, str(plugin), host_facts.sandbox)
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    record = cache.root() / "host" / f"{boot_id}-{identity}.json"
    known = None if fresh else cache.read(record, _reports)
    kept = {
        report.engine: report
        for report in known or ()
        if report.works or report.engine is Engine.KVM
    }
    reports = [
        kept.get(engine) or check_engine(engine, kernel, guest, progress, plugin)
        for engine in Engine
    ]
    if reports != known:
        cache.write_atomically(record, json.dumps([asdict(report) for report in reports], indent=1))
    return Report(host_facts, tuple(reports))


def _reports(rows: list[dict[str, Any]]) -> list[EngineReport]:
    return [EngineReport(**{**row, "engine": Engine(row["engine"])}) for row in rows]


def check_engine(
    engine: Engine,
    kernel: Kernel,
    guest: GuestRoot,
    progress: Progress,
    plugin: Path | None = None,
) -> EngineReport:
    """Boot a guest of two vCPUs to its agent and say whether it came up.

    The deterministic engines' clock is the plugin.
    """
    if obstacle := _obstacle(engine, plugin):
        return EngineReport(engine, False, obstacle)
    deadline = _KVM_S if engine is Engine.KVM else _TCG_S
    folder = cache.root() / "probe" / engine
    machine = Machine(kernel, guest, PROBE, engine, folder)
    if engine.deterministic:
        model = machine_model.get(machine_model.DEFAULT)
        clock = model.options(PROBE.cpus) if engine.simulated else machine_model.counting()
        machine = replace(machine, plugin=plugin, plugin_options=clock)
    orders = Orders(("phase checked",), {"boot": deadline, "agent": deadline, "checked": deadline})
    with (
        cache.lock(cache.root() / "probe" / "lock", progress, "checking an engine"),
        progress.step(f"checking the engine {engine} (deadline {deadline:.0f} s)"),
    ):
        cache.remove(folder)
        try:
            done = retries.steadily(lambda: boot.run(machine, orders))
        except GuestError as exc:
            return EngineReport(engine, False, _failure(machine, exc, deadline))
    if engine is Engine.KVM and "Hypervisor detected: KVM" not in machine.console.read_text():
        return EngineReport(engine, False, "QEMU fell back to TCG")
    took = sum(done.phases_s.values())
    return EngineReport(engine, True, f"booted to the agent in {took:.1f} s", took)


def _failure(machine: Machine, error: GuestError, deadline: float) -> str:
    """Why a probe did not come up, in one line."""
    printed = machine.console.read_text(errors="replace") if machine.console.exists() else ""
    complaint = next((line for line in printed.splitlines() if "error:" in line), "")
    opens = "/dev/kvm opens, but " if machine.engine is Engine.KVM else ""
    if error.outcome == "died" and complaint:
        return f"{opens}QEMU gives up: {complaint.partition('error:')[2].strip()}"
    if not any(line.startswith("[") for line in printed.splitlines()):
        return f"{opens}a guest's kernel printed nothing within {deadline:.0f} s"
    return opens + error.what


def _obstacle(engine: Engine, plugin: Path | None) -> str | None:
    """Why an engine cannot work, as far as that is known without booting."""
    if engine.deterministic and platform.machine() != "x86_64":
        return "its clock stands in for the TSC of an x86-64 host only"
    if engine.deterministic and not plugin:
        return f"no compiler, or a QEMU before {_LEAST_QEMU} or without plugins"
    if engine is Engine.KVM:
        if not system.KVM.exists():
            return "there is no /dev/kvm"
        if not os.access(system.KVM, os.R_OK | os.W_OK):
            return "no permission to open /dev/kvm"
    return None


def cpu_model() -> str:
    """The processor, as the kernel names it; "unknown" where it does not."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _firmware() -> str:
    """An id for the firmware that starts a guest: its instructions count, too."""
    folders = run([system.QEMU, "-L", "help"]).output.split()
    paths = [Path(folder, name) for name in _FIRMWARE for folder in folders]
    return cache.key([cache.file_hash(path) for path in paths if path.exists()])


def chosen(report: Report, wanted: Engine | None) -> Engine:
    """The engine a user asked for, or the best wall-clock one; raises when it does not work."""
    engine = wanted or report.best_wall_clock()
    report.require(engine)
    return engine


def lines(report: Report) -> Sequence[str]:
    """The report as text, one fact a line."""
    host = report.facts
    enough = (
        "enough for every engine"
        if host.qemu_version >= system.MIN_QEMU
        else f"exact and sim need {_LEAST_QEMU}"
    )
    rows = [
        f"system    {host.system}, kernel {host.host_kernel}",
        f"CPUs      {host.cpus} x {host.cpu_model}",
        f"memory    {host.memory_gib:.1f} GiB",
        f"disk      {host.disk_free_gib:.1f} GiB free in {cache.root()}",
        f"compiler  {host.compiler}",
        f"QEMU      {'.'.join(map(str, host.qemu_version))} ({enough})",
        f"plugins   {'QEMU loads TCG plugins' if host.plugins else 'this QEMU has no TCG plugins'}",
        f"sandbox   {host.sandbox}",
    ]
    for row in report.engines:
        rows.append(f"{row.engine:<9} {'works' if row.works else 'REFUSED'}: {row.reason}")
    return rows
