# SPDX-License-Identifier: GPL-2.0-or-later
"""Every number has a unit and a direction, and a counter brings its own."""

from __future__ import annotations

from pathlib import Path

import guests as fakes
import pytest

from lab.base.errors import UsageError
from lab.inputs import counters, workload
from lab.inputs.terms import Better, Engine
from lab.measure import cost, dbench, fio, metrics

HIGHER = {
    *("iops", "bw_mib", "ios", "throughput_mb", "passes"),
    *("mean_batch", "bios_per_request", "sequential", "stable_merges"),
}


@pytest.mark.parametrize("name", metrics.known_names())
def test_every_metric_has_a_unit_and_improves_in_its_direction(name: str) -> None:
    metric = metrics.get(name)
    assert metric.unit
    assert metric.better is (Better.HIGHER if name in HIGHER else Better.LOWER)


def test_all_that_tools_and_counters_give_is_known() -> None:
    names = {*fio.METRICS, *dbench.METRICS, *cost.METRICS, *counters.known()}
    assert names <= {*metrics.known_names()}
    assert {*metrics.known_names()} >= HIGHER


def test_an_unknown_metric_gets_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="did you mean 'iops'"):
        metrics.get("iopss")


@pytest.mark.parametrize("name", workload.known())
def test_every_workload_is_shown_by_a_number_that_its_tool_gives(name: str) -> None:
    metrics.require_headline(name)
    assert workload.get(name).metric in metrics.of_workload(name)


def test_a_workload_whose_tool_does_not_give_its_metric_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "FOLDER", tmp_path)
    (tmp_path / "own.toml").write_text('title = "t"\ntool = "dbench"\nmetric = "amen_ms"\n')
    with pytest.raises(UsageError, match="did you mean 'amean_ms'") as caught:
        metrics.require_headline("own")
    assert caught.value.where == f"{tmp_path / 'own'}.toml: metric"


@pytest.mark.parametrize("better", [*Better, None])
def test_a_new_counter_says_which_way_is_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, better: Better | None
) -> None:
    monkeypatch.setattr(counters, "FOLDER", tmp_path)
    said = f'better = "{better}"\n' if better else ""
    calls = 'calls = ["blk_mq_start_request"]\n'
    (tmp_path / "own.toml").write_text(f'title = "t"\nunit = "requests"\n{said}{calls}')
    metric = metrics.get("own")
    assert (metric.unit, metric.better) == ("requests", better or Better.LOWER)
    assert metrics.improvement(0.1, metric.better) == (0.1 if better is Better.HIGHER else -0.1)


def test_a_counter_that_improves_sideways_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "FOLDER", tmp_path)
    (tmp_path / "own.toml").write_text('title = "t"\nunit = "u"\nbetter = "more"\ncalls = ["f"]\n')
    with pytest.raises(UsageError, match="'higher' or 'lower'"):
        metrics.get("own")


def test_the_exact_engine_is_shown_by_what_an_io_costs() -> None:
    deterministic, timed = (fakes.cell(engine=engine) for engine in (Engine.EXACT, Engine.TCG))
    every = {"iops": 1.0, cost.TIME: 2.0, cost.KERNEL: 3.0}
    assert metrics.headline(deterministic, every) == cost.KERNEL
    assert metrics.headline(deterministic, {"iops": 1.0, cost.TIME: 2.0}) == cost.TIME
    assert metrics.headline(deterministic, {"iops": 1.0}) == "iops"
    assert metrics.headline(timed, every) == "iops"
