# SPDX-License-Identifier: GPL-2.0-or-later
"""What an I/O costs by function, as profiles that other tools open: folded stacks, speedscope.

A stack is the path of calls where the kernel's stacks were followed; else the part of the system
that a function belongs to, and the function. A cost is the difference of two counts, and a function
that noise makes less than nothing is skipped.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from lab import __version__
from lab.base.text import visible
from lab.build import block_layer
from lab.measure.cost import Cost
from lab.report.run_record import CellRecord, RunRecord

# What an I/O of a boot cost; None where that was not counted.
Costs = Callable[[str], Cost | None]
Stack = tuple[str, ...]
K = TypeVar("K", Stack, str)

KERNEL = "kernel"
BLOCK_LAYER = "block layer"
USER = "user space"
# Flame graphs add up whole numbers: what so many I/Os cost.
_IOS = 1000
_SPEEDSCOPE = "https://www.speedscope.app/file-format-schema.json"


@dataclass(frozen=True)
class CostProfile:
    """What an I/O of a cell costs, the mean of its boots, by stack from the outside in: what
    belongs together in a row, the costliest first.

    Instructions or, where it is simulated, nanoseconds of all vCPUs.
    """

    cell: str
    arm: str
    simulated: bool
    stacks: Mapping[Stack, float]

    @property
    def name(self) -> str:
        """Cell and arm, by which it is found among those of its run."""
        return f"{self.cell}, {self.arm}"

    @property
    def total(self) -> float:
        """All that an I/O costs."""
        return sum(self.stacks.values())


CostComparison = tuple[CostProfile, CostProfile]


def _of_cell(
    cell: CellRecord, costs: Costs, layer_functions: Collection[str]
) -> CostProfile | None:
    """The profile of a cell, layer_functions told apart; None where nothing was counted."""
    boot_costs = [cost for boot in cell.boots if (cost := _readable(costs, boot.id))]
    if not boot_costs:
        return None
    means: dict[Stack, float] = {(USER,): statistics.fmean(cost.user for cost in boot_costs)}
    if all(cost.paths for cost in boot_costs):
        for path, mean in _means([cost.paths for cost in boot_costs]).items():
            means[KERNEL, *path] = mean
    else:
        for name, mean in sorted(_means([cost.kernel for cost in boot_costs]).items()):
            layer = (BLOCK_LAYER,) if name in layer_functions else ()
            means[KERNEL, *layer, name] = mean
    costly = [stack for stack, value in means.items() if value > 0]
    costly.sort(key=lambda stack: (stack[:-1], -means[stack]))
    cpus = f", {cell.cpus} CPUs" if cell.cpus > 1 else ""
    return CostProfile(
        cell=f"{cell.name}, {cell.executed}{cpus}",
        arm=cell.arm,
        simulated=cell.engine.simulated,
        stacks={stack: means[stack] for stack in costly},
    )


def _means(boots: Sequence[Mapping[K, float]]) -> dict[K, float]:
    """The means over boots of what is by function or by path; what a boot lacks is zero in it."""
    every = dict.fromkeys(key for boot in boots for key in boot)
    return {key: statistics.fmean(boot.get(key, 0.0) for boot in boots) for key in every}


def _readable(costs: Costs, boot: str) -> Cost | None:
    """What an I/O of a boot cost; a file that is damaged does not take the whole page with it."""
    try:
        return costs(boot)
    except (OSError, ValueError, KeyError):
        return None


def of_run(run: RunRecord, costs: Costs, only: str = "") -> list[CostProfile]:
    """The profiles of a run's cells, each once; of those alone whose name has a text in it."""
    layer_functions = _block_layer(run)
    profiles = (_of_cell(cell, costs, layer_functions) for cell in run.cells)
    kept = (profile for profile in profiles if profile and only in profile.name)
    return list({(profile.name, *profile.stacks.items()): profile for profile in kept}.values())


def compared(run: RunRecord, costs: Costs, only: str = "") -> dict[tuple[int, int], CostComparison]:
    """What a run compares by function, by the places of two cells, one with a text in its name."""
    layer_functions = _block_layer(run)
    comparisons = {}
    for places in dict.fromkeys(difference.cells for difference in run.costs):
        before, after = (_of_cell(run.cells[place], costs, layer_functions) for place in places)
        if before and after and (only in before.name or only in after.name):
            comparisons[places] = (before, after)
    return comparisons


def _block_layer(run: RunRecord) -> frozenset[str]:
    """The functions of the block layer in the kernels of a run; none of those that are deleted."""
    functions: set[str] = set()
    for identity in dict.fromkeys(boot.kernel for cell in run.cells for boot in cell.boots):
        with suppress(OSError, ValueError):  # an id with a zero byte, of a stranger's record
            functions |= block_layer.of_kernel(identity)
    return frozenset(functions)


def folded(run: RunRecord, costs: Costs, only: str = "") -> str:
    """Folded stacks: ``CELL;ARM;kernel;FUNCTION N``, what 1,000 I/Os cost in whole numbers.

    Of simulated cells N is in nanoseconds.
    """
    return "".join(
        f"{';'.join(map(_frame, (name, profile.arm, *stack)))} {count}\n"
        for name, profile in _numbered(run, costs, only)
        for stack, value in profile.stacks.items()
        if (count := round(_IOS * value))
    )


def speedscope(run: RunRecord, costs: Costs, only: str = "") -> str:
    """A file of speedscope's (www.speedscope.app), a profile for each cell and arm."""
    frames: dict[str, int] = {}
    profiles = []
    for name, profile in _numbered(run, costs, only):
        profiles.append(
            {
                "type": "sampled",
                "name": visible(f"{name}, {profile.arm}"),
                "unit": "nanoseconds" if profile.simulated else "none",
                "startValue": 0,
                "endValue": profile.total,
                "samples": [
                    [frames.setdefault(visible(frame), len(frames)) for frame in stack]
                    for stack in profile.stacks
                ],
                "weights": [*profile.stacks.values()],
            }
        )
    if not profiles:
        return ""
    document = {
        "$schema": _SPEEDSCOPE,
        "exporter": f"lab {__version__}",
        "name": visible(f"{run.title}: {run.id}, cost of an I/O"),
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": profiles,
    }
    return json.dumps(document, indent=1) + "\n"


def _numbered(run: RunRecord, costs: Costs, only: str) -> Iterator[tuple[str, CostProfile]]:
    """Profiles with the names of their cells, numbered where one arm has a cell several times."""
    seen: Counter[str] = Counter()
    for profile in of_run(run, costs, only):
        seen[profile.name] += 1
        number = seen[profile.name]
        yield (profile.cell if number == 1 else f"{profile.cell} ({number})"), profile


def _frame(name: str) -> str:
    """A name that ends neither the frame nor the line."""
    return " ".join(visible(name).replace(";", ",").split())
