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


def add(store: BootStore, value: float = 1.5, key: str = "key", ago: float = 0.0) -> str:
    """Write down a boot that began some seconds ago."""
    identity = store.new_boot()
    origin = Provenance(key, "kernel", "QEMU 10.0.2", "host")
    store.add(identity, TASK, origin, time.time() - ago, sample(value))
    return identity


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
    ids = [add_to_round(store, name, "A", ago=ago) for name, ago in (("1", 0.0), ("2", 86400.0))]
    assert [boot.id for boot in store.in_rounds("A").values()] == ids
    assert recorded.find(store, "last").id == ids[-1]
    first = store.finished("key")[0].id
    assert [value for _, _, value in store.history(first, "iops")][:3] == [2, 3, 1]


def test_a_failed_boot_is_kept_but_is_no_result(store: BootStore) -> None:
    identity = store.new_boot()
    store.boot_folder(identity).mkdir(parents=True)
    store.add(identity, TASK, ORIGIN, time.time() - 500, None, outcome="panic", reason="BUG: x")
    assert store.finished("key") == []
    store.forget_unfinished()
    assert store.boot_folder(identity).exists()


def test_a_failed_boot_does_not_hide_a_good_one(store: BootStore) -> None:
    good = add(store)
    store.add(store.new_boot(), TASK, ORIGIN, time.time(), None, outcome="hang", reason="late")
    assert [boot.id for boot in store.finished("key")] == [good]


def test_only_boots_that_were_cut_off_are_forgotten(store: BootStore) -> None:
    kept, cut = add(store), store.new_boot()
    for identity in (kept, cut):
        store.boot_folder(identity).mkdir(parents=True)
        (store.boot_folder(identity) / "console.log").write_text("x")
    (store.folder / "last-table.txt").write_text("x")
    store.forget_unfinished()
    assert not store.boot_folder(cut).exists()
    assert (store.boot_folder(kept) / "console.log").exists()
    assert (store.folder / "last-table.txt").exists()
    assert [boot.id for boot in store.finished("key")] == [kept]


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
    ids = [store.new_boot() for _ in range(50)]
    assert len(set(ids)) == 50
    assert [name[:15] for name in ids] == sorted(name[:15] for name in ids)


def test_results_lie_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_RESULTS", str(tmp_path / "elsewhere"))
    assert BootStore().folder == tmp_path / "elsewhere"
    add(BootStore())
    assert (tmp_path / "elsewhere/lab.sqlite").exists()


def add_to_round(
    store: BootStore, round: str, key: str, outcome: str = "ok", ago: float = 0.0
) -> str:
    """Write down a boot of a round."""
    identity = store.new_boot()
    origin = Provenance(key, "kernel", "QEMU 10.0.2", "host", round)
    done = sample() if outcome == "ok" else None
    store.add(identity, TASK, origin, time.time() - ago, done, outcome=outcome)
    return identity


def test_boots_are_found_by_their_round_oldest_first(store: BootStore) -> None:
    ids = [add_to_round(store, round, "A") for round in ("9", "1", "5")]
    add_to_round(store, "9", "B")
    add_to_round(store, "7", "A", outcome="panic")
    boots = store.in_rounds("A")
    assert [(round, boot.id) for round, boot in boots.items()] == list(
        zip(("9", "1", "5"), ids, strict=True)
    )
    assert store.in_rounds("B").keys() == {"9"}


def test_a_rejected_round_is_taken_out_of_all_arms_but_kept_on_record(store: BootStore) -> None:
    for round in ("1", "2"):
        for key in ("A", "B"):
            add_to_round(store, round, key)
    store.reject("1", "disturbed", "steal 2.0 %")
    assert store.in_rounds("A").keys() == store.in_rounds("B").keys() == {"2"}
    with sqlite3.connect(store.folder / "lab.sqlite") as connection:
        rows = connection.execute("SELECT round, outcome, reason FROM boots").fetchall()
    assert rows == [("1", "disturbed", "steal 2.0 %")] * 2 + [("2", "ok", "")] * 2


def test_rejecting_a_round_leaves_boots_without_a_round_alone(store: BootStore) -> None:
    kept = add(store)
    add_to_round(store, "1", "key")
    store.reject("1", "disturbed", "noise")
    assert [boot.id for boot in store.finished("key")] == [kept]


