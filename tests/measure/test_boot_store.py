# SPDX-License-Identifier: GPL-2.0-or-later
"""What was measured is found again, whoever measures beside."""

from __future__ import annotations

import multiprocessing
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import guests as fakes
import pytest

from lab.base import cache
from lab.base.errors import LabError, UsageError
from lab.build.kernel import Kernel
from lab.inputs.terms import Engine
from lab.measure import recorded
from lab.measure.boot_store import SCHEMA_VERSION, BootStore, Ends, Provenance
from lab.measure.cell import Task
from lab.measure.sampling import Sample

KERNEL = Kernel("kernel", "6.12.117", "tree", ("base",), "gcc")
TASK = Task(cell=fakes.cell("raid64", work="dbench_xfs"), kernel=KERNEL)
ORIGIN = Provenance("key", "kernel", "QEMU 10.0.2", "host")
FACTS = {"hw_queues": "64", "queue/scheduler": "none [bfq]"}


def sample(value: float = 1.5) -> Sample:
    return Sample({"iops": value, "ios": 10.0}, FACTS, {})


def add(
    store: BootStore,
    value: float = 1.5,
    *,
    task: Task = TASK,
    outcome: str = "ok",
    ago: float = 0.0,
    **origin: str,
) -> str:
    """Write down a boot that began some seconds ago; only an ok one has numbers."""
    identity = store.new_boot()
    done = sample(value) if outcome == "ok" else None
    began = time.time() - ago
    store.add(identity, task, replace(ORIGIN, **origin), began, done, outcome=outcome)
    return identity


def finished(store: BootStore, key: str = "key") -> list[str]:
    """The ids of the successful boots of a measurement."""
    return [boot.id for boot in store.finished(key)]


def add_many(folder: Path, worker: int, count: int) -> None:
    """What each of several writers does, in processes and threads alike."""
    store = BootStore(folder)
    for number in range(count):
        add(store, worker * count + number)


@pytest.fixture
def store(tmp_path: Path) -> BootStore:
    """An empty store."""
    return BootStore(tmp_path / "kept")


def test_a_boot_comes_back_as_it_was_written(store: BootStore) -> None:
    identity = add(store, 57563.25, ago=20)
    (boot,) = BootStore(store.folder).finished("key")
    assert (boot.id, boot.kernel, boot.round) == (identity, "kernel", "")
    assert boot.values == {"iops": 57563.25, "ios": 10.0}
    assert boot.facts == FACTS
    assert boot.seconds == pytest.approx(20, abs=1)


def test_another_key_is_another_measurement(store: BootStore) -> None:
    add(store, 1, key="one")
    add(store, 2, key="two")
    assert [boot.values["iops"] for boot in store.finished("two")] == [2]
    assert store.finished("three") == []


def test_boots_keep_their_order_when_the_clock_is_set_back(store: BootStore) -> None:
    """Or rounds that decide with the first that are enough would be others from then on."""
    for value, ago in ((2.0, 20.0), (3.0, 10.0), (1.0, 30.0)):
        add(store, value, ago=ago)
    assert [boot.values["iops"] for boot in store.finished("key")] == [2, 3, 1]
    ids = [add(store, round=name, key="A", ago=ago) for name, ago in (("1", 0.0), ("2", 86400.0))]
    assert [boot.id for boot in store.in_rounds("A").values()] == ids
    assert recorded.find(store, "last").id == ids[-1]
    first = finished(store)[0]
    assert [value for _, _, value in store.history(first, "iops")][:3] == [2, 3, 1]


def test_only_boots_that_were_cut_off_are_forgotten_and_failed_ones_are_no_result(
    store: BootStore,
) -> None:
    good, failed, cut = add(store), add(store, outcome="panic"), store.new_boot()
    for identity in (good, failed, cut):
        (cache.make_folder(store.boot_folder(identity)) / "console.log").write_text("x")
    (store.folder / "last-table.txt").write_text("x")
    store.forget_unfinished()
    assert not store.boot_folder(cut).exists()
    assert (store.boot_folder(good) / "console.log").exists()
    assert (store.boot_folder(failed) / "console.log").exists()
    assert (store.folder / "last-table.txt").exists()
    assert finished(store) == [good]


def test_a_boot_with_an_unknown_metric_leaves_no_half_row(store: BootStore) -> None:
    strange = Sample({"iops": 1.0, "iopsies": 2.0}, FACTS, {})
    with pytest.raises(UsageError, match="did you mean 'iops'"):
        store.add("x", TASK, ORIGIN, time.time(), strange)
    assert store.finished("key") == []


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_writers_beside_each_other_lose_nothing(store: BootStore, kind: str) -> None:
    count = 15
    pool = (
        ThreadPoolExecutor(2)
        if kind == "threads"
        else ProcessPoolExecutor(2, multiprocessing.get_context("fork"))
    )
    with pool:
        for job in [pool.submit(add_many, store.folder, worker, count) for worker in range(2)]:
            job.result()
    values = [boot.values["iops"] for boot in store.finished("key")]
    assert sorted(values) == list(range(2 * count))


