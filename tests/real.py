# SPDX-License-Identifier: GPL-2.0-or-later
"""Jobs for real guests, on real kernels."""

from __future__ import annotations

from lab.inputs import profile
from lab.inputs.terms import Engine
from lab.measure import matrix
from lab.measure.job import Job, Testbed, resolve
from lab.measure.matrix import Selection

QUICK = profile.get("quick")


def job(
    testbed: Testbed,
    machine: str,
    scheduler: str,
    work: str,
    engine: Engine,
    **parameters: int | str,
) -> Job:
    """One cell as the quick profile runs it, on the kernel that the testbed was checked with."""
    settings = tuple((name, (value,)) for name, value in parameters.items())
    selection = Selection((machine,), (scheduler,), (work,), settings)
    block = profile.Block(topologies=(machine,), schedulers=(scheduler,), workloads=(work,))
    block_profile = QUICK.model_copy(update={"matrix": (block,)})
    (planned,) = matrix.cells(block_profile, selection, engine)
    return resolve(planned.on(testbed.probe_kernel), testbed)
