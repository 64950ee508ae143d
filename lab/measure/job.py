# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs: tasks with everything that is executed for them.

Files are read once, when a job is made: a workload that is edited during a run cannot be kept under
the key of what it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lab.base import cache
from lab.base.errors import nearest
from lab.base.progress import Progress
from lab.build import fio_tools, guest_root
from lab.build.guest_root import GuestRoot
from lab.build.kernel import Kernel
from lab.build.tcg_plugin import MARKER, PER_IO
from lab.guest import qemu_command
from lab.guest.orders import Orders
from lab.guest.qemu_command import Machine
from lab.inputs import (
    counters,
    device_line,
    guest_command,
    io_uring_line,
    machine_model,
    topology,
    workload,
)
from lab.inputs.counters import Counter
from lab.inputs.topology import Topology
from lab.inputs.workload import Workload
from lab.measure import call_counts, call_tree, computation, fio_cell, host
from lab.measure.cell import Cell, Task
from lab.measure.cell_orders import fio_jobs, has_block_layer, orders_of
from lab.measure.host import Report
from lab.measure.insn_counts import Symbols, symbols, variables

_WITHOUT_END = 2**62
# The warm-up and what is measured last at least a tick, for ticks cost something, too.
_SIM_NS = 4_000_000
# What is hashed for a key, and how. A change of either makes all boots that are kept other ones.
_CELL_KEY = 8
_ROUND_KEY = 2
# A job's machine lies nowhere until it is booted.
_NOWHERE = Path("/folder")


@dataclass(frozen=True)
class Testbed:
    """What every measurement needs; without a plugin there are no deterministic engines.

    The engines were checked with probe_kernel: the one to be measured may be broken.
    """

    probe_kernel: Kernel
    guest: GuestRoot
    host: Report
    plugin: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Job:
    """A task, resolved; block_layer are the functions whose cost is summed as the block layer's.

    The key is what makes two boots repetitions of one measurement: a hash of everything that is
    executed (kernel, guest root, QEMU with its firmware and command line, the plugin, the agent's
    orders), of what makes numbers of it (the modules, System.map, block_layer) and, for engines
    that measure wall-clock time, of the host.
    """

    task: Task
    machine: Machine
    work: Workload
    orders: Orders
    counters: Mapping[str, Counter]
    block_layer: frozenset[str]
    key: str

    @property
    def cell(self) -> Cell:
        """What is measured."""
        return self.task.cell

    def emulation(self, qemu: str) -> str:
        """A QEMU with the plugin and its options; those have the numbers of the machine model."""
        return " ".join((qemu, *_plugin(self.machine)))

    @property
    def refusal(self) -> str:
        """Why this cannot be measured, in a line; empty when it can."""
        kernel = self.task.kernel
        if lacking := [name for name in self.work.kernel if name not in kernel.fragments]:
            return f"{self.cell.workload} needs the kernel fragment {lacking[0]} (--config)"
        refusal = self.machine.topology.refusal(kernel.release, kernel.fragments)
        return refusal or _unknown_parameter(self.cell.topology, kernel)

    def at(self, folder: Path, host_cpu: int | None = None) -> Machine:
        """The machine to boot in a folder, on a CPU of the host if one is given."""
        machine = replace(self.machine, folder=folder, host_cpu=host_cpu)
        if not machine.plugin:
            return machine
        functions = symbols(machine.kernel.system_map)
        machine = replace(machine, marker=functions.address(MARKER), called=self._called(functions))
        if self.cell.callers:
            machine = replace(machine, functions=call_tree.functions_file(functions))
        if not machine.engine.simulated:
            return machine
        entries = "/".join(f"{address:x}" for address in functions.entries())
        options = (*machine.plugin_options, f"entries={entries}")
        return replace(machine, io=functions.address(PER_IO), plugin_options=options)

    def _called(self, functions: Symbols) -> tuple[int, ...]:
        """Where the functions begin whose calls have to be told one by one."""
        engine = self.cell.engine
        logged = [
            counter for counter in self.counters.values() if call_counts.wants_log(counter, engine)
        ]
        names = dict.fromkeys(name for counter in logged for name in counter.functions)
        return tuple(call_counts.entries("called", tuple(names), functions)) if names else ()


def resolve(task: Task, testbed: Testbed) -> Job:
    """Read all that a task is made of. Raises UsageError for what is wrong in a file."""
    cell = task.cell
    work, guest_topology = workload.get(cell.workload), hardware(cell)
    counted = counters.with_operands(cell.counters) if cell.counters else {}
    machine = Machine(
        task.kernel,
        _guest_root(work, guest_topology) or testbed.guest,
        guest_topology,
        cell.engine,
        _NOWHERE,
        size_mib=fio_cell.disk_mib(cell, work),
        backed=work.filesystem is not None or fio_cell.keeps_data(work),
        plugin=testbed.plugin if cell.engine.deterministic else None,
        plugin_options=_clock(cell, work, guest_topology) if cell.engine.deterministic else (),
        seed=cell.seed,
    )
    orders = orders_of(cell, machine, work)
    functions = _block_layer(task, work)
    executed = _key(machine, orders, counted, testbed)
    if cell.callers:
        executed = cache.key(executed, "callers")
    # What makes numbers of a boot's raw files: the lab's own code, and names of addresses. Kernels
    # that are equal to the byte may come with another System.map or another block layer.
    code = computation.identity(work.tool, machine.engine)
    symbols_hash = task.kernel.symbols_hash if machine.plugin else None
    return Job(
        task=task,
        machine=machine,
        work=work,
        orders=orders,
        counters=counted,
        block_layer=functions,
        key=cache.key(executed, code, symbols_hash, sorted(functions)),
    )