def test_ids_differ_and_sort_by_time(store: BootStore) -> None:
    ids = [store.new_boot() for _ in range(5_000)]
    assert len(set(ids)) == 5_000
    assert [name[:15] for name in ids] == sorted(name[:15] for name in ids)


@pytest.mark.parametrize("absolute", [False, True])
def test_results_lie_where_the_environment_says_wherever_a_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absolute: bool
) -> None:
    monkeypatch.setenv("LAB_RESULTS", str(tmp_path / "own") if absolute else "own")
    monkeypatch.chdir(tmp_path)
    assert BootStore().folder == tmp_path / "own"
    add(BootStore())
    assert (tmp_path / "own/lab.sqlite").exists()


def test_boots_are_found_by_their_round_oldest_first(store: BootStore) -> None:
    ids = [add(store, round=round, key="A") for round in ("9", "1", "5")]
    add(store, round="9", key="B")
    add(store, round="7", key="A", outcome="panic")
    boots = store.in_rounds("A")
    assert [(round, boot.id) for round, boot in boots.items()] == list(
        zip(("9", "1", "5"), ids, strict=True)
    )
    assert store.in_rounds("B").keys() == {"9"}


def test_a_rejected_round_is_taken_out_of_all_arms_but_kept_on_record(store: BootStore) -> None:
    for round in ("1", "2"):
        for key in ("A", "B"):
            add(store, round=round, key=key)
    without_a_round = add(store)
    store.reject("1", "disturbed", "steal 2.0 %")
    assert store.in_rounds("A").keys() == store.in_rounds("B").keys() == {"2"}
    rows = store.rows("SELECT round, outcome, reason FROM boots")
    rejected, kept = ("1", "disturbed", "steal 2.0 %"), ("2", "ok", "")
    assert rows == [rejected, rejected, kept, kept, ("", "ok", "")]
    assert finished(store) == [without_a_round]


def test_rejected_rounds_are_counted_once_and_only_those_of_the_arms(store: BootStore) -> None:
    for round, key in (("1", "A"), ("1", "B"), ("2", "A"), ("3", "C"), ("4", "A")):
        add(store, round=round, key=key)
    assert store.rejected(["A", "B"]) == 0
    for round in ("1", "2", "3"):
        store.reject(round, "disturbed", "noise")
    assert store.rejected(["A", "B"]) == 2
    assert store.rejected(["B"]) == 1
    assert store.rejected(["D"]) == 0


def test_boots_are_found_by_their_ids(store: BootStore) -> None:
    ids = [add(store, value) for value in (1.0, 2.0, 3.0)]
    boots_by_id = store.boots([ids[2], "gone", ids[0]])
    assert {identity: boot.values["iops"] for identity, boot in boots_by_id.items()} == {
        ids[2]: 3.0,
        ids[0]: 1.0,
    }
    assert store.boots([]) == {}


def test_a_history_is_that_of_a_cell_and_an_arm_on_whatever_kernel(store: BootStore) -> None:
    first = add(store, 1.0, kernel="k1", key="key-k1")
    add(store, 2.0, kernel="k2", task=replace(TASK, arm="after"))
    add(store, 3.0, kernel="k2", task=TASK.seeded(2))
    last = add(store, 4.0, kernel="k2")
    for identity in (first, last):
        history = [(kernel, value) for _, kernel, value in store.history(identity, "iops")]
        assert history == [("k1", 1.0), ("k2", 4.0)]


@pytest.mark.parametrize("version", [0, SCHEMA_VERSION + 1])
def test_results_of_another_schema_are_refused_and_stay(store: BootStore, version: int) -> None:
    add(store, 7.5)
    database = store.folder / "lab.sqlite"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = database.read_bytes()
    with pytest.raises(UsageError, match=f"schema version {version}, not {SCHEMA_VERSION}"):
        BootStore(store.folder).finished("key")
    assert database.read_bytes() == before


def booted(store: BootStore, **files: bytes) -> Path:
    """The folder of a boot that left these files and was written down."""
    identity = store.new_boot()
    folder = cache.make_folder(store.boot_folder(identity))
    for name, content in files.items():
        (folder / name).write_bytes(content)
    store.add(identity, TASK, ORIGIN, time.time(), sample())
    return folder


def test_equal_files_of_boots_are_one_file_named_by_its_content(store: BootStore) -> None:
    first, second = (booted(store, insns=b"same", log=bytes([n]), empty=b"") for n in (1, 2))
    assert (first / "insns").samefile(second / "insns")
    assert not (first / "empty").samefile(second / "empty")
    assert [(boot / "log").read_bytes() for boot in (first, second)] == [b"\1", b"\2"]
    assert sorted(path.name for path in second.iterdir()) == ["empty", "insns", "log"]
    for path in (store.folder / "objects").glob("*/*"):
        assert path.name == cache.file_hash(path)


