# SPDX-License-Identifier: GPL-2.0-or-later
"""What a session measures with: locks, checks of engines, and orders that stay what they were."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Sequence
from pathlib import Path

import guests as fakes
import pytest
from guests import FakeSession, Guests

from lab.base import cache
from lab.base.errors import GuestError, LabError, UsageError
from lab.build import kernel, patching, source
from lab.guest import boot
from lab.guest.boot import Boot
from lab.guest.orders import Orders
from lab.guest.qemu_command import Machine
from lab.inputs import profile, workload
from lab.inputs.terms import Engine
from lab.measure import dbench, determinism, sampling
from lab.measure.cell import Task
from lab.measure.job import Job, resolve
from lab.measure.sampling import Sample
from lab.measure.session import Session

DATA = Path(__file__).parents[1] / "data"
QUICK = profile.get("quick")


@pytest.fixture
def session() -> FakeSession:
    return FakeSession(QUICK)


def task(engine: Engine, topology: str = "nullb_mq", arm: str = "stock") -> Task:
    cell = fakes.cell(topology, engine=engine)
    return Task(cell=cell, kernel=fakes.kernel(f"kernel-{arm}"), arm=arm)


def held(path: Path) -> bool:
    """Whether somebody holds a lock file."""
    if not path.exists():
        return False
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.parametrize(
    ("engines", "checks"),
    [
        ((Engine.EXACT,), 2),
        ((Engine.TCG,), 0),
        ((Engine.KVM,), 0),
        ((Engine.EXACT, Engine.TCG), 2),
        ((), 0),
    ],
)
def test_measuring_locks_the_store_forgets_what_was_cut_off_and_checks_what_is_used(
    session: FakeSession, guests: Guests, engines: tuple[Engine, ...], checks: int
) -> None:
    cut = cache.make_folder(session.store.boot_folder("cut"))
    with session.measuring([task(engine) for engine in engines]):
        assert held(session.store.folder / "lock")
        assert not cut.exists()
    assert not held(session.store.folder / "lock")
    assert len(guests.checks) == checks


def test_the_exact_engine_is_checked_once_and_under_a_lock(
    session: FakeSession, guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = []

    def measure(job: Job, folder: Path, observe: Callable[[str], None]) -> Sample:
        locked.append(held(cache.root() / "probe/lock"))
        return guests.measure(job, folder, observe)

    monkeypatch.setattr(sampling, "measure", measure)
    for _ in range(2):
        determinism.require_sound(session.testbed, Engine.EXACT, session.progress)
    assert locked == [True, True]
    determinism.forget(session.testbed)
    determinism.require_sound(session.testbed, Engine.EXACT, session.progress)
    assert len(locked) == 4


def test_an_engine_that_is_not_exact_measures_nothing(
    session: FakeSession, guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(determinism, "first_difference", lambda *_: "insns, line 2")
    with pytest.raises(LabError, match="exact does not repeat itself on this host: insns, line 2"):
        session.outcomes([task(Engine.EXACT)])
    assert guests.booted == []


def test_the_first_kernel_that_is_checked_is_the_testbeds(session: FakeSession) -> None:
    first = session.check_engines("git:/linux@one")
    session.check_engines("git:/linux@two")
    assert session.testbed is first
    assert first.probe_kernel.id == "one"


def test_a_fragment_that_is_given_twice_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[tuple[Sequence[Path], Sequence[str]]] = []
    monkeypatch.setattr(source, "resolve", lambda spec, _: spec)
    monkeypatch.setattr(patching, "patched", lambda _, patches: patches)
    monkeypatch.setattr(kernel, "build", lambda patches, names, _: built.append((patches, names)))
    Session(QUICK).kernel("", (), ("base", "flashdisk", "flashdisk"))
    ((patches, names),) = built
    assert names == ("base", "flashdisk")
    assert len(patches) == 1


def test_a_cost_is_that_of_the_boot_or_says_why_there_is_none(
    session: FakeSession, guests: Guests
) -> None:
    guests.cost_of = {"kernel-stock": fakes.insns(submit_bio=7.0)}.get
    assert session.costs([task(Engine.EXACT)])[0][1].kernel == {"submit_bio": 7.0}
    with pytest.raises(UsageError, match="has no cost per I/O"):
        session.costs([task(Engine.EXACT, arm="other")])
    guests.says = lambda job: GuestError("panic", "BUG: x")
    with pytest.raises(LabError, match="failed: BUG: x"):
        session.costs([task(Engine.EXACT, arm="third")])


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Workloads in a folder of their own, and a function that edits one and its template."""
    for path in workload.FOLDER.iterdir():
        (tmp_path / path.name).write_text(path.read_text())
    monkeypatch.setattr(workload, "FOLDER", tmp_path)

    def edit() -> None:
        for name, old, new in (
            ("randread_burst.fio.j2", "bs=4k", "bs=8k"),
            ("randread_burst.toml", "title", "exact_ios = [2, 4]\nsize_mib = 2048\ntitle"),
        ):
            text = (tmp_path / name).read_text()
            assert old in text
            (tmp_path / name).write_text(text.replace(old, new, 1))

    return edit


@pytest.mark.parametrize("rounds", [False, True])
def test_a_workload_that_is_edited_meanwhile_changes_no_orders(
    session: FakeSession, edited: Callable[[], None], monkeypatch: pytest.MonkeyPatch, rounds: bool
) -> None:
    """What is kept under a key are boots that were given the orders that the key is made of."""
    received: list[tuple[bytes, int]] = []
    facts = dict(
        line.split("\t", 1) for line in (DATA / "facts-raid64.tsv").read_text().splitlines()
    )

    def run(machine: Machine, orders: Orders, *_: object) -> Boot:
        if not received:
            edited()
        received.append((orders.archive(), machine.size_mib))
        cache.make_folder(machine.folder)
        outputs = {"fio.json": (DATA / "fio-randwrite-group.json").read_text()}
        return Boot(facts, outputs, {"workload": 1.0})

    monkeypatch.setattr(boot, "run", run)
    monkeypatch.setattr(dbench, "load_file", lambda: fakes.LOAD)
    arms = [task(Engine.KVM, "raid64", arm) for arm in ("before", "after")]
    first = resolve(arms[0], session.testbed)
    with session.measuring(arms) as runner:
        if rounds:
            assert runner.rounds(arms, 2).complete == 2
        else:
            assert [len(outcome.boots) for outcome in runner.all(arms, 2)] == [2, 2]
    assert received == [(first.orders.archive(), first.machine.size_mib)] * 4
    again = resolve(arms[0], session.testbed)
    assert again.key != first.key
    assert again.orders.archive() != first.orders.archive()
    assert session.store.finished(again.key) == []
    assert len(session.store.finished(first.key)) == (0 if rounds else 2)
