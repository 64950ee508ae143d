# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU command lines: pure functions from a description to arguments."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

from lab.base.system import QEMU
from lab.build.guest_root import GuestRoot
from lab.build.kernel import Kernel
from lab.inputs.terms import Engine
from lab.inputs.topology import Topology

# A built-in null_blk or scsi_debug would bring disks of its own; the topology asks for its disk.
# The agent never powers a guest off, so a panic must end it, and a hung task must be a panic.
_PARAMETERS = (
    "null_blk.nr_devices=0",
    "scsi_debug.add_host=0",
    "nokaslr",
    "panic=-1",
    "oops=panic",
    "hung_task_panic=1",
    "softlockup_panic=1",
    # A soft lockup is reported after twice this many seconds (get_softlockup_thresh() in
    # kernel/watchdog.c): a host that stalls must not look like one. 30 is chosen.
    "watchdog_thresh=30",
)
# A deterministic guest's TSC counts nanoseconds; measuring it, and the length of a jiffy with it,
# would take reading it two million times, each time a fault (lab/build/sim/host.c). One CPU is
# started after the other, without waiting ten milliseconds for it: all waiting at once takes the
# host long.
_DETERMINISTIC_PARAMETERS = (
    "tsc_early_khz=1000000",
    "lpj=4000000",
    "cpu_init_udelay=0",
    "cpuhp.parallel=0",
    # Shuffled by the numbers that follow the seed (configs/kernel/base.config).
    "page_alloc.shuffle=1",
)
# A thread for each vCPU, of which the plugin lets one run at a time.
_DETERMINISTIC = ("-accel", "tcg,thread=multi", "-rtc", "base=2024-01-01,clock=vm")
_CPU = "qemu64,+x2apic"
# The files in which the plugin tells what a deterministic guest executed: counted, or simulated.
COUNTS, TIMES = "insns", "sim"
# The one folder that QEMU may write to, in that of its machine, while it runs.
QEMU_FOLDER = "qemu"
# A deterministic guest needs entropy from somewhere, and collecting it from timing costs 0.2 G
# instructions (docs/notes/2026-11-measuring.md). RDRAND follows QEMU's -seed, so it is the same in
# every run: QEMU commits 8d8404f1564 ("util: Add qemu_guest_getrandom and associated routines") and
# 369fd5ca6681 ("target/i386: Implement CPUID_EXT_RDRAND") (in v4.1.0). A kernel that finds a
# hypervisor spins on the lock's word itself in place of queueing (virt_spin_lock() in
# arch/x86/include/asm/qspinlock.h); a machine's queues.
_DETERMINISTIC_CPU = f"{_CPU},+rdrand,-hypervisor"


# QEMU itself gives up what no guest needs (qemu(1), -sandbox). A guest executes the same.
_SECCOMP = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"


