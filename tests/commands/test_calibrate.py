# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine model from measurements: each number by hand, and what is no basis for one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from lab.base.errors import LabError
from lab.base.progress import Progress
from lab.commands import calibrate, validate
from lab.inputs import machine_model
from lab.inputs.machine_model import Memory
from lab.measure import primitives
from lab.measure.primitives import Measured, Primitive, Repetition

ALONE = {"cycle": 0.4, "pause": 16.0, "clock": 12.0, "own-add": 6.4}
# By name and number of lines.
PAIR = {
    "modified-chain": {0: 30.0, 4: 350.0, 16: 1310.0},
    "clean-chain": {4: 300.0, 16: 1140.0},
    "shared-stores": {0: 30.0, 1: 90.0},
    "modified-loads": {4: 120.0, 16: 240.0},
    "modified-stores": {4: 120.0, 16: 300.0},
    "modified-adds": {4: 150.0, 16: 510.0},
    "shared-adds": {4: 160.0, 16: 460.0},
    "read-stores": {0: 30.0, 16: 46.0},
    "add-owners": {0: 66.4},
    "compare-exchange": {0: 30.0},
    "compare-exchange-fails": {0: 40.0},
}


def alone() -> Measured:
    return {Primitive(name, 0, 1): [Repetition(ns)] * 5 for name, ns in ALONE.items()}


def pair(before: float = 60.0, **changes: float) -> Measured:
    measured = {
        Primitive(name, lines, 2): [Repetition(ns, before, 60.0)] * 5
        for name, by_lines in PAIR.items()
        for lines, ns in by_lines.items()
    }
    for key, ns in changes.items():
        name, _, lines = key.rpartition("_")
        primitive = Primitive(name.replace("_", "-"), int(lines), 2)
        measured[primitive] = [Repetition(ns, 60.0, 60.0)] * 5
    return measured


def memory(measured: Measured) -> Memory:
    """The memory of a model by one distance."""
    model = calibrate.model("x", 1.43, alone(), [(2, measured)]).model
    assert model.memory is not None
    return model.memory


def test_every_number_of_a_model_is_measured_or_said_to_be_assumed() -> None:
    model = calibrate.model("two sockets", 1.43, alone(), [(8, pair()), (16, pair())]).model
    assert (model.cpus, model.pause_ns, model.clock_ns) == (16, 16.0, 12.0)
    assert model.insn_ns == pytest.approx(0.4 / 1.43, rel=0.01)
    assert [level.cpus for level in model.level] == [8, 16]
    # 12 more lines of a chain; the one store that others share.
    assert model.level[0].costs_ns == (70.0, 80.0, 60.0)
    assert model.memory is not None
    # An owner has a line for 66.4 ns: half a transfer, an addition, and a quarter of a transfer.
    assert model.memory.stay == pytest.approx((66.4 - 6.4) / 80 - 0.5)
    assert model.memory.locked_ns == pytest.approx(6.0)
    gaps = (model.memory.load_gap_ns, model.memory.store_gap_ns, model.memory.locked_gap_ns)
    assert gaps == (10.0, 15.0, 30.0)
    assert model.memory.upgrade_gap_ns == 25.0
    assert model.core is not None
    assert model.core.cycle_ns == 0.4


def test_a_read_takes_ownership_where_the_store_after_it_is_free() -> None:
    assert memory(pair(read_stores_16=46.0)).reads_take_ownership
    assert not memory(pair(read_stores_16=30.0 + 16 * 60.0)).reads_take_ownership


def test_readers_keep_lines_where_few_exchanges_fail() -> None:
    assert memory(pair(compare_exchange_fails_0=121.0)).readers_keep_lines
    assert not memory(pair(compare_exchange_fails_0=119.0)).readers_keep_lines


def test_a_row_that_makes_a_model_does_not_judge_it() -> None:
    loop, measured = Primitive("compare-exchange", 0, 2), pair()
    assert loop in calibrate.used(measured)
    del measured[calibrate.FAILED]
    assert loop not in calibrate.used(measured)


