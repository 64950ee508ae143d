# SPDX-License-Identifier: GPL-2.0-or-later
"""Fake kernels, guests and sessions: all of the lab is real but what is built and booted."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

import pytest

from lab.base import cache
from lab.base.errors import GuestError, LabError
from lab.base.progress import Progress
from lab.base.stats import SEED_COUNTS
from lab.build import block_layer, source
from lab.build.guest_root import GuestRoot
from lab.build.kernel import Kernel
from lab.build.source import Source
from lab.commands import cost_diff
from lab.commands.cost_diff import CellChange
from lab.guest.time_slices import Slot
from lab.inputs import profile, workload
from lab.inputs.terms import Engine
from lab.inputs.workload import Value
from lab.measure import call_tree, cost, dbench, host, sampling
from lab.measure.boot_store import StoredBoot
from lab.measure.call_tree import CallTree, Node
from lab.measure.cell import Cell, PlannedCell, resolved
from lab.measure.cost import Cost
from lab.measure.dbench import LoadFile
from lab.measure.host import EngineReport, Facts, Report
from lab.measure.job import Job, Testbed
from lab.measure.runner import Outcome
from lab.measure.sampling import Sample
from lab.measure.session import Session

LOAD = LoadFile("Flush 1 NT_STATUS_OK\n", "d clients\n", {"NTCreateX": 613})
ROOT = GuestRoot("guest")
PLUGIN = Path("/plugins/0123/sim.so")
DEBUG = ".debug"

# What a guest gives beside its usual numbers, or how it fails.
Answer = Mapping[str, float] | BaseException


@dataclass
class Guests:
    """Guests that answer as they are told, by their number or else by what they are."""

    answers: dict[int, Answer] = field(default_factory=dict)
    says: Callable[[Job], Answer] = lambda job: {}
    # What an I/O costs by the kernel's id; without a cost a guest counts no instructions.
    cost_of: Callable[[str], Cost | None] = lambda kernel: None
    consoles: dict[int, str] = field(default_factory=dict)
    booted: list[Job] = field(default_factory=list)
    slots: list[Slot | None] = field(default_factory=list)
    host_cpus: list[int | None] = field(default_factory=list)
    # Guests that checked that the exact engine is exact.
    checks: list[Job] = field(default_factory=list)
    # What a kernel complains of on a console that ends well.
    complaints: Callable[[Job], tuple[str, ...]] = lambda job: ()
    phases_s: dict[str, float] = field(default_factory=lambda: {"workload": 1.0})
    inside: int = 0
    together: int = 0
    on_boot: Callable[[], object] = lambda: None
    lock: Lock = field(default_factory=Lock)

    @property
    def arms(self) -> str:
        return "".join(job.task.arm for job in self.booted)

    @property
    def kernels(self) -> list[str]:
        return [job.task.kernel.id for job in self.booted]

    @property
    def schedulers(self) -> list[str]:
        return [job.cell.scheduler for job in self.booted]

    def measure(
        self,
        job: Job,
        folder: Path,
        observe: Callable[[str], None] = lambda phase: None,
        slot: Slot | None = None,
        host_cpu: int | None = None,
    ) -> Sample:
        """What stands for lab.measure.sampling.measure."""
        cache.make_folder(folder)
        if (cache.root() / "probe") in folder.parents:
            self.checks.append(job)
            (folder / "console.log").write_text("up\n")
            return Sample({}, {}, {})
        with self.lock:
            number = len(self.booted)
            self.booted.append(job)
            self.slots.append(slot)
            self.host_cpus.append(host_cpu)
            self.inside += 1
            self.together = max(self.together, self.inside)
        try:
            self.on_boot()
            observe("workload")
        finally:
            with self.lock:
                self.inside -= 1
        (folder / "console.log").write_text(self.consoles.get(number, "up\n"))
        answer = self.answers.get(number, self.says(job))
        if isinstance(answer, BaseException):
            raise answer
        values = {"iops": 100.0 + number, **self._costed(job, folder), **answer}
        facts = {"release": job.task.kernel.id}
        return Sample(values, facts, self.phases_s, self.complaints(job))

    def _costed(self, job: Job, folder: Path) -> dict[str, float]:
        kernel_cost = self.cost_of(job.task.kernel.id)
        if kernel_cost is None or not job.cell.engine.deterministic or not job.cell.cost:
            return {}
        (folder / "cost.tsv").write_text(cost.to_text(kernel_cost))
        if job.cell.callers:  # each function is called by the one before
            nodes = {
                number: Node(number - 1, name, own, 1.0)
                for number, (name, own) in enumerate(kernel_cost.kernel.items(), start=1)
            }
            (folder / call_tree.FILE).write_text(call_tree.to_text(CallTree(nodes)))
        total = kernel_cost.kernel_total
        values = {cost.KERNEL: total, cost.BLOCK_LAYER: total, cost.USER: kernel_cost.user}
        return {**values, "measured_share": 50.0}


def insns(**functions: float) -> Cost:
    """What an I/O costs in these functions of the kernel."""
    return Cost(0.0, functions)


def installed(monkeypatch: pytest.MonkeyPatch) -> Guests:
    """Guests in the place of real ones, on a host called here and with a dbench."""
    guests = Guests()
    monkeypatch.setattr(sampling, "measure", guests.measure)
    monkeypatch.setattr(host, "identity", lambda: "here")
    monkeypatch.setattr(dbench, "load_file", lambda: LOAD)
    return guests


def kernel(identity: str, code: str = "") -> Kernel:
    """A built kernel that executes some code, else one that no other kernel executes."""
    made = Kernel(identity, "6.12.117", "tree", ("base",), "gcc; ld")
    cache.make_folder(made.folder)
    made.vmlinux.write_text(code or identity)
    made.system_map.write_text("ffffffff81000000 T submit_bio\n")
    (made.folder / block_layer.FILE).write_text("submit_bio\n")
    return made


def report(*works: Engine, cpus: int = 2, memory_gib: float = 8.0) -> Report:
    """A host on which these engines work."""
    facts = Facts(
        *(cpus, "cpu", memory_gib, 50.0, "system", "6.1", "gcc"),
        qemu="QEMU emulator version 10.0.2",
        plugins=True,
        emulator="emulator",
    )
    return Report(facts, tuple(EngineReport(e, e in works, f"why {e}") for e in Engine))


def checked_testbed(
    kernel: Kernel,
    *works: Engine,
    memory_gib: float = 8.0,
    plugin: Path | None = None,
    root: GuestRoot = ROOT,
) -> Testbed:
    """A testbed of this kernel; without engines, multi-threaded TCG and exact work."""
    engines = works or (Engine.TCG, Engine.EXACT)
    return Testbed(kernel, root, report(*engines, memory_gib=memory_gib), plugin)


def cell(
    topology: str = "nullb",
    scheduler: str = "bfq",
    work: str = "randread_burst",
    engine: Engine = Engine.TCG,
    *,
    cpus: int = 0,
    counters: tuple[str, ...] = (),
    parameters: Mapping[str, Value] | None = None,
) -> Cell:
    """A cell with the workload's own parameters, of a swept one the first value, or others."""
    defaults = {
        k: v[0] if isinstance(v, tuple) else v for k, v in workload.get(work).parameters.items()
    }
    return resolved(
        topology_name=topology,
        scheduler=scheduler,
        workload=work,
        parameters={**defaults, **(parameters or {})},
        engine=engine,
        cpus=cpus,
        counters=counters,
    )


