# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest sent becomes numbers, or an error that says why not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import guests as fakes
import pytest

from lab.base.errors import GuestError
from lab.guest import boot
from lab.guest.boot import Boot
from lab.guest.orders import Orders
from lab.guest.qemu_command import Machine
from lab.guest.time_slices import Slot
from lab.measure import dbench, metrics, sampling
from lab.measure.cell import Task
from lab.measure.job import Job, resolve

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(autouse=True)
def _load_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here depends on an installed dbench."""
    monkeypatch.setattr(dbench, "load_file", lambda: fakes.LOAD)


def job(work: str = "randread_burst", **changes: int) -> Job:
    """A job on raid64."""
    kernel = fakes.kernel("kernel-id")
    cell = fakes.cell("raid64", work=work, parameters=changes)
    return resolve(Task(cell=cell, kernel=kernel), fakes.proved(kernel))


def facts() -> dict[str, str]:
    lines = (DATA / "facts-raid64.tsv").read_text().splitlines()
    return dict(line.split("\t", 1) for line in lines)


@pytest.fixture
def guest_sends(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the next boots return given outputs and facts."""

    def sends(outputs: dict[str, str], reported: dict[str, str]) -> None:
        def run(
            machine: Machine,
            orders: Orders,
            observe: Callable[[str], None] = lambda phase: None,
            slot: Slot | None = None,
        ) -> Boot:
            return Boot(reported, outputs, {"workload": 3.0})

        monkeypatch.setattr(boot, "run", run)

    return sends


@pytest.mark.parametrize(
    ("work", "name", "recorded", "metric", "value"),
    [
        ("randwrite_uring", "fio.json", "fio-randwrite-group.json", "iops", 57563.255966),
        ("dbench_xfs", "dbench.log", "dbench-4-clients.log", "amean_ms", 24520000 / 3992),
    ],
)
def test_a_boot_gives_numbers_and_leaves_its_raw_files(
    guest_sends: Callable[..., None],
    tmp_path: Path,
    work: str,
    name: str,
    recorded: str,
    metric: str,
    value: float,
) -> None:
    text = (DATA / recorded).read_text()
    guest_sends({name: text}, facts())
    changes = {"clients": 4, "seconds": 10} if work == "dbench_xfs" else {}
    sample = sampling.measure(job(work, **changes), tmp_path)
    assert sample.values[metric] == pytest.approx(value)
    assert sample.values.keys() <= {*metrics.known_names()}
    assert sample.facts == facts()
    assert (tmp_path / name).read_text() == text


def test_numbers_of_a_guest_that_is_not_its_topology_are_refused(
    guest_sends: Callable[..., None], tmp_path: Path
) -> None:
    text = (DATA / "fio-randwrite-group.json").read_text()
    guest_sends({"fio.json": text}, {**facts(), "hw_queues": "1"})
    with pytest.raises(GuestError) as caught:
        sampling.measure(job(), tmp_path)
    assert caught.value.outcome == "mismatch"
    assert (tmp_path / "fio.json").exists()


def test_a_guest_that_sent_no_result_is_a_failed_guest(
    guest_sends: Callable[..., None], tmp_path: Path
) -> None:
    guest_sends({}, facts())
    with pytest.raises(GuestError, match="no job"):
        sampling.measure(job(), tmp_path)