def test_rejected_rounds_are_counted_once_and_only_those_of_the_arms(store: BootStore) -> None:
    for round, key in (("1", "A"), ("1", "B"), ("2", "A"), ("3", "C"), ("4", "A")):
        add_to_round(store, round, key)
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
    def boot(task: Task, kernel: str, value: float) -> str:
        identity = store.new_boot()
        origin = Provenance(f"key-{kernel}", kernel, "QEMU 10.0.2", "host")
        store.add(identity, task, origin, time.time(), sample(value))
        return identity

    first = boot(TASK, "k1", 1.0)
    boot(replace(TASK, arm="after"), "k2", 2.0)
    boot(replace(TASK, cell=replace(TASK.cell, seed=2)), "k2", 3.0)
    last = boot(TASK, "k2", 4.0)
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
    folder = store.boot_folder(identity)
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    store.add(identity, TASK, ORIGIN, time.time(), sample())
    return folder


def kept(store: BootStore) -> set[bytes]:
    return {path.read_bytes() for path in (store.folder / "objects").glob("*/*")}


def test_equal_files_of_boots_are_one_file_named_by_its_content(store: BootStore) -> None:
    first, second = (booted(store, insns=b"same", log=bytes([n]), empty=b"") for n in (1, 2))
    assert (first / "insns").samefile(second / "insns")
    assert not (first / "empty").samefile(second / "empty")
    assert [(boot / "log").read_bytes() for boot in (first, second)] == [b"\1", b"\2"]
    assert sorted(path.name for path in second.iterdir()) == ["empty", "insns", "log"]
    for path in (store.folder / "objects").glob("*/*"):
        assert path.name == cache.file_hash(path)


def test_files_go_with_the_last_boot_that_has_them(store: BootStore) -> None:
    first, second = (booted(store, insns=b"same", log=bytes([n])) for n in (1, 2))
    cache.remove(first)
    store.sweep()
    assert kept(store) == {b"same", b"\2"}
    cache.remove(second)
    store.sweep()
    assert kept(store) == set()


def test_files_stay_where_there_are_no_hard_links(
    store: BootStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert (booted(store, insns=b"same") / "insns").read_bytes() == b"same"
    assert kept(store) == set()


def test_a_relative_results_folder_stays_the_same_wherever_a_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_RESULTS", "own")
    monkeypatch.chdir(tmp_path)
    assert BootStore().folder == tmp_path / "own"


def test_ends_are_those_of_all_boots_of_the_kernels(store: BootStore) -> None:
    complaining = replace(sample(), complaints=("WARNING in x()", "BUG: y"))
    first = store.new_boot()
    store.add(first, TASK, ORIGIN, 1.0, complaining)
    for outcome in ("hang", "panic", "hang", "lost", "killed", "mismatch", "garbled"):
        store.add(store.new_boot(), TASK, ORIGIN, 2.0, None, outcome=outcome, reason="x")
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
        task = Task(cell=booted_cell, kernel=KERNEL).seeded(seed)
        origin = Provenance(f"{kernel}{emulation}{seed}", kernel, emulation, "host")
        store.add(store.new_boot(), task, origin, time.time(), sample(value))
    store.add("bad", Task(cell=cell, kernel=KERNEL), ORIGIN, time.time(), None, outcome="hang")
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
    assert [boot.id for boot in fresh.finished("key")] == [good.name]
    assert str(bad / "cost.tsv") in capsys.readouterr().err
    assert [boot.id for boot in fresh.finished("key")] == [good.name]
    assert capsys.readouterr().err == ""
    assert fresh.ends({"kernel"}).boots == 1


def test_what_damaged_one_boot_does_not_damage_the_next(store: BootStore) -> None:
    bad = booted(store, cost=b"same")
    (bad / "cost").chmod(0o644)
    (bad / "cost").write_bytes(b"else")
    again = booted(store, cost=b"same")
    assert [boot.id for boot in BootStore(store.folder).finished("key")] == [again.name]


def test_results_of_before_files_were_summed_are_believed(store: BootStore) -> None:
    folder = booted(store, cost=b"one")
    with closing(sqlite3.connect(store.folder / "lab.sqlite")) as connection:
        connection.execute("DROP TABLE files")
    again = BootStore(store.folder)
    assert [boot.id for boot in again.finished("key")] == [folder.name]
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