@dataclass(frozen=True)
class Machine:
    """One guest to be: everything its command line depends on.

    folder is where cell.tar and madt.aml lie and where results and console.log will, once QEMU has
    ended: before that they lie in qemu_folder, which is all that QEMU may write to. plugin is a
    deterministic guest's clock, which counts its instructions, or simulates its work, as
    plugin_options say, and starts a new phase when the guest reaches the address marker. A
    simulated guest reaches io with each I/O. called are addresses of functions whose calls the
    plugin writes down; with functions, a list of the kernel's, it follows the stacks. seed
    determines the random numbers of a deterministic guest. host_cpu is the one that QEMU has to
    itself; None leaves that to the host. With gdb QEMU waits for a debugger at the socket of that
    name in qemu_folder.
    """

    kernel: Kernel
    guest: GuestRoot
    topology: Topology
    engine: Engine
    folder: Path
    size_mib: int = 16
    backed: bool = False
    plugin: Path | None = None
    plugin_options: tuple[str, ...] = ()
    marker: int = 0
    io: int = 0
    called: tuple[int, ...] = ()
    functions: str = field(default="", repr=False)
    host_cpu: int | None = None
    seed: int = 1
    gdb: bool = False

    @property
    def qemu_folder(self) -> Path:
        """What QEMU may write to while it runs."""
        return self.folder / QEMU_FOLDER

    @property
    def monitor(self) -> Path:
        """The socket of QEMU's monitor; deterministic guests have none."""
        return self.qemu_folder / "qmp"

    @property
    def disk(self) -> Path:
        """The file behind a disk that keeps its data."""
        return self.qemu_folder / "disk.raw"

    @property
    def written(self) -> tuple[Path, ...]:
        """The files that QEMU writes, where they are kept."""
        console = (self.console,) if self.engine.deterministic else ()
        return (*console, self.results, self.counts, self.calls, self.stacks)

    def live(self, kept: Path) -> Path:
        """Where QEMU writes a file while it runs, by where it is kept."""
        return self.qemu_folder / kept.name

    @property
    def counts(self) -> Path:
        """Where the plugin writes what it counted of a deterministic guest."""
        return self.folder / (TIMES if self.engine.simulated else COUNTS)

    @property
    def calls(self) -> Path:
        """Where the plugin writes the calls of some functions down."""
        return self.folder / "calls"

    @property
    def stacks(self) -> Path:
        """Where the plugin writes who called whom."""
        return self.folder / "stacks"

    @property
    def functions_file(self) -> Path:
        """The list of the kernel's functions that the plugin reads for that."""
        return self.folder / "functions"

    @property
    def results(self) -> Path:
        """The result channel's file."""
        return self.folder / "results"

    @property
    def console(self) -> Path:
        """The kernel's console."""
        return self.folder / "console.log"

    @property
    def memory_mib(self) -> int:
        """Guest memory, the disk's content included where the guest's memory holds it."""
        return self.topology.memory_mib + self.topology.disk_memory_mib(self.size_mib)


def command(machine: Machine) -> list[str]:
    """The command that boots a machine: QEMU itself when deterministic, else virtme-ng."""
    return _deterministic(machine) if machine.engine.deterministic else _virtme(machine)


def kernel_parameters(machine: Machine) -> list[str]:
    """What the lab adds to the kernel command line."""
    topology = machine.topology
    parameters = [*_PARAMETERS]
    parameters += [topology.fill(p, machine.size_mib) for p in topology.kernel_parameters]
    if topology.possible_cpus > topology.cpus:
        parameters += ["acpi_apic_instance=2", f"maxcpus={topology.cpus}"]
    if machine.engine is not Engine.KVM:
        # QEMU's TSC is steady under TCG, whatever the kernel's clocksource watchdog makes of host
        # stalls; tsc=reliable keeps it away (tsc_setup() in arch/x86/kernel/tsc.c).
        parameters += ["tsc=reliable", "clocksource=tsc"]
    if machine.engine.deterministic:
        parameters += _DETERMINISTIC_PARAMETERS
    return parameters


def clock(machine: Machine) -> list[str]:
    """How a machine executes and keeps time, the processor model included."""
    if not machine.engine.deterministic:
        return ["-cpu", _CPU]
    return [*_DETERMINISTIC, "-seed", str(machine.seed), "-cpu", _DETERMINISTIC_CPU]


def devices(machine: Machine) -> list[str]:
    """Arguments for the topology's hardware and the lab's channels, the same for all engines."""
    topology = machine.topology
    arguments = ["-fw_cfg", f"name=opt/lab/cell,file={_escaped(machine.folder / 'cell.tar')}"]
    serial = "virtio-serial-pci,id=lab-serial"
    # With ioeventfd, virtio-pci's default, QEMU's main loop handles a notification when it gets to
    # it; without, the vCPU that makes it handles it at once.
    serial += ",ioeventfd=off" if machine.engine.deterministic else ""
    arguments += ["-device", serial]
    arguments += ["-chardev", f"file,id=lab,path={_escaped(machine.live(machine.results))}"]
    arguments += ["-device", "virtserialport,bus=lab-serial.0,chardev=lab,name=lab.results"]
    arguments += ["-device", "isa-debug-exit,iobase=0xf4,iosize=0x01"]
    if topology.possible_cpus > topology.cpus:
        arguments += ["-acpitable", f"file={_escaped(machine.folder / 'madt.aml')}"]
    if topology.drive:
        arguments += ["-blockdev", _drive(machine)]
    for device in topology.devices:
        arguments += ["-device", topology.fill(device, machine.size_mib)]
    return arguments


