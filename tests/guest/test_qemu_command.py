# SPDX-License-Identifier: GPL-2.0-or-later
"""Properties of the command lines that boot guests."""

from __future__ import annotations

import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from lab.base import toml
from lab.base.system import QEMU
from lab.build.guest_root import GuestRoot
from lab.build.kernel import Kernel
from lab.guest import qemu_command
from lab.guest.qemu_command import Machine
from lab.inputs import topology
from lab.inputs.terms import Engine
from lab.inputs.topology import Disk, Topology

KERNEL = Kernel("k", "6.12.117", "tree", ("base",), "gcc; ld")
TOPOLOGIES = toml.names(topology.FOLDER)
PLAIN = Topology(
    title="plain", hw_queues=1, holds_data=True, drive=True, disk=Disk(by="name", value="x")
)


def machine(of: str | Topology = PLAIN, engine: Engine = Engine.TCG, **changes: object) -> Machine:
    """A machine, by default the plain one."""
    hardware = topology.get(of) if isinstance(of, str) else of
    plain = Machine(KERNEL, GuestRoot("g"), hardware, engine, Path("/folder"))
    return replace(plain, **changes)  # type: ignore[arg-type]


def after(argv: list[str], option: str) -> list[str]:
    """The values that follow an option wherever it stands."""
    return [value for name, value in pairwise(argv) if name == option]


def kernel_line(argv: list[str]) -> list[str]:
    """The kernel parameters of either kind of command."""
    (line,) = after(argv, "-append") or after(argv, "--append")
    return line.split()


def qemu_options(argv: list[str]) -> list[str]:
    """What QEMU itself is given, directly or through virtme-ng's shell."""
    bundle = [word for word in argv if word.startswith("--qemu-opts=")]
    return shlex.split(bundle[0].partition("=")[2]) if bundle else argv


@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_every_topology_boots_on_every_engine(name: str, engine: Engine) -> None:
    argv = qemu_command.command(machine(name, engine))
    assert all(argv)
    assert not any("{" in word or "}" in word for word in argv)
    assert "chardev=lab,name=lab.results" in " ".join(argv)
    assert "name=opt/lab/cell,file=/folder/cell.tar" in " ".join(argv)


@pytest.mark.parametrize("engine", [Engine.EXACT, Engine.SIM])
def test_a_deterministic_guest_runs_on_one_cpu_of_the_host_behind_the_plugin(
    engine: Engine,
) -> None:
    plugin = Path("/with blank, comma/0123/sim.so")
    options = ("jobs=4", "levels=4:1:2:3")
    guest = machine(engine=engine, plugin=plugin, plugin_options=options, marker=0xAB, host_cpu=3)
    argv = qemu_command.command(guest)
    preload = ["env", "LD_LIBRARY_PATH=/with blank, comma/0123", "LD_PRELOAD=sim.so"]
    assert argv[: argv.index(QEMU)] == ["taskset", "--cpu-list", "3", *preload]
    escaped = "/with blank,, comma/0123/sim.so"
    out = "sim" if engine.simulated else "insns"
    arguments = f"out=/folder/qemu/{out},marker=ab,{','.join(options)}"
    assert after(argv, "-plugin") == [f"{escaped},{arguments}"]
    assert after(argv, "-accel") == ["tcg,thread=multi"]
    assert after(argv, "-icount") == []
    # The guest's TSC is the plugin's time, and it counts nanoseconds.
    assert {"tsc_early_khz=1000000", "clocksource=tsc"} <= set(kernel_line(argv))


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_an_exact_guest_is_deterministic(name: str) -> None:
    argv = qemu_command.command(machine(name, Engine.EXACT))
    assert argv[0] == QEMU
    assert after(argv, "-initrd") == [str(GuestRoot("g").initramfs)]
    assert after(argv, "-rtc") == ["base=2024-01-01,clock=vm"]
    assert {"-nodefaults", "-no-user-config", "-no-reboot"} <= set(argv)
    line = " ".join(argv)
    assert not any(word in line for word in ("9p", "virtfs", "virtiofs", "netdev", "/root "))


def test_only_a_deterministic_guest_does_without_ioeventfd() -> None:
    deterministic, open_ = (
        " ".join(qemu_command.command(machine(engine=e))) for e in (Engine.EXACT, Engine.TCG)
    )
    assert "virtio-serial-pci,id=lab-serial,ioeventfd=off" in deterministic
    assert "ioeventfd" not in open_


@pytest.mark.parametrize("engine", [Engine.TCG, Engine.KVM])
def test_wall_clock_guests_go_through_virtme_ng(engine: Engine) -> None:
    argv = qemu_command.command(machine(engine=engine))
    assert Path(argv[0]).name == "vng"
    assert after(argv, "--root") == [str(GuestRoot("g").root)]
    assert after(argv, "--run") == [str(KERNEL.vmlinux)]
    assert after(argv, "--exec") == ["/bin/agent"]
    assert "--force-9p" in argv
    assert ("--disable-kvm" in argv) == (engine is Engine.TCG)
    assert ("-cpu" in qemu_options(argv)) == (engine is Engine.TCG)


