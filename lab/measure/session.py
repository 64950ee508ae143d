# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the packages meet. Read this first: what a command measures with, from source to boots.

source -> tree -> kernel -> guest root -> checked engines -> cells -> boots -> store
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lab.base import cache
from lab.base.errors import UsageError
from lab.base.progress import Progress
from lab.build import guest_root, kernel, patching, source, tcg_plugin, trust
from lab.build.kernel import Kernel
from lab.inputs import kconfig
from lab.inputs.profile import Profile
from lab.measure import determinism, durations, host
from lab.measure.boot_store import BootStore
from lab.measure.cell import Task
from lab.measure.cost import Cost
from lab.measure.durations import Durations
from lab.measure.job import Testbed
from lab.measure.place import Place
from lab.measure.runner import Outcome, Runner


@dataclass
class Session:
    """What one command measures with; it started at a time in seconds since 1970.

    config are kernel fragments beside the profile's or the series'. host_time tells that the host's
    clock is believed even where it is the emulator's time. place is where deterministic guests run,
    if not on this host. warned tells that it was said that nothing confines what runs.
    """

    profile: Profile
    store: BootStore = field(default_factory=BootStore)
    progress: Progress = field(default_factory=Progress)
    started: float = field(default_factory=time.time)
    checked: Testbed | None = None
    config: tuple[str, ...] = ()
    host_time: bool = False
    place: Place | None = None
    warned: bool = False

    def __post_init__(self) -> None:
        cache.sweep()

    @property
    def fragments(self) -> tuple[str, ...]:
        """With which fragments kernels are built that no series asks for."""
        return kconfig.added(self.profile.kernel, self.config)

    @property
    def durations(self) -> Durations:
        """How long guests take on this host."""
        return durations.recorded(self.store)

    @property
    def testbed(self) -> Testbed:
        """The testbed; checked with the profile's own kernel unless that was done with another."""
        return self.checked or self.check_engines()

    def kernel(
        self, spec: str = "", patches: Sequence[Path] = (), fragments: Sequence[str] = ()
    ) -> Kernel:
        """The kernel of a source with patches and fragments, built; the session's where not given.

        Raises BuildError for patches that do not apply and kernels that do not build, UsageError
        for foreign ones that would run unconfined.
        """
        # A disk may need a fragment that the user gives, too, and its driver's patch applies once.
        fragments = tuple(dict.fromkeys(fragments or self.fragments))
        trust.require(spec or self.profile.tree, patches)
        if trust.unconfined() and not self.warned:
            self.warned = True
            self.progress.say(trust.UNCONFINED)
        with self.progress.phase("source"):
            resolved = source.resolve(spec or self.profile.tree, self.progress)
            patched = patching.patched(resolved, (*kconfig.patches(fragments), *patches))
        with self.progress.phase("kernel"):
            return kernel.build(patched, fragments, self.progress)

    def check_engines(
        self, spec: str = "", fragments: Sequence[str] = (), *, fresh: bool = False
    ) -> Testbed:
        """A guest root, and the engines checked with a kernel without patches of any series.

        The first that is checked is the session's testbed. With fresh all are checked again.
        """
        base = self.kernel(spec, (), fragments)
        with self.progress.phase("guest root"):
            guest = self.checked.guest if self.checked else guest_root.build(self.progress)
        with self.progress.phase("engines"):
            host_facts = host.facts()
            qemu = (host_facts.qemu_version, host_facts.emulator)
            plugin = tcg_plugin.compiled(*qemu) if host_facts.plugins else None
            report = host.examine(host_facts, base, guest, plugin, self.progress, fresh=fresh)
        testbed = Testbed(base, guest, report, plugin)
        if fresh:
            determinism.forget(testbed)
        self.checked = self.checked or testbed
        return testbed

    @contextmanager
    def measuring(self, tasks: Sequence[Task]) -> Iterator[Runner]:
        """A runner for tasks, as opened() gives; LabError when an engine of theirs is not exact."""
        with self.opened() as runner:
            runner.require_exact(tasks)
            yield runner

    @contextmanager
    def opened(self) -> Iterator[Runner]:
        """A runner; the store is this command's alone. Guests that run when the block fails end."""
        testbed = self.testbed
        with self.progress.phase("measuring"), ExitStack() as locks:
            results = cache.lock(self.store.folder / "lock", self.progress, "using these results")
            locks.enter_context(results)
            self.store.forget_unfinished()
            if self.place:
                locks.enter_context(self.place.opened(testbed))
            runner = Runner(testbed, self.store, self.progress, self.place)
            try:
                yield runner
            except BaseException:
                runner.stop()
                raise

    def outcomes(self, tasks: Sequence[Task], boots: int = 1) -> list[Outcome]:
        """Measure tasks; what the store already has is not run again.

        A task whose guest fails is reported as such and the others are measured all the same.
        """
        with self.measuring(tasks) as runner:
            return runner.all(tasks, boots)

    def costs(self, tasks: Sequence[Task]) -> list[tuple[Outcome, Cost]]:
        """The outcomes of fio tasks, and what an I/O of each costs by function.

        Raises LabError when a guest fails, UsageError for a cell that has no cost for an I/O.
        """
        costs = []
        for outcome in self.outcomes(tasks):
            outcome.require_boots()
            cost = self.store.cost(outcome.boots[-1].id)
            if cost is None:
                what = f"{outcome.task.cell.workload} has no cost per I/O"
                raise UsageError(what, hint="choose an fio workload")
            costs.append((outcome, cost))
        return costs