def test_files_stay_where_there_are_no_hard_links(
    store: BootStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert (booted(store, insns=b"same") / "insns").read_bytes() == b"same"
    assert not [*(store.folder / "objects").glob("*/*")]


def test_ends_are_those_of_all_boots_of_the_kernels(store: BootStore) -> None:
    complaining = replace(sample(), complaints=("WARNING in x()", "BUG: y"))
    first = store.new_boot()
    store.add(first, TASK, ORIGIN, 1.0, complaining)
    for outcome in ("hang", "panic", "hang", "lost", "killed", "mismatch", "garbled"):
        add(store, outcome=outcome)
    add(store)
    ends = store.ends([TASK.kernel.id])
    assert ends.boots == 5
    assert ends.failures == {"hang": 2, "panic": 1, "WARNING in x()": 1, "BUG: y": 1}
    assert ends.examples["BUG: y"] == first
    assert store.ends([]) == store.ends(["another"]) == Ends(0, {}, {})


def test_boots_of_a_cell_with_any_seed_are_grouped_by_kernel_and_emulation(
    store: BootStore,
) -> None:
    cell = fakes.cell(engine=Engine.EXACT)
    other_cell = fakes.cell(engine=Engine.EXACT, scheduler="none")
    for kernel, emulation, booted_cell, seed, value in (
        *(("a", "q", cell, 1, 10.0), ("a", "q", cell, 2, 11.0), ("b", "q", cell, 1, 20.0)),
        *(("a", "q dirty_ns=88", cell, 1, 5.0), ("a", "q", other_cell, 1, 99.0)),
    ):
        task = replace(TASK, cell=booted_cell).seeded(seed)
        key = f"{kernel}{emulation}{seed}"
        add(store, value, task=task, key=key, kernel=kernel, qemu=emulation)
    add(store, task=replace(TASK, cell=cell), outcome="hang")
    assert sorted(store.by_seed(cell, "iops")) == [[5.0], [10.0, 11.0], [20.0]]
    assert store.by_seed(replace(cell, seed=7), "iops") == store.by_seed(cell, "iops")
    assert store.by_seed(cell, "ios_per_s") == []


DAMAGE = {
    "gone": lambda path: path.unlink(),
    "changed": lambda path: (path.chmod(0o644), path.write_bytes(b"X")),
    "emptied": lambda path: (path.chmod(0o644), path.write_bytes(b"")),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_boot_without_its_evidence_is_told_and_no_result(
    store: BootStore, damage: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    bad = booted(store, **{"cost.tsv": b"one", "console": b"c"})
    good = booted(store, **{"cost.tsv": b"two", "console": b"d"})
    damage(bad / "cost.tsv")
    fresh = BootStore(store.folder)
    assert finished(fresh) == [good.name]
    assert str(bad / "cost.tsv") in capsys.readouterr().err
    assert finished(fresh) == [good.name]
    assert capsys.readouterr().err == ""
    assert fresh.ends({"kernel"}).boots == 1


def test_what_damaged_one_boot_does_not_damage_the_next(store: BootStore) -> None:
    bad = booted(store, cost=b"same")
    (bad / "cost").chmod(0o644)
    (bad / "cost").write_bytes(b"else")
    again = booted(store, cost=b"same")
    assert finished(BootStore(store.folder)) == [again.name]


def test_results_of_before_files_were_summed_are_believed(store: BootStore) -> None:
    folder = booted(store, cost=b"one")
    with closing(sqlite3.connect(store.folder / "lab.sqlite")) as connection:
        connection.execute("DROP TABLE files")
    again = BootStore(store.folder)
    assert finished(again) == [folder.name]
    booted(again, cost=b"two")
    assert len(again.finished("key")) == 2


def test_a_store_that_is_only_read_is_not_written(store: BootStore) -> None:
    add(store)
    before = (store.folder / "lab.sqlite").stat().st_mtime_ns
    assert len(BootStore(store.folder).finished("key")) == 1
    assert (store.folder / "lab.sqlite").stat().st_mtime_ns == before


@pytest.mark.parametrize("content", [b"garbage" * 1000, b"SQLite format 3\0" + bytes(50)])
def test_a_database_that_is_none_is_one_message(store: BootStore, content: bytes) -> None:
    store.folder.mkdir()
    (store.folder / "lab.sqlite").write_bytes(content)
    with pytest.raises(LabError, match="the results cannot be read or written") as caught:
        store.finished("key")
    assert "lab.sqlite" in caught.value.where


def test_what_a_killed_lab_left_of_a_record_is_swept(store: BootStore) -> None:
    run = cache.make_folder(store.folder / "runs/r1")
    (run / ".run.json.0123456789ab").touch()
    (run / "run.json").touch()
    store.forget_unfinished()
    assert [path.name for path in run.iterdir()] == ["run.json"]
