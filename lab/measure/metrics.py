# SPDX-License-Identifier: GPL-2.0-or-later
"""Every metric of the lab: its unit and its direction. Counters bring theirs from their files."""

from __future__ import annotations

from collections.abc import Mapping

from lab.base.errors import UsageError, nearest
from lab.guest import host_noise
from lab.inputs import counters, workload
from lab.inputs.machine_model import SENSITIVITY
from lab.inputs.terms import Better, Engine, Metric
from lab.measure import command, cost, dbench, fio, sim_counts
from lab.measure.cell import Cell

IOPS = "IOPS"
# What each tool gives; the exact engine and the simulation add the cost of an I/O to fio's numbers.
BY_TOOL = {
    "fio": {**fio.METRICS, **cost.METRICS, **sim_counts.METRICS},
    "dbench": dbench.METRICS,
    "command": command.METRICS,
}
# What the simulation gives at other costs of the machine model.
_VARIANTS = {
    sim_counts.variant(name, scaled): metric
    for name, metric in {"iops": fio.METRICS["iops"], **sim_counts.METRICS}.items()
    for scaled in SENSITIVITY
}
# What the exact engine gives beside a workload's own metric, the more telling first.
EXACT = (cost.KERNEL, cost.TIME)


def get(name: str) -> Metric:
    """The metric called name; UsageError names the nearest one."""
    for known in (*BY_TOOL.values(), _VARIANTS, host_noise.METRICS):
        if name in known:
            return known[name]
    if name in counters.known():
        counter = counters.get(name)
        return Metric(counter.unit, counter.better)
    raise UsageError(f"no metric is called {name!r}", hint=nearest(name, known_names()))


def unit(name: str, engine: Engine) -> str:
    """The unit of a metric from an engine."""
    return with_clock(get(name).unit, engine)


def with_clock(unit: str, engine: Engine) -> str:
    """A unit from an engine: IOPS say which clock they are of, for three are not comparable."""
    return f"{engine.clock} {unit}" if unit == IOPS else unit


def known_names() -> list[str]:
    """The names of all metrics, sorted."""
    tools = (name for metrics in BY_TOOL.values() for name in metrics)
    return sorted({*tools, *host_noise.METRICS, *counters.known()})


def of_workload(name: str) -> dict[str, Metric]:
    """What a workload's tool gives, by name."""
    return BY_TOOL[workload.get(name).tool]


def require_headline(name: str) -> None:
    """Raise UsageError when a workload's tool does not give the workload's own metric."""
    definition = workload.get(name)
    offered = BY_TOOL[definition.tool]
    if definition.metric not in offered:
        raise UsageError(
            f"{definition.tool} gives no metric {definition.metric!r}",
            where=f"{workload.FOLDER / name}.toml: metric",
            hint=nearest(definition.metric, offered),
        )


def improvement(change: float, better: Better) -> float:
    """A relative change with the sign of an improvement: positive is better."""
    return change if better is Better.HIGHER else -change


def headline(cell: Cell, values: Mapping[str, float]) -> str:
    """The metric that stands for a cell: its cost from the exact engine, else the workload's."""
    default = workload.get(cell.workload).metric
    return next((name for name in EXACT if cell.engine.deterministic and name in values), default)
