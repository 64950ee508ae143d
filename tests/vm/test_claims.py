# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters and verdicts on real kernels, by the exact engine: what chance cannot change."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lab.build.kernel import Kernel
from lab.guest import retries
from lab.inputs import counters, profile
from lab.inputs.terms import Engine
from lab.judge import experiment
from lab.measure import matrix, sampling
from lab.measure.job import Job, Testbed, resolve
from lab.measure.matrix import Selection
from lab.measure.session import Session

LAB = Path(sys.executable).with_name("lab")


@pytest.fixture(scope="module")
def instrumented() -> Kernel:
    quick = profile.get("quick")
    return Session(quick).kernel(fragments=(*quick.kernel, experiment.INSTRUMENT))


def counted(
    testbed: Testbed, kernel: Kernel, topology: str, scheduler: str, work: str, *counters: str
) -> Job:
    wide = profile.get("quick").model_copy(
        update={
            "matrix": (
                profile.Block(topologies=(topology,), schedulers=(scheduler,), workloads=(work,)),
            )
        }
    )
    (found,) = matrix.cells(wide, Selection(), Engine.EXACT)
    task = found.on(kernel)
    return resolve(replace(task, cell=replace(task.cell, cpus=2, counters=counters)), testbed)


def test_ten_readers_make_nine_merges(
    testbed: Testbed, instrumented: Kernel, tmp_path: Path
) -> None:
    names = ("stable_merges", "lock_acquisitions", "inversions", "mean_batch")
    job = counted(testbed, instrumented, "nullb", "bfq", "randread_burst", *names)
    values = retries.steadily(lambda: sampling.measure(job, tmp_path)).values
    assert values["stable_merges"] == 9
    assert values["requests"] == values["ios"]
    assert values["lock_acquisitions"] > 1  # at least to insert and to dispatch
    assert 0 <= values["inversions"] < 1
    assert values["mean_batch"] == pytest.approx(1, abs=0.1)  # every reader waits for its read


def test_qemu_counts_the_calls_that_the_kernel_itself_counts(
    testbed: Testbed, instrumented: Kernel, tmp_path: Path
) -> None:
    """In one boot. What happens beside the I/O of fio's jobs is not in QEMU's window."""
    same = (
        *("stable_merges", "queue_expirations", "hctx_run_calls"),
        *("bios_per_request", "mean_batch", "hctxs_run"),
    )
    wanted = counters.by_calls((*same, "lock_acquisitions", "inversions"))
    assert wanted
    job = counted(testbed, instrumented, "nullb", "bfq", "randread_burst", *wanted)
    job = replace(job, calls=wanted)
    values = retries.steadily(lambda: sampling.measure(job, tmp_path)).values
    found = sampling.called(job, job.at(tmp_path))
    assert {name: found[name] for name in same} == {name: values[name] for name in same}
    assert found["stable_merges"] == 9
    assert found["queue_expirations"] > 0
    # A lock more or less at either end; a request is chosen when its function returns, or before.
    assert found["lock_acquisitions"] == pytest.approx(values["lock_acquisitions"], rel=0.001)
    assert found["inversions"] == pytest.approx(values["inversions"], rel=0.02, abs=0.001)


def test_dm_without_defects_switches_hardly_ever(
    testbed: Testbed, instrumented: Kernel, tmp_path: Path
) -> None:
    job = counted(
        testbed, instrumented, "dm_mpath", "none", "randread_aio", "switches", "issues_by_kworker"
    )
    sample = retries.steadily(lambda: sampling.measure(job, tmp_path))
    assert sample.facts["disk"].startswith("dm-")
    assert sample.facts["hw_queues"] == "2"
    assert sample.values["switches"] < 0.5
    assert sample.values["issues_by_kworker"] == 0


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
        [LAB, "run", "bfq_burst_merge", "--claim", claim, *control],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert ("HOLDS" if status == 0 else "REFUTED") in done.stdout
