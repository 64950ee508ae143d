# SPDX-License-Identifier: GPL-2.0-or-later
"""Signs that the host disturbed a guest while it was measured. Its results are never looked at.

Four signals, each as a share of the measured window in percent: how long the vCPU threads were
ready to run but did not (field 2 of /proc/PID/schedstat), how long a hypervisor above kept this
host's CPUs from running (steal in /proc/stat), how long any task on the host waited for a CPU (the
line "some" of /proc/pressure/cpu), and how much of the host's CPU time went to other processes
than the guest's and the lab's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.inputs.terms import Metric

PREFIX = "host_"
METRICS = {f"{PREFIX}{name}": Metric("%") for name in ("run_delay", "steal", "pressure", "others")}

# Above these shares, in percent, a boot is not used. They are chosen: a disturbance as large as the
# changes that a comparison is to see must not pass. A guest with nearly as many vCPUs as the host
# has CPUs crowds itself: seen on an idle host with two, run delay 7 to 12 % and pressure 12 to
# 17 %, in which no other process had a part. There only what others did counts.
LIMITS = {"run_delay": 0.5, "steal": 0.5, "pressure": 1.0, "others": 5.0}
_OWN_DOING = ("run_delay", "pressure")
# Guests that run in time slices all lose the same to a disturbance. Seen in 23 such rounds: the
# ratios of the 12 with 2.5 to 16 % of steal varied no more than the others'
# (docs/notes/2026-11-verdicts.md).
_SHARED_STEAL = 10.0
_SPARE_CPUS = 2  # one for QEMU's main loop, one for the lab
_VCPU = "CPU "  # QEMU names its vCPU threads "CPU 0/TCG", "CPU 1/KVM", ...
_PRESSURE = Path("/proc/pressure/cpu")


@dataclass(frozen=True)
class Reading:
    """The signals' running totals in seconds at one moment; a signal the host lacks is absent.

    run_delay is by vCPU thread.
    """

    at: float
    run_delay: Mapping[int, float]
    totals: Mapping[str, float]


def reading(processes: Iterable[int], company: Iterable[int] = ()) -> Reading | None:
    """Read the totals now, for the guest whose QEMU is one of processes.

    company are the processes of all guests of its round: what they use does not count as used by
    others. None when the guest's QEMU has not started or has ended.
    """
    delays = _run_delays(processes)
    totals = {**_cpu_time({*processes, *company}), **_pressure()}
    return Reading(time.monotonic(), delays, totals) if delays else None


def signals(before: Reading, after: Reading) -> dict[str, float]:
    """The shares of the time between two readings in percent, by metric name (see METRICS).

    The run delay is that of the vCPU thread that waited longest.
    """
    window = max(after.at - before.at, 1e-3)
    spent = {
        name: after.totals[name] - before.totals[name]
        for name in after.totals.keys() & before.totals.keys()
    }
    threads = after.run_delay.keys() & before.run_delay.keys()
    if threads:
        spent["run_delay"] = max(after.run_delay[t] - before.run_delay[t] for t in threads)
    # The totals are kept by different clocks, so a difference of two may be negative.
    return {f"{PREFIX}{n}": max(0.0, 100 * taken / window) for n, taken in sorted(spent.items())}


def disturbance(
    values: Mapping[str, float], vcpus: int, host_cpus: int, *, shared: bool = False
) -> str:
    """What disturbed a boot whose values these are, for a message; empty when nothing did.

    shared says that the guest ran in time slices with those it is compared with.
    """
    crowded = vcpus + _SPARE_CPUS > host_cpus
    limits = {**LIMITS, "steal": _SHARED_STEAL} if shared else LIMITS
    over = [
        f"{name.replace('_', ' ')} {values[PREFIX + name]:.1f} % (limit {limit:g} %)"
        for name, limit in limits.items()
        if values.get(PREFIX + name, 0.0) > limit and not (crowded and name in _OWN_DOING)
    ]
    return ", ".join(over)


def _run_delays(processes: Iterable[int]) -> dict[int, float]:
    delays = {}
    for process in processes:
        try:
            tasks = list(Path(f"/proc/{process}/task").iterdir())
        except OSError:
            continue  # it is gone
        for task in tasks:
            try:
                name = (task / "comm").read_text()
                fields = (task / "schedstat").read_text().split()
            except OSError:
                continue  # it ended meanwhile
            if name.startswith(_VCPU) and len(fields) > 1:
                delays[int(task.name)] = int(fields[1]) / 1e9
    return delays


def _cpu_time(processes: Iterable[int]) -> dict[str, float]:
    """CPU time in seconds, averaged over the host's CPUs: what was stolen, and what all but these
    processes and the lab used; empty when the host does not tell.
    """
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return {}
    if len(fields) < 8:
        return {}
    ticks, cpus = os.sysconf("SC_CLK_TCK"), os.cpu_count() or 1
    user, nice, system, _, _, hard, soft, steal = (int(field) / ticks for field in fields[:8])
    used = user + nice + system + hard + soft
    others = used - sum(map(cpu_seconds, [*processes, os.getpid()]))
    return {"steal": steal / cpus, "others": others / cpus}


def cpu_seconds(process: int) -> float:
    """The CPU time that a process has used, its ended threads included; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _pressure() -> dict[str, float]:
    try:
        some = _PRESSURE.read_text().split("\n", 1)[0]
        return {"pressure": int(some.rsplit("total=", 1)[1]) / 1e6}
    except (OSError, IndexError, ValueError):
        return {}