def test_the_range_of_a_number_stands_beside_it() -> None:
    measured = pair()
    times = [Repetition(ns, 60.0, 60.0) for ns in (60.0, 66.0, 66.4, 67.0, 500.0)]
    measured[Primitive("add-owners", 0, 2)] = times
    text = calibrate.model("x", 1.43, alone(), [(2, measured)]).text
    assert f"# measured: {(66 - 6.4) / 80 - 0.5:.3g} to {(67 - 6.4) / 80 - 0.5:.3g}\nstay" in text


def measure_two_cpus(monkeypatch: pytest.MonkeyPatch, pairs: Iterable[Measured]) -> None:
    """Let a machine have two CPUs, of which these pairs are measured one after the other."""
    measured = iter(pairs)

    def natively(threads: Sequence[int], cpus: Sequence[int]) -> Measured:
        return alone() if threads == (1,) else next(measured)

    monkeypatch.setattr(primitives, "natively", natively)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})


def test_cpus_that_move_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    measure_two_cpus(monkeypatch, itertools.repeat(pair(before=160.0)))
    with pytest.raises(LabError, match="took 160 to 160 ns from CPU 0 to CPU 1"):
        calibrate.calibrate(Progress())


def test_cpus_that_move_to_and_fro_give_a_model_of_each_distance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    far = {
        key: [Repetition(3 * each.ns, 180.0, 180.0) for each in repetitions[:4]]
        for key, repetitions in pair().items()
    }
    measure_two_cpus(monkeypatch, [pair(), far, pair()])
    usual, moved = calibrate.calibrate(Progress())
    assert [each.model.level[0].dirty_ns for each in (usual, moved)] == [80.0, 240.0]
    chain = Primitive("modified-chain", 4, 2)
    assert [{r.ns for r in each.measured[chain]} for each in (usual, moved)] == [{350.0}, {1050.0}]
    assert usual.disturbed == 4 * len(far)
    assert moved.measured[Primitive("pause", 0, 1)] == usual.measured[Primitive("pause", 0, 1)]


def test_one_cpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3})
    with pytest.raises(LabError, match="has one CPU"):
        calibrate.calibrate(Progress())


def test_distances_are_those_of_the_kernels_topology(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "_CPU", tmp_path)
    for name, cpus in (
        ("topology/core_cpus_list", "0,8"),
        ("cache/index3/shared_cpu_list", "0-3,8-11"),
        ("topology/package_cpus_list", "0-3,8-11"),
    ):
        path = tmp_path / "cpu0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{cpus}\n")
    assert calibrate.distances(range(16)) == {
        2: [(0, 8), (0, 8), (0, 8)],
        8: [(0, 11), (0, 9), (0, 1)],
        16: [(0, 15), (0, 12), (0, 4)],
    }


def test_a_range_leaves_out_a_tenth_at_each_end() -> None:
    measured = alone()
    measured[Primitive("pause", 0, 1)] = [Repetition(float(ns)) for ns in range(1, 21)]
    text = calibrate.model("x", 1.43, measured, [(2, pair())]).text
    assert "# measured: 3 to 18\npause_ns = 10.5\n" in text


def test_the_model_of_a_machine_that_was_measured_is_near_to_what_was_recorded() -> None:
    """The recorded deciles are of the same measurements, of several runs."""
    measured = validate.hardware("emr16")
    model = calibrate.model("x", 1.43, measured, [(16, measured)]).model
    kept = machine_model.get("emr16")
    assert model.level[0].costs_ns == pytest.approx(kept.level[0].costs_ns, rel=0.1)
    assert model.memory is not None
    assert kept.memory is not None
    assert model.memory.load_gap_ns == pytest.approx(kept.memory.load_gap_ns, rel=0.1)
    assert model.memory.reads_take_ownership == kept.memory.reads_take_ownership
