# SPDX-License-Identifier: GPL-2.0-or-later
"""fio's JSON output: pure parsing."""

from __future__ import annotations

import math
from dataclasses import dataclass
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


# The output comes from a guest: what is no number of that kind is nothing to reckon with. No disk
# is asked for more than can be counted.
_MOST = 2**53
_Number = Annotated[float, Field(ge=0, le=_MOST, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0, le=_MOST)]
# Fio prints six digits after the point.
_EXACT = 1e-5


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
    jobname: Annotated[str, Field(max_length=1000)]
    error: Annotated[int, Field(ge=-_MOST, le=_MOST)]
    usr_cpu: _Number
    sys_cpu: _Number
    ctx: _Count
    read: _Side
    write: _Side
    trim: _Side | None = None

    @property
    def sides(self) -> tuple[_Side, ...]:
        """Reads, writes and, where there were some, trims."""
        trims = (self.trim,) if self.trim and self.trim.total_ios else ()
        return self.read, self.write, *trims


class _Output(_Strict):
    jobs: list[_Job] = []


@dataclass(frozen=True)
class Run:
    """What fio says of one run: the numbers of its first group of jobs, the I/Os of all groups, and
    how many seconds the longest of them took.
    """

    values: dict[str, float]
    ios: int
    longest_s: float

    def require(self, ordered: int, most_s: float = math.inf) -> None:
        """Raise GuestError unless fio did the I/Os that it was told to do, in no more time than
        there was.
        """
        if self.ios != ordered:
            what = f"fio says it did {self.ios:,} I/Os, not the {ordered:,} that were ordered"
            raise GuestError("corrupt", what)
        # Its clock has a resolution of a millisecond.
        if self.longest_s > most_s + 0.001:
            raise GuestError(
                "corrupt",
                f"fio says its I/O took {self.longest_s:.3f} s, of which only {most_s:.3f} passed",
            )


def metrics(output: str) -> dict[str, float]:
    """The numbers of one fio run; see run."""
    return run(output).values


def run(output: str) -> Run:
    """What fio's output with group reporting says; METRICS has the units.

    Reads, writes and trims are added; latencies are the completion latencies of the direction that
    did more I/O. Raises GuestError for output that is not fio's JSON, numbers that contradict each
    other, or a job that reports an error.
    """
    jobs = _jobs(output)
    job = jobs[0]
    ios = sum(side.total_ios for side in job.sides)
    if not ios:
        raise GuestError("failed", "fio did no I/O")
    values = {
        "iops": sum(side.iops for side in job.sides),
        "bw_mib": sum(side.bw_bytes for side in job.sides) / 2**20,
        "ios": float(ios),
        "runtime_s": max(side.runtime for side in job.sides) / 1000,
        "usr_cpu": job.usr_cpu,
        "sys_cpu": job.sys_cpu,
        "ctx": float(job.ctx),
        "ctx_per_io": job.ctx / ios,
        **_latencies(max(job.sides, key=lambda side: side.total_ios)),
    }
    every = [side for job in jobs for side in job.sides]
    longest_s = max(side.runtime for side in every) / 1000
    return Run(values, sum(side.total_ios for side in every), longest_s)


def _jobs(output: str) -> list[_Job]:
    start = output.find("{")
    try:
        jobs = _Output.model_validate_json(output[start:] if start >= 0 else "{}").jobs
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the output"
        raise GuestError(
            "corrupt", f"fio's output is not what fio writes: {place}: {first['msg']}"
        ) from exc
    if not jobs:
        raise GuestError("corrupt", "fio's output reports no job")
    if failed := [job for job in jobs if job.error]:
        raise GuestError(
            "failed", f"fio's job {failed[0].jobname[:100]} failed with error {failed[0].error}"
        )
    for side in (side for job in jobs for side in job.sides):
        _require_one_rate(side)
    return jobs


def _require_one_rate(side: _Side) -> None:
    """Fio prints all three of the same counts; what took less than a millisecond has no rate."""
    printed, counted = side.iops * side.runtime, 1000 * side.total_ios
    if side.runtime and not math.isclose(printed, counted, rel_tol=_EXACT):
        what = f"{side.iops:.0f} IOPS of {side.total_ios:,} I/Os in {side.runtime:.0f} ms"
        raise GuestError("corrupt", f"fio contradicts itself: {what}")


def _latencies(side: _Side) -> dict[str, float]:
    completion = side.clat_ns if side.clat_ns.count else side.lat_ns
    if not completion.count:  # gtod_reduce: fio did not look
        return {}
    latencies = {"lat_mean_ms": completion.mean * _MS, "lat_max_ms": completion.max * _MS}
    for percentile, name in _PERCENTILES.items():
        if percentile in completion.percentile:
            latencies[f"lat_{name}_ms"] = completion.percentile[percentile] * _MS
    return latencies