def _escaped(path: Path) -> str:
    """A path inside one of QEMU's option lists, where a comma is written twice."""
    return str(path).replace(",", ",,")


def _drive(machine: Machine) -> str:
    """The backend of QEMU's disk: a file when data must stay, else nothing that takes time."""
    if machine.backed:
        path = _escaped(machine.disk)
        return f"driver=file,node-name=disk,filename={path},cache.no-flush=on,discard=unmap"
    return f"driver=null-co,node-name=disk,size={machine.size_mib << 20},read-zeroes=on"


def _deterministic(machine: Machine) -> list[str]:
    topology = machine.topology
    append = ["console=ttyS0", "no_timer_check", *kernel_parameters(machine)]
    return [
        *_alone(machine),
        *_preload(machine),
        QEMU,
        *("-M", "q35", *clock(machine)),
        *("-smp", str(topology.cpus), "-m", f"{machine.memory_mib}M"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-sandbox", _SECCOMP),
        *("-serial", f"file:{machine.live(machine.console)}"),
        *devices(machine),
        *_debugger(machine),
        *_plugin(machine),
        *("-kernel", str(machine.kernel.vmlinux), "-initrd", str(machine.guest.initramfs)),
        *("-append", " ".join(append)),
    ]


def _debugger(machine: Machine) -> list[str]:
    return ["-S", "-gdb", "unix:gdb,server=on,wait=off"] if machine.gdb else []


def _alone(machine: Machine) -> list[str]:
    """Keeps QEMU on one CPU: its threads take turns, and a turn is given faster on one."""
    return [] if machine.host_cpu is None else ["taskset", "--cpu-list", str(machine.host_cpu)]


def _preload(machine: Machine) -> list[str]:
    """Puts the plugin between QEMU and the C library. By its name: a path may have blanks."""
    if machine.plugin is None:
        return []
    plugin = machine.plugin
    return ["env", f"LD_LIBRARY_PATH={plugin.parent}", f"LD_PRELOAD={plugin.name}"]


def _plugin(machine: Machine) -> list[str]:
    if machine.plugin is None:
        return []
    arguments = [f"out={_escaped(machine.live(machine.counts))}", f"marker={machine.marker:x}"]
    arguments += [f"io={machine.io:x}"] if machine.io else []
    if machine.called:
        addresses = "/".join(f"{address:x}" for address in machine.called)
        arguments += [f"calls={addresses}", f"called={_escaped(machine.live(machine.calls))}"]
    if machine.functions:
        arguments += [f"functions={_escaped(machine.functions_file)}"]
        arguments += [f"stacks={_escaped(machine.live(machine.stacks))}"]
    return ["-plugin", ",".join([_escaped(machine.plugin), *arguments, *machine.plugin_options])]


def _virtme(machine: Machine) -> list[str]:
    kvm = machine.engine is Engine.KVM
    options = devices(machine) + _debugger(machine) + ([] if kvm else ["-cpu", _CPU])
    options += ["-sandbox", _SECCOMP]
    options += ["-name", "lab,debug-threads=on"]  # vCPU threads that can be told from others
    # By its name alone: QEMU runs in the folder, and a socket's address holds 108 bytes.
    options += ["-qmp", f"unix:{machine.monitor.name},server=on,wait=off"]
    return [
        str(Path(sys.executable).with_name("vng")),
        *("--run", str(machine.kernel.vmlinux), "--root", str(machine.guest.root)),
        *("--force-9p", "--disable-microvm", "--verbose"),
        *(() if kvm else ("--disable-kvm",)),
        *("--cpus", str(machine.topology.cpus), "--memory", f"{machine.memory_mib}M"),
        *("--append", " ".join(kernel_parameters(machine))),
        f"--qemu-opts={shlex.join(options)}",
        *("--exec", "/bin/agent"),
    ]