def _guest_root(work: Workload, guest_topology: Topology) -> GuestRoot | None:
    """A root with more steps and the files that a command names; None where neither is needed."""
    if work.tool != "command":
        needed = guest_topology.needs_more_steps or bool(work.setup)
        return guest_root.build(Progress(), user_files={}) if needed else None
    text, folder, progress = f"{work.setup}\n{work.command}", Path(work.folder), Progress()
    files = guest_command.files(text, folder)
    if (tool := io_uring_line.tool(work.command)) and str(folder / tool) not in files:
        place = str(folder / tool) if "/" in tool else f"/bin/{tool}"
        files[place] = fio_tools.io_uring(progress)
    return guest_root.build(progress, user_files=files)


def _block_layer(task: Task, work: Workload) -> frozenset[str]:
    """The functions that count as the block layer; none where its cost is not measured."""
    if work.tool != "fio" or not has_block_layer(task.cell):
        return frozenset()
    return task.kernel.block_layer(task.kernel) if task.block_layer is None else task.block_layer


def _unknown_parameter(device: str, kernel: Kernel) -> str:
    """Which parameter of a device line the kernel's driver lacks; empty when it has all."""
    if not device_line.is_line(device):
        return ""
    prefix, names = device_line.parameter_names(device)
    known = [
        n.removeprefix(prefix) for n in variables(kernel.system_map).names if n.startswith(prefix)
    ]
    for name in names:
        if name not in known:
            driver = device.split(" ", 1)[0]
            return f"{driver} of Linux {kernel.release} has no {name}; {nearest(name, known)}"
    return ""


def hardware(cell: Cell) -> Topology:
    """The topology of a cell, with what the cell changes of it."""
    guest_topology = topology.get(cell.topology)
    guest_topology = guest_topology.model_copy(
        update=fio_cell.hardware(guest_topology, workload.get(cell.workload))
    )
    fewer_queues = cell.hw_queues < guest_topology.hw_queues
    changes = {
        "cpus": cell.cpus,
        "hw_queues": cell.hw_queues,
        "queue": {
            name: v for name, v in guest_topology.queue.items() if name not in dict(cell.queue)
        },
        # With fewer queues nothing else is to be different.
        "possible": guest_topology.possible_cpus if fewer_queues else guest_topology.possible,
        "kernel_parameters": (*guest_topology.kernel_parameters, *cell.kernel_parameters),
    }
    return guest_topology.model_copy(update=changes)


def _clock(cell: Cell, work: Workload, guest_topology: Topology) -> tuple[str, ...]:
    """What a deterministic guest's work costs, and what is measured, as the plugin takes it."""
    if not cell.engine.simulated:
        return (f"jobs={fio_jobs(cell)}", *machine_model.counting(guest_topology.insn_ns))
    model = machine_model.get(cell.machine)
    every = work.exact_ios[1]
    # What is counted alone is all of a run.
    warm, ios, ns = (every // 8, every // 4, _SIM_NS) if cell.cost else (1, _WITHOUT_END, 0)
    window = (f"warm={warm}", f"ios={ios}", f"shortest={ns}")
    scaled = machine_model.scaled(cell.variants)
    again = (f"variants={scaled}",) if scaled else ()
    return (*window, *again, *model.options(cell.cpus))


def round_keys(alone: Sequence[str]) -> list[str]:
    """The keys of boots in rounds of several arms, from the keys that these have alone.

    Boots of one round are compared with each other only, so they are no repetitions of what was
    measured together with others. Two equal arms are told apart by their places.
    """
    together = sorted(alone)
    return [
        cache.key("round", _ROUND_KEY, together, key, alone[:place].count(key))
        for place, key in enumerate(alone)
    ]


def _plugin(machine: Machine) -> list[str]:
    """The plugin's hash and its options; nothing without one."""
    plugin = machine.plugin
    return [plugin.parent.name, *machine.plugin_options] if plugin else []


def _key(machine: Machine, orders: Orders, counted: Mapping[str, Counter], testbed: Testbed) -> str:
    return cache.key(
        "cell",
        _CELL_KEY,
        machine.kernel.code,
        machine.guest.id,
        testbed.host.facts.emulator,
        qemu_command.kernel_parameters(machine),
        qemu_command.devices(machine),
        qemu_command.clock(machine),
        [machine.engine, machine.topology.cpus, machine.memory_mib, machine.backed],
        orders.archive().hex(),
        _plugin(machine) or None,
        {name: counter.model_dump(mode="json") for name, counter in counted.items()},
        None if machine.engine.deterministic else host.identity(),
    )
