# SPDX-License-Identifier: GPL-2.0-or-later
"""The gate: red for a regression, green for noise, and a memory of what was good."""

from __future__ import annotations

import itertools
import random
import re
import shutil
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

import guests as fakes
import pytest
from guests import FakeSession, Guests, Repository

from lab.base.errors import BuildError, GuestError, LabError, UsageError
from lab.commands import gate, gate_config
from lab.commands.gate import BranchResult, Gating
from lab.commands.gate_history import GateHistory
from lab.guest.host_noise import LIMITS, PREFIX
from lab.guest.retries import ATTEMPTS
from lab.inputs import profile, workload
from lab.inputs.terms import Engine, Verdict
from lab.measure.cost import Cost
from lab.measure.job import Job
from lab.report.run_builder import RunBuilder
from lab.report.run_record import FindingRecord, RunRecord
from lab.report.view import SeriesView

EXACT = 'topologies = ["nullb_mq"]\nschedulers = ["none"]\nworkloads = ["randread_burst"]\n'
TIMED = 'wall_clock = ["nullb_mq/bfq/randread_burst"]\n'
BRANCH = '[branches.next]\nsource = "git:/linux@next"\n'
CONFIG = f'threshold = "0.3%"\n{EXACT}{BRANCH}'
QUICK = profile.get("quick")
NOISE = {f"{PREFIX}steal": LIMITS["steal"] + 1}


