# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters and verdicts on real kernels, by the exact engine: what chance cannot change."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from real import job

from lab.guest import retries
from lab.inputs.terms import Engine
from lab.measure import dbench, sampling
from lab.measure.job import Job, Testbed, resolve

LAB = Path(sys.executable).with_name("lab")


def counted(
    testbed: Testbed,
    topology: str,
    scheduler: str,
    work: str,
    *counters: str,
    cost: bool = False,
    **changes: int,
) -> Job:
    """A job on two vCPUs whose counters are counted alone, or beside what else it gives."""
    wanted = job(testbed, topology, scheduler, work, Engine.EXACT, **changes)
    cell = replace(wanted.cell, cpus=2, counters=counters, cost=cost)
    return resolve(replace(wanted.task, cell=cell), testbed)


def test_ten_readers_make_nine_merges(testbed: Testbed, tmp_path: Path) -> None:
    names = (
        *("stable_merges", "queue_expirations", "lock_acquisitions", "inversions"),
        *("mean_batch", "bios_per_request", "hctxs_run"),
    )
    wanted = counted(testbed, "nullb", "bfq", "randread_burst", *names)
    values = retries.steadily(partial(sampling.measure, wanted, tmp_path)).values
    assert values["stable_merges"] == 9
    assert values["requests"] == values["ios"]
    assert values["queue_expirations"] > 0
    assert values["lock_acquisitions"] > 1  # at least to insert and to dispatch
    assert 0 <= values["inversions"] < 1
    assert values["mean_batch"] == pytest.approx(1, abs=0.1)  # every reader waits for its read
    assert values["bios_per_request"] == 1
    assert values["hctxs_run"] == 1


def test_what_is_counted_per_request_is_the_same_alone_and_beside_a_cost(
    testbed: Testbed, tmp_path: Path
) -> None:
    names = ("bios_per_request", "lock_acquisitions", "mean_batch")
    values = []
    for cost in (False, True):
        wanted = counted(testbed, "nullb", "mq-deadline", "randread_burst", *names, cost=cost)
        folder = tmp_path / str(cost)
        values.append(retries.steadily(partial(sampling.measure, wanted, folder)).values)
    alone, beside = values
    assert beside["requests"] == 4 * alone["requests"]
    for name in names:
        assert beside[name] == pytest.approx(alone[name], rel=0.01)


def test_dm_without_defects_switches_hardly_ever(testbed: Testbed, tmp_path: Path) -> None:
    wanted = counted(testbed, "dm_mpath", "none", "randread_aio", "switches", "switches_kworker")
    sample = retries.steadily(partial(sampling.measure, wanted, tmp_path))
    assert sample.facts["disk"].startswith("dm-")
    assert sample.facts["hw_queues"] == "2"
    assert sample.values["switches"] < 0.5
    assert sample.values["switches_kworker"] <= sample.values["switches"]


def test_dbench_is_counted_in_the_boot_that_gives_its_time(
    testbed: Testbed, tmp_path: Path
) -> None:
    wanted = counted(
        *(testbed, "raid64", "bfq", "dbench_xfs", "requests"), cost=True, clients=1, seconds=4
    )
    values = retries.steadily(partial(sampling.measure, wanted, tmp_path)).values
    flushes = values["passes"] * dbench.load_file().operations["Flush"]
    assert values["requests"] > 2 * flushes  # data, and the log of the file system


def test_requests_that_fail_and_are_given_to_the_driver_again_are_counted(
    testbed: Testbed, tmp_path: Path
) -> None:
    """Every 17th command of raid64_faults fails."""
    wanted = counted(testbed, "raid64_faults", "bfq", "verify_switching", "requests", mib=1)
    values = retries.steadily(partial(sampling.measure, wanted, tmp_path)).values
    assert values["requests"] == pytest.approx(values["ios"] * (1 + 1 / 17), rel=0.01)


@pytest.mark.parametrize(
    ("claim", "control", "status"),
    [
        ("other_schedulers", (), 0),
        ("randread_throughput", ("--control", "no-op"), 1),  # the same kernels: no rounds
    ],
)
def test_an_exact_claim_is_judged(
    claim: str,
    control: tuple[str, ...],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAB_RESULTS", str(tmp_path / "results"))
    done = subprocess.run(
        [LAB, "run", "bfq_burst_merge", "--config", "small", "--claim", claim, *control],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert ("HOLDS" if status == 0 else "REFUTED") in done.stdout
