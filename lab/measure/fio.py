# SPDX-License-Identifier: GPL-2.0-or-later
"""fio's JSON output: pure parsing."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lab.base.errors import GuestError
from lab.inputs.terms import Better, Metric

_PERCENTILES = {"50.000000": "p50", "90.000000": "p90", "99.000000": "p99", "99.900000": "p999"}
_MS = 1e-6  # fio reports latency in ns

METRICS = {
    "iops": Metric("IOPS", Better.HIGHER),
    "bw_mib": Metric("MiB/s", Better.HIGHER),
    "ios": Metric("I/Os", Better.HIGHER),
    "runtime_s": Metric("s"),
    "usr_cpu": Metric("%"),
    "sys_cpu": Metric("%"),
    "ctx": Metric("switches"),
    "ctx_per_io": Metric("switches/I/O"),
    "lat_mean_ms": Metric("ms"),
    "lat_max_ms": Metric("ms"),
    **{f"lat_{name}_ms": Metric("ms") for name in _PERCENTILES.values()},
}


# The output comes from a guest: what is no number of that kind is nothing to reckon with.
_Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _Latency(_Strict):
    count: _Count = Field(default=0, alias="N")
    mean: _Number = 0.0
    max: _Number = 0.0
    percentile: dict[str, _Number] = {}


class _Side(_Strict):
    total_ios: _Count
    iops: _Number
    bw_bytes: _Number
    runtime: _Number
    clat_ns: _Latency
    lat_ns: _Latency


class _Job(_Strict):
    jobname: str
    error: int
    usr_cpu: _Number
    sys_cpu: _Number
    ctx: _Count
    read: _Side
    write: _Side


class _Output(_Strict):
    jobs: list[_Job] = []


def metrics(output: str) -> dict[str, float]:
    """The numbers of one fio run with group reporting; METRICS has their units.

    Reads and writes are added; latencies are the completion latencies of the direction that did
    more I/O. Raises GuestError for output that is not fio's JSON, or a job that reports an error.
    """
    job = _job(output)
    sides = (job.read, job.write)
    ios = sum(side.total_ios for side in sides)
    if not ios:
        raise GuestError("failed", "fio did no I/O")
    return {
        "iops": sum(side.iops for side in sides),
        "bw_mib": sum(side.bw_bytes for side in sides) / 2**20,
        "ios": float(ios),
        "runtime_s": max(side.runtime for side in sides) / 1000,
        "usr_cpu": job.usr_cpu,
        "sys_cpu": job.sys_cpu,
        "ctx": float(job.ctx),
        "ctx_per_io": job.ctx / ios,
        **_latencies(max(sides, key=lambda side: side.total_ios)),
    }


def _job(output: str) -> _Job:
    start = output.find("{")
    try:
        jobs = _Output.model_validate_json(output[start:] if start >= 0 else "{}").jobs
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the output"
        raise GuestError(
            "garbled", f"fio's output is not what fio writes: {place}: {first['msg']}"
        ) from exc
    if not jobs:
        raise GuestError("garbled", "fio's output reports no job")
    if failed := [job for job in jobs if job.error]:
        raise GuestError(
            "failed", f"fio's job {failed[0].jobname} failed with error {failed[0].error}"
        )
    return jobs[0]


def _latencies(side: _Side) -> dict[str, float]:
    completion = side.clat_ns if side.clat_ns.count else side.lat_ns
    if not completion.count:  # gtod_reduce: fio did not look
        return {}
    found = {"lat_mean_ms": completion.mean * _MS, "lat_max_ms": completion.max * _MS}
    for percentile, name in _PERCENTILES.items():
        if percentile in completion.percentile:
            found[f"lat_{name}_ms"] = completion.percentile[percentile] * _MS
    return found
