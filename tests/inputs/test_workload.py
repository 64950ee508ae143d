# SPDX-License-Identifier: GPL-2.0-or-later
"""Workload files and the fio jobs that come of them."""

from __future__ import annotations

import configparser
import os
from pathlib import Path

import pytest

from lab.base import toml
from lab.base.errors import UsageError
from lab.inputs import workload
from lab.inputs.workload import Value
from lab.measure import dbench, fio

NAMES = toml.names(workload.FOLDER)
FIO = [name for name in NAMES if workload.get(name).tool == "fio"]
TIMED = [name for name in FIO if "ios" in workload.get(name).parameters]


def defaults(name: str) -> dict[str, Value]:
    """A workload's own parameters, the first value of a sweep."""
    parameters = workload.get(name).parameters
    return {key: v[0] if isinstance(v, tuple) else v for key, v in parameters.items()}


def job(name: str, **changes: Value) -> configparser.ConfigParser:
    """A rendered job file, read back."""
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read_string(workload.fio_job(name, {**defaults(name), **changes}))
    return parsed


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that takes the place of workloads/."""
    monkeypatch.setattr(workload, "FOLDER", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", FIO)
def test_every_fio_workload_renders_with_its_own_parameters(name: str) -> None:
    parsed = job(name)
    assert len(parsed.sections()) == 2
    shared = parsed["global"]
    places = {key: shared[key] for key in ("filename", "directory") if key in shared}
    on_files = workload.get(name).filesystem is not None
    assert places == ({"directory": "mnt"} if on_files else {"filename": "${DISK}"})
    assert shared["direct"] == shared["group_reporting"] == "1"
    assert int(shared["numjobs"]) == defaults(name)["numjobs"]
    assert {"rw", "bs", "ioengine"} <= shared.keys()


@pytest.mark.parametrize("name", TIMED)
def test_a_job_runs_for_some_time_by_default_and_with_ios_does_fixed_work(name: str) -> None:
    timed, fixed = job(name, seconds=7, ramp_seconds=3)["global"], job(name, ios=1000)["global"]
    assert (timed["time_based"], timed["runtime"], timed["ramp_time"]) == ("1", "7", "3")
    assert "number_ios" not in timed
    assert fixed["number_ios"] == "1000"
    assert fixed.keys().isdisjoint({"time_based", "runtime", "ramp_time"})


def test_the_published_batches_are_kept() -> None:
    shared = job("randwrite_uring")["global"]
    names = ("rw", "ioengine", "iodepth", "iodepth_batch_submit", "iodepth_batch_complete_min")
    assert [shared[name] for name in names] == ["randwrite", "io_uring", "32", "8", "8"]


def test_streams_do_not_overlap() -> None:
    shared = job("seqread_streams", numjobs=8)["global"]
    assert shared["offset_increment"] == shared["size"] == "12%"


def test_readers_of_one_priority_start_one_after_the_other() -> None:
    parsed = job("randread_burst", numjobs=4, priorities=2)
    readers = [parsed[f"reader{number}"] for number in range(4)]
    assert [reader["prio"] for reader in readers] == ["0", "0", "1", "1"]
    assert {(reader["numjobs"], reader["prioclass"]) for reader in readers} == {("1", "2")}


def test_readers_start_apart_at_their_rate() -> None:
    parsed = job("randread_burst", numjobs=3, apart_ms=400, rate=1000)
    starts = [parsed[f"reader{number}"]["startdelay"] for number in range(3)]
    assert (starts, parsed["global"]["rate_iops"]) == (["0ms", "400ms", "800ms"], "1000")
    assert "prio" not in parsed["reader0"]  # the usual one, for all


def test_an_outsider_is_the_first_group_and_one_of_the_jobs() -> None:
    parsed = job("randread_burst", numjobs=11, outsider=1)
    assert parsed.sections() == ["global", "outsider", "readers"]
    assert [parsed[name]["numjobs"] for name in ("outsider", "readers")] == ["1", "10"]
    assert parsed["readers"]["new_group"] == "1"
    assert "prio" in parsed["outsider"]
    assert "prio" not in parsed["readers"]


def test_parts_of_a_disk_do_not_touch() -> None:
    shared = job("disk_reads", numjobs=3, parts=1, prio=3)["global"]
    assert (shared["offset_increment"], shared["size"]) == ("33%", "16%")
    assert (shared["prioclass"], shared["prio"]) == ("2", "3")
    assert job("disk_reads")["global"].keys().isdisjoint({"size", "prio"})


@pytest.mark.parametrize("value", [0, "many"])
def test_a_value_that_a_job_cannot_take_is_the_users_error(value: Value) -> None:
    parameters = {**defaults("seqread_streams"), "numjobs": value}
    with pytest.raises(UsageError, match=r"seqread_streams\.fio\.j2"):
        workload.fio_job("seqread_streams", parameters)


@pytest.mark.parametrize("name", NAMES)
def test_every_workload_shows_a_number_that_its_tool_gives(name: str) -> None:
    metrics = fio.METRICS if name in FIO else dbench.METRICS
    assert workload.get(name).metric in metrics


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("[a]\nnumjobs={{ numjob }}\n", "numjob"),
        ("[a]\nnumjobs={{ numjobs\n", r"burst\.fio\.j2:2"),
        ('{% include "absent.fio.j2" %}\n', r"absent\.fio\.j2"),
    ],
    ids=["unknown variable", "syntax", "missing include"],
)
def test_a_wrong_template_is_named(own_folder: Path, template: str, complaint: str) -> None:
    (own_folder / "burst.fio.j2").write_text(template)
    with pytest.raises(UsageError, match=complaint) as caught:
        workload.fio_job("burst", {"numjobs": 1})
    assert str(own_folder / "burst.fio.j2") in str(caught.value)


def test_a_missing_template_is_named(own_folder: Path) -> None:
    with pytest.raises(UsageError, match="'burst' has no job file") as caught:
        workload.fio_job("burst", {})
    assert str(own_folder / "burst.fio.j2") in str(caught.value)


def test_an_edited_template_is_read_again_even_at_the_same_time(own_folder: Path) -> None:
    template = own_folder / "x.fio.j2"
    for text in ("one", "two"):
        template.write_text(text)
        os.utime(template, (1, 1))
        assert workload.fio_job("x", {}) == f"{text}\n"


def test_changes_replace_known_parameters_and_the_rest_stays() -> None:
    work = workload.get("randread_burst")
    assert work.checked({"numjobs": (1, 2)}, "here") == {**work.parameters, "numjobs": (1, 2)}
    with pytest.raises(UsageError, match="did you mean 'numjobs'") as caught:
        work.checked({"numjob": 1}, "parameters.randread_burst")
    assert "parameters.randread_burst" in str(caught.value)


@pytest.mark.parametrize(("clients", "size"), [(1, 1024), (34, 1024), (35, 1050), (512, 15360)])
def test_the_disk_grows_with_the_clients(clients: int, size: int) -> None:
    assert workload.get("dbench_xfs").disk_mib({"clients": clients}) == size


def test_an_unknown_workload_gets_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="did you mean 'randread_burst'"):
        workload.get("randread_brust")


def test_a_file_that_is_given_names_the_workload(tmp_path: Path) -> None:
    path = tmp_path / "my job.fio"
    path.write_text("[a]\nrw=read\n")
    assert workload.give(path.read_text(), str(path), path.stem).startswith("my_job-")
    broken = tmp_path / "broken.fio"
    broken.write_text("[a]\nrw=read\nfrob=1\n")
    with pytest.raises(UsageError, match="Bad option <frob=1>") as caught:
        workload.of_line_or_file(str(broken))
    assert caught.value.where == str(broken)
