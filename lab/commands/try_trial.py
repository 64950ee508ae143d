# SPDX-License-Identifier: GPL-2.0-or-later
"""Two kernels, without and with patches, asked by every engine what the changed code makes worth
asking: the quickest answers first, each said as soon as it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.base.errors import KERNEL_FAILURES
from lab.build import code_diff, definitions
from lab.build.code_diff import CodeDiff
from lab.commands import cost_diff, try_answers, try_cells, try_measure
from lab.commands.cost_diff import CellChange
from lab.commands.try_answers import Answer, Changed, Kind
from lab.commands.try_cells import Choice
from lab.commands.try_measure import STRESS_SEEDS, DataCheck, Pair, SimulatedChange
from lab.inputs import workload
from lab.inputs.terms import Engine, Verdict
from lab.judge.blame import blame
from lab.measure.cell import PlannedCell
from lab.measure.runner import Outcome, Runner
from lab.measure.session import Session


@dataclass
class Trial:
    """What is known of two kernels so far.

    failed is the first boot of the patched kernel that its kernel ended; notes say what was not
    measured and why; is_selected: a user chose the cells.
    """

    session: Session
    pair: Pair
    difference: CodeDiff = field(default_factory=lambda: CodeDiff(frozenset()))
    changed: Changed = field(default_factory=Changed)
    exact: dict[PlannedCell, CellChange] = field(default_factory=dict)
    simulated: list[SimulatedChange] = field(default_factory=list)
    checks: list[DataCheck] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failed: Outcome | None = None
    is_selected: bool = False
    choice: Choice = field(default_factory=Choice)

    @property
    def outcomes(self) -> list[Outcome]:
        """Every cell that was measured, of both kernels."""
        pairs: list[tuple[Outcome | None, Outcome]] = []
        pairs += [(change.before, change.after) for change in self.exact.values()]
        pairs += [(change.before, change.after) for change in self.simulated]
        pairs += [(check.before, check.after) for check in self.checks]
        return [side for pair in pairs for side in pair if side]

    @property
    def compared(self) -> list[tuple[Outcome, Outcome]]:
        """Both kernels' outcomes of cells whose cost by function is worth keeping."""
        simulated = [
            (change.before, change.after) for change in self.simulated if not change.failed
        ]
        return [*cost_diff.compared(list(self.exact.values())), *simulated]

    def compare(self, files: Sequence[str]) -> bool:
        """Whether the code of the kernels differs; files are those that the patches touch."""
        before, after = self.pair
        with self.session.progress.step("comparing the code of both kernels"):
            self.difference = code_diff.compare(before.vmlinux, after.vmlinux)
        if self.difference.is_empty:
            self._say(try_answers.same_code(self.difference))
            return False
        functions = self.difference.functions
        places = definitions.places(after.tree, functions, files)
        self.changed = Changed(functions, places, self.difference.variables)
        count = len(functions)
        self.session.progress.say(
            f"  {count} function{'s' * (count != 1)} differ{'s' * (count == 1)}"
            + (f": {self.changed.all_named}" if functions else "")
        )
        return True

    def measure(self, planned: Sequence[PlannedCell]) -> None:
        """Choose cells and measure them, until all is known or the patched kernel breaks."""
        sim = self.session.testbed.host.works(Engine.SIM)
        cells = [*planned]
        stages = [self._first, self._more_seeds]
        if sim:  # a simulated cell, for the check of the engine
            cells += try_cells.simulated(self.session.profile, [("none", try_cells.BUSY_JOB)])
            stages.insert(1, self._contention)
        with self.session.measuring([cell.on(self.pair[0]) for cell in cells]) as runner:
            self._choose(runner, planned)
            for stage in stages:
                stage(runner)
                if self.failed:
                    return
        if not sim:
            self.notes.append("Contention was not simulated: the engine sim does not work here.")
        self._complaints(self.pair)

    def measure_cells(self, planned: Sequence[PlannedCell]) -> None:
        """Measure cells that a user chose: exact and simulated ones, and checks of data."""
        exact = tuple(p for p in planned if cost_diff.has_exact_cost(p.cell))
        simulated = [p for p in planned if p.cell.engine.simulated]
        checks = [p for p in planned if p not in exact and p not in simulated]
        self.choice, self.is_selected = Choice(exact), True
        with self.session.measuring([p.on(self.pair[0]) for p in planned]) as runner:
            self._checked(try_measure.checked(runner, self.pair, checks))
            if not self.failed:
                self._simulate(runner, simulated)
            if not self.failed and exact:
                seeds = range(1, try_measure.SEEDS + 1)
                self.exact = try_measure.exact(self.session, runner, self.pair, exact, seeds)
                self._require_sound(runner)
                self._costs(runner)
        if not self.failed:
            self._complaints(self.pair)

    def debug(self, spec: str, patches: Sequence[Path]) -> None:
        """Boot the debug kernel with the patches; the other one where that fails or complains.
        Both are built of the source spec.
        """
        session = self.session
        planned = try_cells.debug_check(self.choice, session.profile)
        fragments = workload.get(planned.cell.workload).kernel
        session.progress.say(f"  the debug kernel ({', '.join(fragments)})")
        every = (*session.fragments, *fragments)
        base = session.kernel(spec, (), every)  # the patched one is built from its objects
        after = session.kernel(spec, patches, every)
        task = planned.on(after, cost_diff.ARMS[1])
        with session.measuring([task]) as runner:
            (outcome,) = runner.all([task])
            if not outcome.error and not session.store.complaints(after.id):
                self.checks.append(DataCheck(planned, outcome))
                return
            (before,) = runner.all([planned.on(base, cost_diff.ARMS[0])])
        self._checked([DataCheck(planned, outcome, before)])
        if not self.failed:
            self._complaints((base, after))

    def conclude(self) -> None:
        """Say so where nothing was found."""
        if self.answers:
            return
        if self.exact:
            self._say(try_answers.equal_cost(list(self.exact.values()), self.changed))
        elif not self.is_selected:
            self._say(try_answers.not_executed(self.difference, self.changed))
        elif self.simulated:
            self._say(try_answers.no_loss(self.simulated))
        else:
            self._say(try_answers.no_data_lost(self.checks))

    def _say(self, answer: Answer | None) -> None:
        if answer:
            self.answers.append(answer)
            self.session.progress.say(f"  {answer}")

    def _choose(self, runner: Runner, planned: Sequence[PlannedCell]) -> None:
        executed_by = try_cells.executed(runner, self.session, self.pair[0], planned)
        durations = self.session.durations
        self.choice = try_cells.choose(self.difference.functions, executed_by, durations)
        if not self.choice.exact:  # only initial values differ, of which others make use
            self.choice = try_cells.choose(self.difference.neighbours, executed_by, durations)

    def _first(self, runner: Runner) -> None:
        """One seed of the exact cells, and the data check."""
        self.exact = try_measure.exact(self.session, runner, self.pair, self.choice.exact, (1,))
        self._require_sound(runner)
        if not self.failed:
            check = try_cells.data_check(self.choice, self.session.profile)
            self._checked(try_measure.checked(runner, self.pair, [check]))

    def _contention(self, runner: Runner) -> None:
        """Many CPUs at once, where the changed code runs at all."""
        if self.choice.exact and not self.choice.busy:
            self.notes.append(
                f"Contention was not simulated: no I/O of {try_cells.BUSY_DISK} executes what the "
                "patches change."
            )
        self._simulate(runner, try_cells.simulated(self.session.profile, self.choice.busy))

    def _simulate(self, runner: Runner, cells: Sequence[PlannedCell]) -> None:
        self.simulated = try_measure.simulated(self.session, runner, self.pair, cells)
        for change in self.simulated:
            change.before.require_boots()
            if change.after.error:
                self._broken(runner, change.after)
                return
            self._say(try_answers.of_simulated(change, self.changed))

    def _more_seeds(self, runner: Runner) -> None:
        """More seeds of what differs, and of the quickest cell, to see what fails now and then."""
        open_ = [p for p, change in self.exact.items() if not change.equal]
        seeds = range(1, try_measure.SEEDS + 1)
        self.exact |= try_measure.exact(self.session, runner, self.pair, open_, seeds)
        self._require_sound(runner)
        if not self.failed and self.choice.exact:
            self._stress(runner)
        if not self.failed:
            for change in self.exact.values():
                sides = (change.before, change.after)
                before, after = (try_measure.requests(self.session, side) for side in sides)
                self._say(try_answers.of_requests(change.planned, before, after, self.changed))
            self._costs(runner)

    def _costs(self, runner: Runner) -> None:
        """What the exact cells cost more or less, the worst first, with the callers there."""
        costlier = [c for c in self.exact.values() if try_answers.costs_more(c, self.changed)]
        worst = max(costlier, key=lambda change: change.change or 0.0, default=None)
        for change in sorted(self.exact.values(), key=lambda change: change is not worst):
            callers = try_measure.callers(self.session, runner, worst) if change is worst else {}
            changed = replace(self.changed, callers=callers)
            self._say(try_answers.of_exact(change, changed))

    def _stress(self, runner: Runner) -> None:
        durations = self.session.durations
        quickest = min(self.choice.exact, key=lambda planned: durations.of(planned.cell))
        task = quickest.on(self.pair[1], cost_diff.ARMS[1])
        outcomes = runner.all([task.seeded(seed) for seed in range(1, STRESS_SEEDS + 1)])
        for outcome in outcomes:
            if outcome.error:
                self._broken(runner, outcome)
                return

    def _require_sound(self, runner: Runner) -> None:
        """Note the first guest of the patched kernel that failed; LabError for all others."""
        changes = list(self.exact.values())
        cost_diff.require_sound_base(changes)
        _, failed = cost_diff.failures(changes)
        if failed:
            self._broken(runner, failed[0])

    def _broken(self, runner: Runner, failed: Outcome) -> None:
        """A guest of the patched kernel failed: how often, and how often without them."""
        error = failed.error
        assert error is not None
        if error.outcome not in KERNEL_FAILURES:
            failed.require_boots()
        self.session.progress.say(f"    {failed.task}: {error.what}; with other seeds?")
        counts = try_measure.count_failures(runner, self.pair, failed)
        self.failed = failed
        self._say(try_answers.broken(failed, counts, self.changed))

    def _checked(self, checks: Sequence[DataCheck]) -> None:
        for check in checks:
            self.checks.append(check)
            error = check.after.error
            if error is None:
                continue
            if error.outcome not in KERNEL_FAILURES:
                check.after.require_boots()
            if check.before and check.before.error:
                self.notes.append(
                    f"{check.planned} fails without the patches, too: {check.before.error.brief}"
                )
                continue
            self.failed = check.after
            self._say(try_answers.of_check(check, self.changed))

    def _complaints(self, pair: Pair) -> None:
        """What the patched kernel complained of, held against how boots without patches ended."""
        old, new = (self.session.store.ends({kernel.id}) for kernel in pair)
        finding = blame(new, old, self.session.profile.alpha)
        if finding is None:
            return
        if finding.verdict is Verdict.REFUTED:
            self._say(Answer(Kind.BROKEN, finding.reason, is_worse=True))
        elif finding.verdict is Verdict.INCONCLUSIVE:
            self._say(Answer(Kind.OPEN, finding.reason))
        else:
            self.notes.append(finding.reason)