@dataclass
class Lab:
    """A gate whose kernels cost, and are as fast as, what it is told of the branch's states."""

    guests: Guests
    repository: Repository
    session: FakeSession
    config: Path
    costs: dict[str, float | LabError] = field(default_factory=lambda: {"c0": 1000.0})
    timed: dict[str, fakes.Answer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.history = GateHistory(self.session.store)
        self.guests.cost_of = lambda state: (
            fakes.insns(submit_bio=cost)
            if isinstance(cost := self.costs.get(state, 1000.0), float)
            else None
        )
        self.guests.says = self.says

    def says(self, job: Job) -> fakes.Answer:
        """What a guest answers: how it was told that its kernel fails, or how fast it is."""
        state = job.task.kernel.id
        if not job.cell.engine.deterministic:
            return self.timed.get(state, {"iops": 1000.0})
        cost = self.costs.get(state)
        return cost if isinstance(cost, GuestError) else {}

    def night(self, state: str, cost: float | LabError = 1000.0) -> BranchResult:
        """A night in which the branch is at a state whose kernel costs so much."""
        self.repository.now, self.costs[state] = state, cost
        self.session.failing = {
            commit: error
            for commit, error in self.costs.items()
            if isinstance(error, LabError) and not isinstance(error, GuestError)
        }
        made = RunBuilder(self.session, "gate")
        config = gate_config.read(self.config)
        (result,) = gate.judge(Gating(config, self.session, self.history, made))
        self.run = made.run((result.series,))
        gate.remember([result], self.run.id, self.history)
        assert RunRecord.model_validate_json(self.run.model_dump_json()) == self.run
        return result

    def accept(self, reason: str) -> str:
        """Accept all that was red in the last night."""
        (judged,) = self.run.series
        bad = [claim.name for claim in judged.claims if claim.verdict != Verdict.HOLDS]
        config = gate_config.read(self.config)
        return gate.accept(config, "next", self.run, bad, reason, self.history)


def reasons(lab: Lab, branch: str) -> list[str]:
    """Why each judgement of a branch was what it was, oldest first."""
    query = "SELECT reason FROM gate_runs WHERE branch = ? ORDER BY id"
    with lab.session.store.connection() as connection:
        return [reason for (reason,) in connection.execute(query, (branch,))]


@pytest.fixture
def lab(tmp_path: Path, guests: Guests, monkeypatch: pytest.MonkeyPatch) -> Lab:
    config = tmp_path / "gate.toml"
    config.write_text(CONFIG)
    session = FakeSession(QUICK, engines=(Engine.KVM, Engine.EXACT))
    return Lab(guests, fakes.repository(monkeypatch), session, config)


def red(result: BranchResult) -> bool:
    return result.series.verdict == Verdict.REFUTED


def green(result: BranchResult) -> bool:
    return result.series.verdict == Verdict.HOLDS


def exact(result: BranchResult) -> FindingRecord:
    """What was found of the cell of the exact engine."""
    return result.series.claims[0].findings[0]


@pytest.mark.slow
def test_nights_without_a_change_are_green_and_equal(lab: Lab) -> None:
    for _ in range(30):
        result = lab.night("c0")
        assert green(result)
        assert set(result.changes.values()) == {0.0}
    assert len(reasons(lab, "next")) == 30
    assert len(lab.guests.booted) == 1  # the same kernel is one measurement


def test_what_each_night_cost_is_kept_for_the_trend(lab: Lab) -> None:
    for state, cost in (("c0", 1000.0), ("c1", 1005.0), ("c2", 990.0)):
        lab.night(state, cost)
    (nights,) = lab.history.nights().values()
    assert [night.commit for night in nights] == ["c0", "c1", "c2"]
    assert [night.good for night in nights] == [True, False, True]
    (cell,) = nights[0].values
    assert [night.values[cell] for night in nights] == [1000.0, 1005.0, 990.0]


def test_a_regression_is_red_and_names_the_function(lab: Lab) -> None:
    lab.night("c0")
    result = lab.night("c1", 1005.0)
    assert red(result)
    finding = exact(result)
    assert finding.reason == "submit_bio +5.0"
    assert finding.measured_change == pytest.approx(0.005)
    assert [len(values) for values in finding.values] == [3, 3]
    reason = reasons(lab, "next")[-1]
    assert reason == "costs more: nullb_mq/none/randread_burst"


def test_options_that_a_branch_changes_are_told(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        gate, "changed_options", lambda old, new: ("CONFIG_X: n -> y",) if old != new else ()
    )
    assert not lab.night("c0").series.configuration
    series = lab.night("c1").series
    assert "differs, too (branch): CONFIG_X: n -> y" in SeriesView(series).configuration


@pytest.mark.parametrize(("cost", "change"), [(1002.9, 0.0029), (997.0, -0.003), (500.0, -0.5)])
def test_less_than_the_threshold_and_savings_are_green_and_shown(
    lab: Lab, cost: float, change: float
) -> None:
    lab.night("c0")
    result = lab.night("c1", cost)
    assert green(result)
    assert exact(result).measured_change == pytest.approx(change)
    assert lab.history.last_good("next") == "git:/linux@c1"


def test_a_red_night_does_not_move_the_baseline(lab: Lab) -> None:
    lab.night("c0")
    lab.night("c1", 1100.0)
    assert red(lab.night("c2", 1100.0))  # still, though nothing got worse since yesterday
    assert green(lab.night("c3", 1001.0))
    assert lab.history.last_good("next") == "git:/linux@c3"


def test_small_steps_add_up_against_a_fixed_baseline(lab: Lab) -> None:
    lab.config.write_text(CONFIG + 'baseline = "git:/linux@c0"\n')
    verdicts = [red(lab.night(f"c{n}", 1000.0 + n)) for n in range(6)]
    assert verdicts == [False, False, False, False, True, True]


def test_accepting_moves_the_baseline_and_keeps_the_reason(lab: Lab) -> None:
    lab.night("c0")
    assert red(lab.night("c1", 1100.0))
    assert lab.accept("worth it") == "git:/linux@c1"
    assert green(lab.night("c2", 1101.0))
    assert "worth it" in reasons(lab, "next")
    with pytest.raises(UsageError, match="did you mean 'next'"):
        gate.accept(gate_config.read(lab.config), "nxt", lab.run, (), "x", lab.history)


def test_what_is_accepted_is_what_was_judged_and_not_what_was_pushed_since(lab: Lab) -> None:
    lab.night("c0")
    assert red(lab.night("c1", 1100.0))
    lab.repository.now, lab.costs["c2"] = "c2", 5000.0
    assert lab.accept("worth it") == "git:/linux@c1"
    assert red(lab.night("c2", 5000.0))


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ((), "1 more: nullb_mq/none/randread_burst.*--cell nullb_mq/none/randread_burst"),
        (("nullb_mq/none/randread_burts",), "not red in run.*did you mean"),
    ],
)
def test_only_what_was_red_is_accepted_and_all_of_it_by_name(
    lab: Lab, cells: tuple[str, ...], message: str
) -> None:
    lab.night("c0")
    assert red(lab.night("c1", 1100.0))
    with pytest.raises(UsageError) as caught:
        gate.accept(gate_config.read(lab.config), "next", lab.run, cells, "x", lab.history)
    assert re.search(message, str(caught.value), re.DOTALL)
    assert lab.history.last_good("next") == "git:/linux@c0"


