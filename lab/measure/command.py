# SPDX-License-Identifier: GPL-2.0-or-later
"""What a user's command costs: instructions in all, and by request that the disk was given."""

from __future__ import annotations

from lab.inputs.counters import REQUESTS
from lab.inputs.terms import Metric
from lab.measure.cost import Cost

KERNEL = "kernel_insns"
PER_REQUEST = "kernel_insns_per_request"
METRICS = {
    KERNEL: Metric("insns"),
    PER_REQUEST: Metric("insns/request"),
    "user_insns": Metric("insns"),
    "guest_ms": Metric("ms"),
}


def values(cost: Cost, requests: float, guest_ns: float) -> dict[str, float]:
    """The numbers of a command, or of one more of its amount; METRICS has their units.

    requests are those that the disk's driver was given; where there were none, none has a cost.
    """
    numbers = {
        KERNEL: cost.kernel_total,
        "user_insns": cost.user,
        "guest_ms": guest_ns / 1e6,
        REQUESTS: requests,
    }
    return numbers | ({PER_REQUEST: cost.kernel_total / requests} if requests > 0 else {})
