# SPDX-License-Identifier: GPL-2.0-or-later
"""fio's numbers, checked against a recorded run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.errors import GuestError
from lab.measure import fio

RECORDED = (Path(__file__).parents[1] / "data/fio-randwrite-group.json").read_text()
DOCUMENT: dict[str, Any] = json.loads(RECORDED)


JOB: dict[str, Any] = DOCUMENT["jobs"][0]
WRITE: dict[str, Any] = JOB["write"]


def changed(**changes: Any) -> str:
    """The recorded output with other values in its job."""
    return json.dumps({**DOCUMENT, "jobs": [{**JOB, **changes}]})


def writing(**changes: Any) -> str:
    """The recorded output with other values of its writes."""
    return changed(write={**WRITE, **changes})


def with_another(**changes: Any) -> str:
    """The recorded output with a second job, which has other values."""
    return json.dumps({**DOCUMENT, "jobs": [JOB, {**JOB, **changes}]})


def test_a_recorded_run_gives_the_numbers_in_its_file_each_with_a_unit() -> None:
    metrics = fio.metrics(RECORDED)
    assert metrics == pytest.approx(
        {
            "iops": 57563.255966,
            "bw_mib": 236463325 / 1024 / 1024,
            "ios": 176086,
            "runtime_s": 3.059,
            "usr_cpu": JOB["usr_cpu"],
            "sys_cpu": JOB["sys_cpu"],
            "ctx": JOB["ctx"],
            "ctx_per_io": JOB["ctx"] / 176086,
            "lat_mean_ms": 6.735808485306,
            "lat_max_ms": 137.552399,
            "lat_p50_ms": 0.585728,
            "lat_p90_ms": 29.753344,
            "lat_p99_ms": 61.603840,
            "lat_p999_ms": 85.458944,
        },
        rel=1e-9,
    )
    assert metrics.keys() == fio.METRICS.keys()


def test_numbers_agree_with_each_other() -> None:
    metrics = fio.metrics(RECORDED)
    assert metrics["ios"] / metrics["runtime_s"] == pytest.approx(metrics["iops"], rel=1e-3)
    assert metrics["bw_mib"] * 256 == pytest.approx(metrics["iops"], rel=5e-3)  # 4 KiB blocks


def test_reads_and_writes_are_added_and_the_busier_side_gives_the_latency() -> None:
    half = {name: WRITE[name] // 2 for name in ("total_ios", "bw_bytes")}
    latency = {**WRITE["clat_ns"], "mean": 1.0}
    read = {**WRITE, **half, "iops": WRITE["iops"] / 2, "clat_ns": latency}
    metrics = fio.metrics(changed(read=read))
    assert metrics["iops"] == pytest.approx(57563.255966 * 1.5)
    assert metrics["ios"] == 176086 + 88043
    assert metrics["bw_mib"] == pytest.approx((236463325 + 118231662) / 2**20)
    assert metrics["lat_mean_ms"] == pytest.approx(6.735808485306)


def test_a_side_without_completion_latency_gives_its_total_latency() -> None:
    total = {"N": 1, "mean": 2e6, "max": 3_000_000}
    metrics = fio.metrics(writing(clat_ns={"N": 0}, lat_ns=total))
    assert [metrics["lat_mean_ms"], metrics["lat_max_ms"]] == pytest.approx([2, 3])
    assert "lat_p99_ms" not in metrics


def test_text_before_the_json_is_skipped() -> None:
    note = "note: both iodepth >= 1 and synchronous I/O engine are selected\n"
    assert fio.metrics(note + RECORDED) == fio.metrics(RECORDED)


@pytest.mark.parametrize(
    ("output", "complaint", "outcome"),
    [
        ("", "no job", "corrupt"),
        ("fio: failed to open /dev/nb", "no job", "corrupt"),
        ('{"jobs": []}', "no job", "corrupt"),
        (RECORDED[: len(RECORDED) // 2], "Invalid JSON", "corrupt"),
        (changed(error=5), "writers failed with error 5", "failed"),
        (changed(write=JOB["read"]), "no I/O", "failed"),
    ],
)
def test_output_without_numbers_is_an_error_and_an_error_of_fios_is_the_kernels(
    output: str, complaint: str, outcome: str
) -> None:
    with pytest.raises(GuestError, match=complaint) as caught:
        fio.metrics(output)
    assert caught.value.outcome == outcome


@pytest.mark.parametrize("place", ["iops", "bw_bytes", "total_ios", "runtime"])
@pytest.mark.parametrize(
    "value", [math.inf, -math.inf, math.nan, -1, "7", "<script>", None, [], {}, 1e999, True]
)
def test_what_is_no_number_is_no_result(place: str, value: object) -> None:
    """json.dumps writes Infinity and NaN as a guest might."""
    with pytest.raises(GuestError, match=place) as caught:
        fio.metrics(writing(**{place: value}))
    assert caught.value.outcome == "corrupt"


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_whatever_a_guest_sends_is_an_error_or_finite_numbers(value: object) -> None:
    for name in JOB:
        try:
            metrics = fio.metrics(changed(**{name: value}))
        except GuestError:
            continue
        assert all(math.isfinite(number) and number >= 0 for number in metrics.values())


def test_an_error_in_any_job_counts() -> None:
    with pytest.raises(GuestError, match="second failed with error 28"):
        fio.metrics(with_another(jobname="second", error=28))


def test_the_ios_of_all_groups_and_the_longest_time_are_told() -> None:
    write = {**WRITE, "total_ios": 500, "runtime": 5000, "iops": 100.0}
    fio_run = fio.run(with_another(write=write))
    assert (fio_run.ios, fio_run.longest_s) == (176086 + 500, 5.0)
    assert fio_run.values["ios"] == 176086


@pytest.mark.parametrize(
    ("ordered", "most_s", "message"),
    [(176085, 9, "did 176,086 I/Os, not the 176,085"), (176086, 3.0, "took 3.059 s")],
)
def test_more_than_was_ordered_or_could_be_is_no_result(
    ordered: int, most_s: float, message: str
) -> None:
    fio_run = fio.run(RECORDED)
    fio_run.require(176086, 3.0585)
    with pytest.raises(GuestError, match=message) as caught:
        fio_run.require(ordered, most_s)
    assert caught.value.outcome == "corrupt"


@pytest.mark.parametrize("change", [{"iops": 57564.5}, {"total_ios": 176100}, {"runtime": 3060}])
def test_numbers_that_contradict_each_other_are_no_result(change: dict[str, Any]) -> None:
    with pytest.raises(GuestError, match="contradicts itself"):
        fio.run(writing(**change))