def test_a_branch_whose_kernel_warns_is_red_although_it_costs_the_same(lab: Lab) -> None:
    lab.night("c0")
    lab.guests.complaints = lambda job: ("WARNING in x()",) * (job.task.kernel.id == "c1")
    result = lab.night("c1", 999.0)
    assert red(result)
    assert exact(result).reason.startswith("WARNING in x() in")


def test_what_was_good_or_has_another_baseline_cannot_be_accepted(lab: Lab) -> None:
    lab.night("c0")
    with pytest.raises(UsageError, match="nothing to accept"):
        lab.accept("x")
    lab.config.write_text(CONFIG + 'baseline = "git:/linux@c0"\n')
    assert red(lab.night("c1", 1100.0))
    with pytest.raises(UsageError, match="whatever was good"):
        lab.accept("x")


@pytest.mark.slow
def test_what_seeds_differ_by_widens_the_threshold_of_a_cell(lab: Lab) -> None:
    """Seeds that differ by 1 %: 0.5 % more cannot be told, 10 % can; no night is open."""
    numbers, usual = random.Random(1), lab.guests.cost_of

    def noisy(kernel: str) -> Cost | None:
        cost = usual(kernel)
        return cost and fakes.insns(submit_bio=cost.kernel_total * numbers.gauss(1, 0.01))

    lab.guests.cost_of = noisy
    lab.night("c0")
    for number in range(1, 5):
        assert green(lab.night(f"c{number}", 1000.0 + 5 * (number % 2)))
    result = lab.night("bad", 1100.0)
    assert red(result)
    assert exact(result).reason.startswith("submit_bio +")


def test_a_kernel_that_breaks_is_red(lab: Lab) -> None:
    lab.night("c0")
    result = lab.night("c1", GuestError("panic", "BUG: null pointer"))
    assert red(result)
    assert "BUG: null pointer" in exact(result).reason
    assert lab.history.last_good("next") == "git:/linux@c0"


def test_a_branch_that_does_not_build_is_red_and_the_lab_failing_is_not(lab: Lab) -> None:
    lab.night("c0")
    assert red(lab.night("c1", BuildError("blk-mq.c:1: expected ;")))
    broken = lab.night("c2", LabError("the disk is full"))
    assert broken.series.verdict == Verdict.ERROR
    assert "the disk is full" in broken.series.error
    assert lab.history.last_good("next") == "git:/linux@c0"
    assert len(reasons(lab, "next")) == 1


@pytest.mark.parametrize("failure", [GuestError("panic", "BUG"), BuildError("expected ;")])
def test_a_broken_baseline_is_the_labs_error(lab: Lab, failure: LabError) -> None:
    lab.config.write_text(CONFIG + 'baseline = "git:/linux@c0"\n')
    lab.costs["c0"] = failure
    assert lab.night("c1").series.verdict == Verdict.ERROR