@pytest.mark.parametrize("engine", Engine)
def test_the_clock_is_trusted_where_qemu_makes_it(engine: Engine) -> None:
    parameters = kernel_line(qemu_command.command(machine(engine=engine)))
    assert ("tsc=reliable" in parameters) == (engine is not Engine.KVM)


@pytest.mark.parametrize("engine", Engine)
def test_many_queues_need_more_possible_processors_than_vcpus(engine: Engine) -> None:
    argv = qemu_command.command(machine("nullb_mq", engine))
    assert {"acpi_apic_instance=2", "maxcpus=2"} <= set(kernel_line(argv))
    assert after(qemu_options(argv), "-acpitable") == ["file=/folder/madt.aml"]
    assert after(argv, "-smp" if engine.deterministic else "--cpus") == ["2"]


def test_as_many_queues_as_vcpus_need_no_table() -> None:
    argv = qemu_command.command(machine("megasas", Engine.EXACT))
    assert "-acpitable" not in argv
    assert not any(word.startswith(("acpi_apic", "maxcpus")) for word in kernel_line(argv))


def test_placeholders_are_filled() -> None:
    nvme = " ".join(qemu_command.command(machine("nvme_mq")))
    assert "max_ioqpairs=64,msix_qsize=65" in nvme
    raid = kernel_line(qemu_command.command(machine("raid64", size_mib=1234)))
    assert {"scsi_debug.submit_queues=64", "scsi_debug.dev_size_mb=1234"} <= set(raid)


def test_a_disk_that_must_keep_data_is_a_file() -> None:
    (drive,) = after(
        qemu_options(qemu_command.command(machine(backed=True, size_mib=100))), "-blockdev"
    )
    file = "filename=/folder/qemu/disk.raw"
    assert {"driver=file", "node-name=disk", file} <= set(drive.split(","))


def test_any_other_disk_takes_no_time() -> None:
    (drive,) = after(qemu_options(qemu_command.command(machine(size_mib=100))), "-blockdev")
    assert {"driver=null-co", "node-name=disk", f"size={100 * 2**20}"} <= set(drive.split(","))


def test_a_topology_without_a_drive_gets_none() -> None:
    assert "-blockdev" not in qemu_options(qemu_command.command(machine("nullb_mq", backed=True)))


@pytest.mark.parametrize("engine", Engine)
def test_the_topology_has_the_last_word_on_the_labs_defaults(engine: Engine) -> None:
    hardware = PLAIN.model_copy(
        update={"kernel_parameters": ("null_blk.nr_devices=1", "scsi_debug.add_host=1")}
    )
    parameters = kernel_line(qemu_command.command(machine(hardware, engine)))
    for default in ("null_blk.nr_devices=", "scsi_debug.add_host="):
        assert parameters.index(f"{default}0") < parameters.index(f"{default}1")


@pytest.mark.parametrize("engine", Engine)
def test_a_guest_that_dies_does_not_linger(engine: Engine) -> None:
    expected = {"panic=-1", "oops=panic", "hung_task_panic=1", "softlockup_panic=1", "nokaslr"}
    assert expected <= set(kernel_line(qemu_command.command(machine(engine=engine))))


@pytest.mark.parametrize(
    ("in_memory", "memory"), [(True, 2048 + 960), (False, 2048)], ids=["memory", "qemu"]
)
def test_a_disk_in_the_guests_memory_gets_memory_of_its_own(in_memory: bool, memory: int) -> None:
    hardware = PLAIN.model_copy(update={"disk_in_memory": in_memory})
    argv = qemu_command.command(machine(hardware, Engine.EXACT, size_mib=960))
    assert after(argv, "-m") == [f"{memory}M"]


def test_a_folder_with_a_blank_reaches_qemu_whole() -> None:
    options = qemu_options(qemu_command.command(machine(folder=Path("/my results/1"))))
    assert "name=opt/lab/cell,file=/my results/1/cell.tar" in options


@pytest.mark.parametrize("engine", Engine)
def test_a_folder_with_a_comma_is_no_option_of_qemu(engine: Engine) -> None:
    guest = machine("nvme_mq", engine, folder=Path("/a,b"), backed=True)
    options = " ".join(qemu_options(qemu_command.command(guest)))
    # In QEMU's option lists a comma is written twice.
    for name in ("cell.tar", "qemu/results", "madt.aml", "qemu/disk.raw"):
        assert f"/a,,b/{name}" in options


@pytest.mark.parametrize("engine", Engine)
def test_qemu_writes_to_a_folder_of_its_own_alone(engine: Engine) -> None:
    guest = machine("nvme_mq", engine, backed=True, plugin=Path("/p/sim.so"), called=(1,))
    argv = " ".join(qemu_command.command(guest))
    written = {path.name for path in guest.written} | {"disk.raw"}
    for name in written:
        assert f"/folder/{name}" not in argv
    assert f"/folder/qemu/{guest.results.name}" in argv
