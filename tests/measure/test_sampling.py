# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest sent becomes numbers, or an error that says why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import guests as fakes
import pytest

from lab.base.errors import KERNEL_FAILURES, GuestError
from lab.guest import boot
from lab.guest.boot import Boot
from lab.inputs.terms import Engine
from lab.measure import cost, dbench, metrics, sampling
from lab.measure.cell import Task
from lab.measure.job import Job, resolve

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(autouse=True)
def _load_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here depends on an installed dbench."""
    monkeypatch.setattr(dbench, "load_file", lambda: fakes.LOAD)


FACTS = dict(line.split("\t", 1) for line in (DATA / "facts-raid64.tsv").read_text().splitlines())
FIO = (DATA / "fio-randwrite-group.json").read_text()
DBENCH = (DATA / "dbench-4-clients.log").read_text()
Sends = Callable[..., None]


def job(
    work: str = "randread_burst",
    engine: Engine = Engine.TCG,
    counters: tuple[str, ...] = (),
    system_map: str = "",
    **changes: int,
) -> Job:
    """A job on raid64, and on a kernel with this System.map."""
    kernel = fakes.kernel("kernel-id")
    if system_map:
        kernel.system_map.write_text(system_map)
    cell = fakes.cell("raid64", work=work, engine=engine, counters=counters, parameters=changes)
    testbed = fakes.checked_testbed(kernel, plugin=fakes.PLUGIN)
    return resolve(Task(cell=cell, kernel=kernel), testbed)


@pytest.fixture
def guest_sends(monkeypatch: pytest.MonkeyPatch) -> Sends:
    """Let the next boots return given outputs and facts."""

    def sends(outputs: dict[str, str], **more: str) -> None:
        done = Boot({**FACTS, **more}, outputs, {"workload": 3.0})
        monkeypatch.setattr(boot, "run", lambda *_: done)

    return sends


@pytest.mark.parametrize(
    ("work", "name", "text", "metric", "value"),
    [
        ("randwrite_uring", "fio.json", FIO, "iops", 57563.255966),
        ("dbench_xfs", "dbench.log", DBENCH, "amean_ms", 24520000 / 3992),
    ],
    ids=["fio", "dbench"],
)
def test_a_boot_gives_numbers_and_leaves_its_raw_files(
    guest_sends: Sends, tmp_path: Path, work: str, name: str, text: str, metric: str, value: float
) -> None:
    guest_sends({name: text})
    changes: dict[str, Any] = {"clients": 4, "seconds": 10} if work == "dbench_xfs" else {}
    sample = sampling.measure(job(work, **changes), tmp_path)
    assert sample.values[metric] == pytest.approx(value)
    assert sample.values.keys() <= {*metrics.known_names()}
    assert sample.facts == FACTS
    assert (tmp_path / name).read_text() == text


def test_numbers_of_a_guest_that_is_not_its_topology_are_refused(
    guest_sends: Sends, tmp_path: Path
) -> None:
    guest_sends({"fio.json": FIO}, hw_queues="1")
    with pytest.raises(GuestError) as caught:
        sampling.measure(job(), tmp_path)
    assert caught.value.outcome == "mismatch"
    assert (tmp_path / "fio.json").exists()


def test_a_guest_that_sent_no_result_is_a_failed_guest(guest_sends: Sends, tmp_path: Path) -> None:
    guest_sends({})
    with pytest.raises(GuestError, match="no job"):
        sampling.measure(job(), tmp_path)


SYSTEM_MAP = "ffffffff81000000 T submit_bio\nffffffff81000100 T __x64_sys_sethostname\n"
JOBS, FEW, MANY = 2, 1000, 41000
MS = 256_000_000 // 1000 * 1000  # a millisecond as the plugin counts


class Forged:
    """What an exact guest leaves: honest unless a test changes it.

    Each I/O costs 50 instructions in the kernel and 20 in user space, and takes 5 us.
    """

    def __init__(self) -> None:
        self.marks = [0, 0, 0]  # more than there are: before, between and after the fio runs
        self.ios = {"few": FEW, "many": MANY}
        self.runtime_ms = {"few": FEW // 200, "many": MANY // 200}
        self.end = "end\n"

    def counts(self) -> str:
        counted: list[tuple[int, int, int, int]] = []
        now, marks = 0, self.marks[0]
        for ios in (FEW, FEW, MANY):
            began, now, ended = now + 50 * MS, now + 50 * MS + ios * MS // 200, marks + 2 * JOBS + 1
            counted += [(9, 9, began, marks + 1), (1000, 3000, began, marks + 2)]
            counted += [(ios * 20, ios * 50, now, ended), (1000, 2000, now + MS, ended + 1)]
            marks = ended + 1 + (self.marks[1] if ios == MANY else 0)
        counted.append((7, 7, now + 2 * MS, marks + self.marks[2]))
        phases = (
            f"phase {number} {user} {ended} {made}\nffffffff81000004 {kernel} 1 0\n"
            for number, (user, kernel, ended, made) in enumerate(counted)
        )
        return "".join(phases) + self.end

    def outputs(self) -> dict[str, str]:
        return {f"{name}.json": self._json(name) for name in self.ios}

    def _json(self, name: str) -> str:
        document: dict[str, Any] = json.loads(FIO)
        ios, runtime = self.ios[name], self.runtime_ms[name]
        totals = {"total_ios": ios, "runtime": runtime, "iops": 1000 * ios / runtime}
        document["jobs"][0]["write"].update(totals)
        return json.dumps(document)


def measured(forged: Forged, guest_sends: Sends, folder: Path) -> dict[str, float]:
    """The numbers of an exact guest that left this."""
    exact_job = job(engine=Engine.EXACT, system_map=SYSTEM_MAP, numjobs=JOBS)
    guest_sends(forged.outputs(), **{"queue/scheduler": "none [bfq]"})
    (folder / "insns").write_text(forged.counts())
    return dict(sampling.measure(exact_job, folder).values)


def test_an_honest_guest_costs_what_the_plugin_counted_over_what_was_ordered(
    guest_sends: Sends, tmp_path: Path
) -> None:
    values = measured(Forged(), guest_sends, tmp_path)
    assert values[cost.KERNEL] == pytest.approx(50, rel=1e-3)
    assert values[cost.USER] == pytest.approx(20, rel=1e-3)
    assert values[cost.TIME] == pytest.approx(5000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"marks": [6, 0, 0]}, "24 marks, not the 18"),
        ({"marks": [1, 0, 0]}, "19 marks, not the 18"),
        ({"marks": [0, 6, 0]}, "24 marks, not the 18"),
        ({"marks": [0, 0, 1]}, "19 marks, not the 18"),
        ({"ios": {"few": FEW, "many": 10 * MANY}}, "did 410,000 I/Os, not the 41,000"),
        ({"ios": {"few": FEW - 1, "many": MANY}}, "did 999 I/Os, not the 1,000"),
        ({"runtime_ms": {"few": 5, "many": 900}}, "took 0.900 s"),
        ({"runtime_ms": {"few": 5, "many": 3}}, "took 0.002 s less"),
        ({"end": ""}, "cut off"),
        ({"end": "phase 0 1 1\nend\n"}, "none of the plugin's"),
        ({"end": "rubbish\nend\n"}, "none of the plugin's"),
    ],
)
def test_a_guest_that_forges_gives_no_number_and_it_is_its_kernel_that_did(
    guest_sends: Sends, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    forged = Forged()
    vars(forged).update(change)
    with pytest.raises(GuestError, match=message) as caught:
        measured(forged, guest_sends, tmp_path)
    assert caught.value.outcome in KERNEL_FAILURES
    assert not (tmp_path / "cost.tsv").exists()


def test_counters_of_dbench_are_of_its_run_alone(guest_sends: Sends, tmp_path: Path) -> None:
    functions = {0x200: "blk_mq_start_request", 0x300: "scsi_queue_rq", 0x400: "other"}
    more = "".join(f"ffffffff81000{place:x} T {name}\n" for place, name in functions.items())
    exact_job = job(
        *("dbench_xfs", Engine.EXACT, ("requests",), SYSTEM_MAP + more), clients=4, seconds=10
    )
    scsi, unrelated = (f"ffffffff81000{place}08 9 {{}} ffffffff81000200\n" for place in (3, 4))
    calls = [(2, 3), (5, 7), (11, 13), (17, 19), (23, 29)]
    (tmp_path / "insns").write_text(
        "".join(
            f"phase {number} 1 1 {number}\n"
            f"{scsi.format(scsi_calls)}{unrelated.format(unrelated_calls)}"
            for number, (scsi_calls, unrelated_calls) in enumerate(calls)
        )
        + "end\n"
    )
    guest_sends({"dbench.log": DBENCH})
    values = sampling.measure(exact_job, tmp_path).values
    assert values["requests"] == 11
    assert values["amean_ms"] == pytest.approx(24520000 / 3992)