def planned(of: Cell, *swept: str) -> PlannedCell:
    """A cell of a matrix."""
    return PlannedCell(cell=of, swept=swept)


@dataclass
class FakeSession(Session):
    """A session whose kernels are called after their source's revision and their patches.

    A revision or a patch file in failing does not build; kernels with the same code execute the
    same.
    """

    progress: Progress = field(default_factory=lambda: Progress(out=io.StringIO()))
    engines: tuple[Engine, ...] = (Engine.TCG, Engine.EXACT)
    failing: dict[str, LabError] = field(default_factory=dict)
    codes: dict[str, str] = field(default_factory=dict)
    requested: list[str] = field(default_factory=list)

    def kernel(
        self, spec: str = "", patches: Sequence[Path] = (), fragments: Sequence[str] = ()
    ) -> Kernel:
        revision = (spec or self.profile.tree).rpartition("@")[2].rpartition(":")[2]
        name = "+".join([revision, *(patch.stem for patch in patches)])
        name += DEBUG if "debug" in fragments else ""
        self.requested.append(name)
        for part in (revision, *(patch.name for patch in patches)):
            if part in self.failing:
                raise self.failing[part]
        return replace(kernel(name, self.codes.get(name, "")), fragments=tuple(fragments))

    def check_engines(
        self, spec: str = "", fragments: Sequence[str] = (), *, fresh: bool = False
    ) -> Testbed:
        testbed = checked_testbed(self.kernel(spec, (), fragments), *self.engines, plugin=PLUGIN)
        self.checked = self.checked or testbed
        return testbed

    @property
    def said(self) -> str:
        """All that was printed."""
        assert isinstance(self.progress.out, io.StringIO)
        return self.progress.out.getvalue()


def cell_change(
    planned: PlannedCell,
    totals: Sequence[float | GuestError],
    layers: Sequence[float] = (),
) -> CellChange:
    """A cell that cost so much on two kernels with each of three seeds, or a guest that failed."""

    def outcome(place: int, name: str) -> Outcome:
        total, task = totals[place], planned.on(kernel(name))
        if isinstance(total, GuestError):
            return Outcome(task, (), total)
        layer = layers[place] if layers else total
        values = {cost.KERNEL: total, cost.BLOCK_LAYER: layer}
        return Outcome(task, (StoredBoot("id", name, "", 1.0, 1.0, {}, values),) * SEED_COUNTS[0])

    session = FakeSession(profile.get("quick"))
    sides = outcome(0, "old"), outcome(1, "new")
    return cost_diff.judged(session, planned, sides, cost_diff.CHANGED)


@dataclass
class Repository:
    """A git repository in the place of every source; now is the commit that its branches are at."""

    now: str = "c0"

    def resolve(self, spec: str, progress: Progress) -> Source:
        revision = spec.rpartition("@")[2]
        version = revision if revision != "next" else self.now
        return Source(spec, version, f"tree-{version}", spec.rpartition("@")[0])


def repository(monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository whose branch next is at the commit c0, or where the test puts it."""
    fake = Repository()
    monkeypatch.setattr(source, "resolve", fake.resolve)
    return fake