def test_a_lab_that_fails_with_one_branch_judges_the_others(lab: Lab) -> None:
    lab.config.write_text(CONFIG + '[branches.other]\nsource = "git:/linux@broken"\n')
    lab.session.failing["broken"] = LabError("the disk is full")
    made = RunBuilder(lab.session, "gate")
    config = gate_config.read(lab.config)
    results = gate.judge(Gating(config, lab.session, lab.history, made))
    assert [(result.series.name, result.series.verdict) for result in results] == [
        ("next", Verdict.HOLDS),
        ("other", Verdict.ERROR),
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (CONFIG.replace("threshold", "treshold"), "threshold"),
        (CONFIG.replace("0.3%", "0.3"), "0.25%"),
        (CONFIG.replace("0.3%", "-0.3%"), "not negative: '-0.3%'"),
        (f'wall_clock_threshold = "-5%"\n{BRANCH}', "not negative: '-5%'"),
        ('threshold = "1%"\n', "branches"),
        (CONFIG.replace("source", "sorce"), "source"),
    ],
)
def test_a_wrong_configuration_says_what_is_wrong(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "gate.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=complaint):
        gate_config.read(path)


def test_a_regression_in_no_function_is_told_without_one() -> None:
    planned = fakes.planned(fakes.cell("nullb_mq", engine=Engine.EXACT))
    assert gate._blame(fakes.cell_change(planned, (1.0, 2.0))) == ""


def test_a_night_that_is_cut_off_leaves_nothing(lab: Lab) -> None:
    with pytest.raises(sqlite3.Error):
        lab.history.add("next", "git:/linux@c0", "r", "", {"cell": object()})  # type: ignore[dict-item]
    assert reasons(lab, "next") == []


@pytest.fixture
def timed(lab: Lab) -> Lab:
    """A gate with a cell of wall-clock time, whose first state was good."""
    lab.config.write_text(TIMED + CONFIG + 'baseline = "git:/linux@c0"\n')
    return lab


def wall_clock(result: BranchResult) -> FindingRecord:
    """What was found of the cell of wall-clock time."""
    (claim,) = (claim for claim in result.series.claims if claim.name.endswith("(wall clock)"))
    (finding,) = claim.findings
    assert claim.verdict == finding.verdict
    return finding


def boots(lab: Lab) -> int:
    """How many guests measured wall-clock time."""
    return sum(not job.cell.engine.deterministic for job in lab.guests.booted)


def test_a_slower_branch_is_red_as_soon_as_that_is_sure(timed: Lab) -> None:
    timed.timed["c1"] = {"iops": 800.0}
    result = timed.night("c1")
    assert red(result)
    finding = wall_clock(result)
    assert (finding.verdict, finding.metric) == (Verdict.REFUTED, "iops")
    assert finding.measured_change == pytest.approx(-0.2)
    assert boots(timed) == 2 * 8
    for place, values in zip(finding.cells, finding.values, strict=True):
        cell = timed.run.cells[place]
        assert [boot.values["iops"] for boot in cell.boots] == list(values)


def test_what_is_slower_for_some_rounds_only_is_no_regression(timed: Lab) -> None:
    def says(job: Job) -> fakes.Answer:
        slow = job.task.kernel.id == "c1" and boots(timed) <= 2 * 4
        return {"iops": 940.0 if slow else 1000.0}

    timed.guests.says = says
    result = timed.night("c1")
    assert green(result)
    assert 2 * 6 < boots(timed) <= 2 * QUICK.rounds


def test_what_seeds_make_of_one_state_and_not_again_is_no_regression(lab: Lab) -> None:
    lab.night("c0")
    usual = lab.guests.cost_of
    booted = len(lab.guests.booted)

    def by_chance(kernel: str) -> Cost | None:
        # Three seeds of each kernel are the suspicion, one of which was there; others confirm it.
        cost = usual("c0" if len(lab.guests.booted) - booted > 5 else kernel)
        assert cost is not None
        return cost

    lab.guests.cost_of = by_chance
    result = lab.night("c1", 1005.0)
    assert green(result)
    reason = "+0.50 % and +0.00 %, with some seeds and with others"
    assert exact(result).reason == reason


@pytest.mark.slow
def test_savings_and_what_came_close_do_not_blind_the_gate(lab: Lab) -> None:
    for number in range(20):
        assert green(lab.night(f"c{number}"))
    assert green(lab.night("saved", 950.0))
    assert green(lab.night("d0", 952.0))
    assert red(lab.night("d1", 960.0))
    # Each night as much more as is just allowed: noise does not grow by what it lets through.
    cost, greens = 952.0, 0
    for number in range(12):
        cost *= 1.0029
        greens += green(lab.night(f"e{number}", cost))
    assert greens == 12
    assert red(lab.night("e-end", cost * 1.0061))


@pytest.mark.slow
def test_what_creeps_in_is_red_within_a_week_and_until_it_is_accepted(lab: Lab) -> None:
    cost, reds = 1000.0, []
    lab.night("c0")
    for number in range(1, 30):
        cost *= 1.001
        result = lab.night(f"c{number}", cost)
        reds += [number] if red(result) else []
    assert reds == [*range(3, 30)]  # 0.3 % are allowed
    crept = [claim.name for claim in result.series.claims if claim.name.endswith("since c0")]
    assert crept == ["nullb_mq/none/randread_burst since c0"]
    lab.accept("worth it")
    assert green(lab.night("c30", cost * 1.001))
    lab.config.write_text(CONFIG + 'long_term_baseline = ""\n')
    assert green(lab.night("c31", cost * 1.003))
    assert green(lab.night("c32", cost * 1.005))


def test_a_wall_clock_that_cannot_tell_is_open_and_no_baseline(timed: Lab) -> None:
    """Slower by 2 to 10 %, of which 5 % are allowed: neither green nor red."""
    speeds = itertools.cycle((900.0, 980.0))
    timed.guests.says = lambda job: {"iops": next(speeds) if job.task.kernel.id == "c1" else 1000.0}
    result = timed.night("c1")
    assert wall_clock(result).verdict == Verdict.INCONCLUSIVE
    assert result.series.verdict == Verdict.INCONCLUSIVE
    assert timed.history.last_good("next") is None


@pytest.mark.parametrize("speed", [1000.0, 975.0, 2000.0], ids=["equal", "little", "faster"])
def test_a_branch_that_is_not_slower_is_green_as_soon_as_that_is_sure(
    timed: Lab, speed: float
) -> None:
    timed.timed["c1"] = {"iops": speed}
    result = timed.night("c1")
    assert green(result)
    assert 2 * 6 <= boots(timed) < 2 * QUICK.rounds
    assert wall_clock(result).verdict == Verdict.HOLDS
    assert timed.history.last_good("next") == "git:/linux@c1"


@pytest.mark.parametrize("failure", ["panic", "hang", "failed"])
@pytest.mark.parametrize(
    ("broken", "verdict", "reason"),
    [
        ("c0", Verdict.ERROR, "arm before failed: BUG: x"),
        ("c1", Verdict.REFUTED, "the patched kernel breaks in arm after: BUG: x"),
    ],
)
def test_a_branch_whose_timed_guest_breaks_is_red_and_a_baseline_an_error(
    timed: Lab, failure: str, broken: str, verdict: Verdict, reason: str
) -> None:
    timed.timed[broken] = GuestError(failure, "BUG: x")
    result = timed.night("c1")
    assert result.series.verdict == verdict
    assert wall_clock(result).reason.startswith(reason)
    assert bool(reasons(timed, "next")) is red(result)


@pytest.mark.parametrize("outcome", ["lost", "mismatch", "garbled"])
def test_a_lab_that_fails_while_it_times_a_branch_is_an_error(timed: Lab, outcome: str) -> None:
    timed.timed["c1"] = GuestError(outcome, "QEMU ended")
    result = timed.night("c1")
    assert result.series.verdict == Verdict.ERROR
    again = ATTEMPTS if outcome in ("died", "lost") else 1
    assert boots(timed) == 2 * again
    assert reasons(timed, "next") == []


def test_without_a_whole_round_a_branch_is_neither_green_nor_the_new_baseline(timed: Lab) -> None:
    timed.timed["c1"] = {"iops": 1000.0, **NOISE}
    result = timed.night("c1")
    assert result.series.verdict == Verdict.INCONCLUSIVE
    assert "disturbed every round" in wall_clock(result).reason
    assert timed.history.last_good("next") is None
    (reason,) = reasons(timed, "next")
    assert reason == "not decided: nullb_mq/bfq/randread_burst (wall clock)"


def test_rounds_too_few_for_any_interval_are_no_green(timed: Lab) -> None:
    """The host gets noisy after three rounds: a branch may be much slower and nobody sees it."""

    def says(job: Job) -> fakes.Answer:
        speed = {"iops": 500.0 if job.task.kernel.id == "c1" else 1000.0}
        return {**speed, **NOISE} if boots(timed) > 6 else speed

    timed.guests.says = says
    result = timed.night("c1")
    assert result.series.verdict == Verdict.INCONCLUSIVE
    assert "3 rounds do not decide it" in wall_clock(result).reason
    assert timed.history.last_good("next") is None


def test_a_noisy_cell_cannot_hide_a_regression_of_an_exact_one(timed: Lab) -> None:
    timed.timed["c1"] = {"iops": 1000.0, **NOISE}
    assert red(timed.night("c1", 1100.0))


@pytest.mark.parametrize(
    ("metric", "value", "verdict", "bound"),
    [
        ("passes", 80.0, "REFUTED", ">= -5%"),
        ("passes", 120.0, "HOLDS", ">= -5%"),
        ("amean_ms", 80.0, "HOLDS", "<= +5%"),
        ("amean_ms", 120.0, "REFUTED", "<= +5%"),
    ],
)
def test_more_is_a_regression_of_a_metric_that_is_better_low_alone(
    timed: Lab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    metric: str,
    value: float,
    verdict: str,
    bound: str,
) -> None:
    """By a workload of a user's, whose metric is dbench's passes or its latency."""
    folder = tmp_path / "workloads"
    shutil.copytree(workload.FOLDER, folder)
    text = (folder / "dbench_xfs.toml").read_text()
    assert 'metric = "amean_ms"' in text
    (folder / "dbench_xfs.toml").write_text(text.replace("amean_ms", metric))
    monkeypatch.setattr(workload, "FOLDER", folder)
    config = timed.config.read_text()
    timed.config.write_text(config.replace("nullb_mq/bfq/randread_burst", "raid64/bfq/dbench_xfs"))
    timed.timed = {"c0": {metric: 100.0}, "c1": {metric: value}}
    finding = wall_clock(timed.night("c1"))
    assert (finding.metric, finding.verdict, str(finding.bound)) == (metric, verdict, bound)


def test_a_gate_measures_fio_lines(lab: Lab) -> None:
    cells = EXACT.replace('workloads = ["randread_burst"]', 'fio = ["fio --rw=randread --bs=8k"]')
    lab.config.write_text(f"{cells}{BRANCH}")
    result = lab.night("c0")
    assert green(result)
    (name,) = result.changes
    assert re.fullmatch(r"nullb_mq/none/randread-[0-9a-f]{8}", name)


def test_a_gates_fio_line_that_is_wrong_is_named(lab: Lab) -> None:
    lab.config.write_text(f'fio = ["--rw=read", "--frob=1"]\n{BRANCH}')
    with pytest.raises(UsageError, match="frob") as caught:
        gate_config.read(lab.config)
    assert caught.value.where == f"{lab.config}: fio.1"
