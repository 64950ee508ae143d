# SPDX-License-Identifier: GPL-2.0-or-later
"""Signs that the host disturbed a guest while it was measured. Values are never looked at.

Three signals, each as a share of the measured window in percent: how long the vCPU threads were
ready to run but did not (field 2 of /proc/PID/schedstat), how long a hypervisor above kept this
host's CPUs from running (steal in /proc/stat), and how long any task on the host waited for a CPU
(the line "some" of /proc/pressure/cpu).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

PREFIX = "host_"
UNITS = {f"{PREFIX}{name}": "%" for name in ("run_delay", "steal", "pressure")}

# Above these shares, in percent, a boot is not used.
LIMITS = {"run_delay": 0.5, "steal": 0.5, "pressure": 1.0}
_VCPU = "CPU "  # QEMU names its vCPU threads "CPU 0/TCG", "CPU 1/KVM", ...
_PRESSURE = Path("/proc/pressure/cpu")


@dataclass(frozen=True)
class Reading:
    """The signals' running totals in seconds at one moment; what the host does not tell is absent.

    run_delay is by vCPU thread.
    """

    at: float
    run_delay: Mapping[int, float]
    totals: Mapping[str, float]


def reading(processes: Iterable[int]) -> Reading | None:
    """Read the totals now; processes are those among which the guest's QEMU is.

    None when it is not, or not any more.
    """
    delays = _run_delays(processes)
    totals = {**_steal(), **_pressure()}
    return Reading(time.monotonic(), delays, totals) if delays else None


def signals(before: Reading, after: Reading) -> dict[str, float]:
    """The shares of the time between two readings in percent, by metric name (see UNITS).

    The run delay is that of the vCPU thread that waited longest.
    """
    window = max(after.at - before.at, 1e-3)
    found = {
        name: after.totals[name] - before.totals[name]
        for name in after.totals.keys() & before.totals.keys()
    }
    threads = after.run_delay.keys() & before.run_delay.keys()
    if threads:
        found["run_delay"] = max(after.run_delay[t] - before.run_delay[t] for t in threads)
    return {f"{PREFIX}{name}": 100 * seconds / window for name, seconds in sorted(found.items())}


def disturbance(values: Mapping[str, float]) -> str:
    """What disturbed a boot whose values these are, for a message; empty when nothing did."""
    over = [
        f"{name.replace('_', ' ')} {values[PREFIX + name]:.1f} % (limit {limit:g} %)"
        for name, limit in LIMITS.items()
        if values.get(PREFIX + name, 0.0) > limit
    ]
    return ", ".join(over)


def _run_delays(processes: Iterable[int]) -> dict[int, float]:
    found = {}
    for process in processes:
        for task in Path(f"/proc/{process}/task").glob("*"):
            try:
                name = (task / "comm").read_text()
                fields = (task / "schedstat").read_text().split()
            except OSError:
                continue  # it ended meanwhile
            if name.startswith(_VCPU) and len(fields) > 1:
                found[int(task.name)] = int(fields[1]) / 1e9
    return found


def _steal() -> dict[str, float]:
    """Stolen time, in seconds of a CPU's time, averaged over the host's CPUs."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    except OSError:
        return {}
    ticks, cpus = os.sysconf("SC_CLK_TCK"), os.cpu_count() or 1
    return {"steal": int(fields[8]) / ticks / cpus} if len(fields) > 8 else {}


def _pressure() -> dict[str, float]:
    try:
        some = _PRESSURE.read_text().split("\n", 1)[0]
        return {"pressure": int(some.rsplit("total=", 1)[1]) / 1e6}
    except (OSError, IndexError, ValueError):
        return {}
