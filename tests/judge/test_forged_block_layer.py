# SPDX-License-Identifier: GPL-2.0-or-later
"""No patch decides what counts as the block layer, in its own verdict or in a later one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import guests as fakes
import pytest
from guests import FakeSession, Guests

from lab.base.errors import UsageError
from lab.build.kernel import Kernel
from lab.commands import cost_diff
from lab.inputs import profile, series
from lab.inputs.series import Series
from lab.inputs.terms import Engine, Verdict
from lab.judge import case, judge
from lab.judge.finding import Finding
from lab.measure import cost
from lab.measure.boot_store import BootStore
from lab.measure.cost import Cost
from lab.measure.job import Job

SEEDED = profile.get("quick").model_copy(update={"seeds": 3})
# What an I/O costs in a kernel without patches, and which of it is the block layer's.
BASE = {"submit_bio": 1200.0, "blk_mq_run": 800.0, "kmem_cache_alloc": 500.0, "schedule": 900.0}
LAYER = ("submit_bio", "blk_mq_run")
CLAIM = (
    'title = "t"\norigin = "o"\n[claims.c]\npublished = "p"\ntopology = "nullb_mq"\n'
    'scheduler = "none"\nworkload = "randread_burst"\n[[claims.c.expect]]\nbecause = "b"\n'
    'metric = "block_layer_insns_per_io"\n'
)


@dataclass(frozen=True)
class Patched:
    """What a patch makes of the kernel: the cost of its functions, and the list that it leaves."""

    costs: Mapping[str, float]
    listed: Sequence[str] = ()
    code: str = ""
    symbols: Sequence[str] = ()


@dataclass
class Session(FakeSession):
    """A session whose kernels have the functions and the list of what they were patched with."""

    patched: dict[str, Patched] = field(default_factory=dict)

    def kernel(
        self, spec: str = "", patches: Sequence[Path] = (), fragments: Sequence[str] = ()
    ) -> Kernel:
        made = super().kernel(spec, patches, fragments)
        patch = self.made(made.id)
        made.vmlinux.write_text(patch.code or made.id)
        lines = (f"{n:016x} t {name}\n" for n, name in enumerate(patch.symbols or patch.costs))
        made.system_map.write_text("".join(lines))
        (made.folder / "block-layer").write_text("".join(f"{name}\n" for name in patch.listed))
        return made

    def made(self, kernel: str) -> Patched:
        return self.patched.get(kernel.partition("+")[2], Patched(BASE, LAYER, "base"))


@pytest.fixture
def session(guests: Guests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setattr(series, "FOLDER", tmp_path / "patches")
    fake_session = Session(SEEDED)

    def says(job: Job) -> fakes.Answer:
        costs = Cost(0.0, fake_session.made(job.task.kernel.id).costs)
        return {cost.BLOCK_LAYER: costs.within(job.block_layer)}

    guests.cost_of = lambda kernel: Cost(0.0, fake_session.made(kernel).costs)
    guests.says = says
    return fake_session


def written(name: str, expected: str) -> Series:
    """A series of one patch with a claim on the block layer's cost."""
    patch = series.FOLDER / name / f"series/{name}.patch"
    patch.parent.mkdir(parents=True, exist_ok=True)
    patch.write_text("")
    (series.FOLDER / name / "series.toml").write_text(f"{CLAIM}{expected}\n")
    return series.get(name)


def judged(
    session: Session, name: str, patched: Patched, expected: str = 'change = "<= -20%"'
) -> Finding:
    session.patched[name] = patched
    (judged_series,) = judge.judge([written(name, expected)], session)
    assert not judged_series.error
    (finding,) = judged_series.findings
    return finding


FORGED = Patched(BASE, ["blk_mq_run"], "base")
HONEST = Patched({**BASE, "submit_bio": 600.0}, LAYER, "honest")
MOVED = {
    "into a function that there is": {**BASE, "submit_bio": 600.0, "schedule": 1500.0},
    "into a new one": {**BASE, "submit_bio": 600.0, "alloc_more": 600.0},
}


def test_a_list_that_a_makefile_cut_saves_nothing(session: Session) -> None:
    """As a line in scripts/link-vmlinux.sh does that deletes block/built-in.a."""
    finding = judged(session, "evil", FORGED)
    assert finding.verdict is Verdict.REFUTED
    assert finding.measured == (2000.0, 2000.0)


@pytest.mark.parametrize("costs", MOVED.values(), ids=MOVED)
@pytest.mark.parametrize("seeds", [1, 3])
def test_what_moves_out_of_the_block_layer_is_not_saved(
    session: Session, costs: dict[str, float], seeds: int
) -> None:
    session.profile = SEEDED.model_copy(update={"seeds": seeds})
    finding = judged(session, "evil", Patched(costs, LAYER))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.measured_change == pytest.approx(-0.3)
    assert "costs 600.0 instructions an I/O less, but the rest of the kernel" in finding.reason
    assert "code may have moved out of the block layer" in finding.reason


def test_what_is_added_beside_what_moves_out_is_no_standstill(session: Session) -> None:
    costs = {**BASE, "kmem_cache_alloc": 1100.0}
    finding = judged(session, "evil", Patched(costs, LAYER), 'change = "-1% .. +1%"')
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "costs 0.0 instructions an I/O less" in finding.reason


def test_an_honest_saving_holds_with_its_new_functions(session: Session) -> None:
    costs = {**BASE, "submit_bio": 300.0, "submit_bio_fast": 200.0}
    finding = judged(session, "own", Patched(costs, [*LAYER, "submit_bio_fast"]))
    assert finding.verdict is Verdict.HOLDS
    assert finding.measured == (2000.0, 1300.0)


@pytest.mark.parametrize(
    "forged",
    [FORGED, Patched(BASE, LAYER, "base", symbols=["submit_bio", "kmem_cache_alloc"])],
    ids=["another list", "another System.map"],
)
def test_what_was_measured_of_a_forged_kernel_changes_no_later_number(
    session: Session, tmp_path: Path, forged: Patched
) -> None:
    """The forged kernel is equal to the byte to the one that the honest series is compared with."""
    judged(session, "evil", forged)
    after = judged(session, "own", HONEST)
    session.store = BootStore(tmp_path / "empty")
    alone = judged(session, "own", HONEST)
    assert after.verdict is alone.verdict is Verdict.HOLDS
    assert after.evidence.values == alone.evidence.values == ((2000.0,) * 3, (1400.0,) * 3)


def test_a_value_of_the_block_layer_alone_is_refused(session: Session) -> None:
    (judged_series,) = judge.judge([written("own", 'value = "<= 500"')], session)
    assert "is only compared" in judged_series.error
    with pytest.raises(UsageError, match="write change"):
        case.prepare(written("own", 'value = "<= 500"'), session)


@pytest.mark.parametrize("costs", MOVED.values(), ids=MOVED)
def test_in_a_comparison_code_that_moved_is_no_change_that_is_sure(
    session: Session, costs: dict[str, float]
) -> None:
    session.patched["evil"] = Patched(costs, ["blk_mq_run"])
    cell = fakes.planned(fakes.cell("nullb_mq", "none", engine=Engine.EXACT, cpus=1))
    pair = session.kernel("x:6.12"), session.kernel("x:6.12", [Path("evil.patch")])
    (comparison,) = cost_diff.measure(session, pair, [cell], cost_diff.CHANGED)
    assert comparison.finding.verdict is Verdict.INCONCLUSIVE
    assert "code may have moved out of the block layer" in comparison.finding.reason
