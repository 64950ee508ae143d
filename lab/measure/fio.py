# SPDX-License-Identifier: GPL-2.0-or-later
"""fio's JSON output: pure parsing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lab.base.errors import GuestError
from lab.inputs.terms import Better, Metric

_DIRECTIONS = ("read", "write")
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


def metrics(output: str) -> dict[str, float]:
    """The numbers of one fio run with group reporting; METRICS has their units.

    Reads and writes are added; latencies are the completion latencies of the direction that did
    more I/O. Raises GuestError for output that is not fio's JSON, or a job that reports an error.
    """
    start = output.find("{")
    try:
        document = json.loads(output[start:]) if start >= 0 else {}
    except json.JSONDecodeError as exc:
        raise GuestError("garbled", f"fio's output is not JSON: {exc}") from exc
    jobs = document.get("jobs")
    if not jobs:
        raise GuestError("garbled", "fio's output reports no job")
    if failed := [job for job in jobs if job["error"]]:
        raise GuestError(
            "failed", f"fio's job {failed[0]['jobname']} failed with error {failed[0]['error']}"
        )
    job: Mapping[str, Any] = jobs[0]
    sides = [job[name] for name in _DIRECTIONS]
    busiest = max(sides, key=lambda side: side["total_ios"])
    ios = sum(side["total_ios"] for side in sides)
    if not ios:
        raise GuestError("failed", "fio did no I/O")
    return {
        "iops": sum(side["iops"] for side in sides),
        "bw_mib": sum(side["bw_bytes"] for side in sides) / 2**20,
        "ios": float(ios),
        "runtime_s": max(side["runtime"] for side in sides) / 1000,
        "usr_cpu": job["usr_cpu"],
        "sys_cpu": job["sys_cpu"],
        "ctx": float(job["ctx"]),
        "ctx_per_io": job["ctx"] / ios,
        **_latencies(busiest),
    }


def _latencies(side: Mapping[str, Any]) -> dict[str, float]:
    completion = side["clat_ns"] if side["clat_ns"].get("N") else side["lat_ns"]
    if not completion.get("N"):  # gtod_reduce: fio did not look
        return {}
    found = {"lat_mean_ms": completion["mean"] * _MS, "lat_max_ms": completion["max"] * _MS}
    for percentile, name in _PERCENTILES.items():
        value = completion.get("percentile", {}).get(percentile)
        if value is not None:
            found[f"lat_{name}_ms"] = value * _MS
    return found
