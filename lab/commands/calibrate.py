# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine model from a machine's own measurements."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice, pairwise
from pathlib import Path
from statistics import median

from lab.base import toml
from lab.base.errors import LabError
from lab.base.progress import Progress
from lab.commands import processor
from lab.inputs.machine_model import MachineModel
from lab.measure import host, primitives
from lab.measure.primitives import Measured, Primitive, undisturbed

# Of the core: window and latencies of server cores since 2015 are near to these, and results hardly
# depend on them (docs/notes/2026-11-simulated.md).
_WINDOW, _WIDTH, _LOAD_CYCLES, _REFILL_CYCLES = 224, 4, 5, 16
# A read that leaves a store this little to do took the line with ownership; 0.25 is chosen.
_FREE = 0.25
# Readers keep lines if so few attempts to exchange what one has read fail, for each that does not;
# chosen.
_FAILING = 0.25
# Of the repetitions with two CPUs so many must be undisturbed. Measured anew until they are, so
# often.
_NEEDED = 3
_ROUNDS = 4
# Chosen: so often CPUs are measured one by one, for what a hypervisor runs beside a CPU differs
# from CPU to CPU and from second to second.
_SINGLES = 16
_CPU = Path("/sys/devices/system/cpu")

# Not recorded on the machines that were measured before it was needed.
FAILED = Primitive("compare-exchange-fails", 0, 2)
_SUCCEEDED = Primitive("compare-exchange", 0, 2)
_MODIFIED = ("chain", "loads", "stores", "adds")
# What a model is made of (used()).
USED = frozenset(
    (
        *(Primitive(name, 0, 1) for name in ("cycle", "pause", "clock", "own-add")),
        Primitive("add-owners", 0, 2),
        _SUCCEEDED,
        FAILED,
        *(Primitive("shared-stores", lines, 2) for lines in (0, 1)),
        *(
            Primitive(name, lines, 2)
            for name in ("clean-chain", "shared-adds", *(f"modified-{what}" for what in _MODIFIED))
            for lines in (4, 16)
        ),
        *(Primitive("read-stores", lines, 2) for lines in (0, 16)),
    )
)


def used(measured: Measured) -> frozenset[Primitive]:
    """What a model of these measurements is made of; it is judged by everything else."""
    return USED if FAILED in measured else USED - {_SUCCEEDED}


@dataclass(frozen=True)
class Figure:
    """A measured number, and between which its repetitions lay but for a tenth at each end, and at
    least one; times in ns.
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g}"

    @property
    def note(self) -> str:
        """Where it comes from, as a comment."""
        return f"measured: {self.low:.3g} to {self.high:.3g}"


@dataclass(frozen=True)
class Calibration:
    """A machine model as the text of a file, how many repetitions were not used for it, and all
    that one CPU did, and two that were as far from each other as the model says.
    """

    text: str
    disturbed: int
    measured: Measured

    @property
    def model(self) -> MachineModel:
        """The same, read."""
        return toml.parse(tomllib.loads(self.text), MachineModel, Path("this machine"), self.text)


def calibrate(progress: Progress) -> list[Calibration]:
    """Measure this machine, in a quarter of a minute for each distance.

    There is more than one model where a hypervisor moves CPUs to and fro: one for each distance
    that they had for long enough, the usual one first.

    Raises LabError when it has one CPU, or its CPUs do not stay where they are.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise LabError("this machine has one CPU: no cache line moves on it")
    with progress.step("measuring CPUs one by one"):
        in_turn = islice(cycle(cpus), _SINGLES)
        alone = pooled([primitives.natively((1,), (cpu,)) for cpu in in_turn])
    by_distance = [(near, _undisturbed(pairs, progress)) for near, pairs in distances(cpus).items()]
    title = f"measured here: {host.cpu_model()}".replace('"', "'")
    ipc = processor.instructions_a_cycle()
    usual = model(title, ipc, alone, by_distance)
    if len(by_distance) > 1:
        return [usual]
    others = primitives.at_each_distance(by_distance[0][1])[1:]
    enough = (each for each in others if _is_enough(each))
    return [usual, *(model(title, ipc, alone, [(len(cpus), each)]) for each in enough)]


def pooled(several: Sequence[Measured]) -> Measured:
    """All repetitions of several measurements."""
    together: Measured = {}
    for measured in several:
        for key, repetitions in measured.items():
            together.setdefault(key, []).extend(repetitions)
    return together


def _undisturbed(pairs: Sequence[tuple[int, int]], progress: Progress) -> Measured:
    """Pairs of CPUs, each once at least, measured until enough repetitions are undisturbed.

    Raises LabError when they are not.
    """
    measured: Measured = {}
    for number, (near, far) in enumerate([*pairs] * _ROUNDS, 1):
        with progress.step(f"measuring CPU {near} with CPU {far}"):
            measured = pooled([measured, primitives.natively((2,), (near, far))])
        if _is_enough(undisturbed(measured)) and number >= len(pairs):
            return measured
    seen = [each.before for key in measured for each in measured[key] if each.before]
    raise LabError(
        f"the CPUs of this machine do not stay where they are: a cache line took "
        f"{min(seen):.0f} to {max(seen):.0f} ns from CPU {near} to CPU {far}",
        hint="let nothing else run on it; a virtual machine needs CPUs that are pinned",
    )


def _is_enough(measured: Measured) -> bool:
    return all(len(measured[key]) >= _NEEDED for key in USED if key.threads == 2)


def distances(cpus: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
    """Pairs of CPUs by how many CPUs are no farther from each other: of one core, one L3, one
    package, and all.
    """
    groups = [{cpus[0]}]
    for name in ("topology/core_cpus_list", "cache/index3/shared_cpu_list",
                 "topology/package_cpus_list"):  # fmt: skip
        path = _CPU / f"cpu{cpus[0]}" / name
        if path.exists():
            groups.append(_listed(path.read_text()) & set(cpus))
    groups.append(set(cpus))
    pairs = {}
    for near, far in pairwise(sorted(groups, key=len)):
        if farther := sorted(far - near):
            # The last, one in the middle, and the first; they may be the same.
            others = (farther[-1], farther[len(farther) // 2], farther[0])
            pairs[len(far)] = [(cpus[0], other) for other in others]
    return pairs


def _listed(text: str) -> set[int]:
    """CPUs as the kernel lists them: 0-3,8."""
    cpus = set[int]()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def model(
    title: str, ipc: float, alone: Measured, by_distance: Sequence[tuple[int, Measured]]
) -> Calibration:
    """The model of a machine of so many instructions a cycle, from what one CPU does alone, and two
    of each distance.
    """
    cycle, add = (_figure(alone, name, 0, 1) for name in ("cycle", "own-add"))
    used = [(cpus, undisturbed(measured)) for cpus, measured in by_distance]
    all_cpus, farthest = used[-1]
    levels = "\n\n".join(_level(cpus, measured) for cpus, measured in used)
    text = f"""# SPDX-License-Identifier: GPL-2.0-or-later
title = "{title}"
cpus = {all_cpus}
# A cycle is {cycle} ns ({cycle.note}); {ipc:.3g} instructions a cycle are an assumption, by
# the processor's generation.
insn_ns = {cycle.value / ipc:.3g}
{_line("pause_ns", _figure(alone, "pause", 0, 1))}
{_line("clock_ns", _figure(alone, "clock", 0, 1))}

{levels}

[memory]
{_line("locked_ns", _minus(add, cycle))}
{_line("stay", _stay(farthest, add))}
# 16 stores to lines of another that were read before: {_figure(farthest, "read-stores", 16)} ns.
reads_take_ownership = {str(_takes_ownership(farthest)).lower()}
readers_keep_lines = {str(_readers_keep(farthest)).lower()}
{_line("load_gap_ns", _slope(farthest, "modified-loads"))}
{_line("store_gap_ns", _slope(farthest, "modified-stores"))}
{_line("locked_gap_ns", _slope(farthest, "modified-adds"))}
{_line("upgrade_gap_ns", _slope(farthest, "shared-adds"))}

# Not measured, but for the cycle: results hardly depend on it.
[core]
window = {_WINDOW}
cycle_ns = {cycle}
width = {_WIDTH}
load_cycles = {_LOAD_CYCLES}
refill_cycles = {_REFILL_CYCLES}
"""
    kept, every = (
        sum(len(each) for _, measured in those for each in measured.values())
        for those in (used, by_distance)
    )
    return Calibration(text, every - kept, {**alone, **used[-1][1]})


def _line(key: str, figure: Figure) -> str:
    return f"# {figure.note}\n{key} = {figure}"


def _level(cpus: int, measured: Measured) -> str:
    costs = {
        "clean_ns": _slope(measured, "clean-chain"),
        "dirty_ns": _slope(measured, "modified-chain"),
        "upgrade_ns": _beyond_none(measured, "shared-stores", 1),
    }
    return "\n".join(["[[level]]", f"cpus = {cpus}", *(_line(*item) for item in costs.items())])


def _stay(measured: Measured, add: Figure) -> Figure:
    """How long a line stays, in transfers. From one owner to the next it takes half a transfer
    besides, for the next one's request is there already, and the end of an addition.
    """
    owners, transfer = _figure(measured, "add-owners", 0), _slope(measured, "modified-chain")

    def share(taken: float) -> float:
        return max(0.0, (taken - add.value) / transfer.value - 0.5)

    return Figure(*map(share, (owners.value, owners.low, owners.high)))


def _takes_ownership(measured: Measured) -> bool:
    """Whether storing to a line costs little once one has read it."""
    store = _beyond_none(measured, "read-stores", 16).value / 16
    return store < _FREE * _beyond_none(measured, "shared-stores", 1).value


def _readers_keep(measured: Measured) -> bool:
    """Whether what one has read is seldom changed before one can exchange it."""
    if FAILED not in measured:
        return False
    failed, succeeded = (_figure(measured, each.name, 0).value for each in (FAILED, _SUCCEEDED))
    return succeeded < _FAILING * failed


def _beyond_none(measured: Measured, name: str, lines: int) -> Figure:
    """What so many lines take beyond the same without lines."""
    return _minus(_figure(measured, name, lines), _figure(measured, name, 0))


def _slope(measured: Measured, name: str) -> Figure:
    """What one more line takes, from 4 to 16."""
    return _combined(
        _figure(measured, name, 16), _figure(measured, name, 4), lambda many, few: (many - few) / 12
    )


def _minus(whole: Figure, part: Figure) -> Figure:
    return _combined(whole, part, lambda larger, smaller: max(0.0, larger - smaller))


def _combined(first: Figure, second: Figure, rule: Callable[[float, float], float]) -> Figure:
    """A rule that grows with the first and falls with the second."""
    return Figure(
        rule(first.value, second.value), rule(first.low, second.high), rule(first.high, second.low)
    )


def _figure(measured: Measured, name: str, lines: int, threads: int = 2) -> Figure:
    times = sorted(each.ns for each in measured[Primitive(name, lines, threads)])
    if not times:
        raise LabError(f"no repetition of {name} with {lines} lines was undisturbed")
    cut = max(1, len(times) // 10)
    inner = times[cut:-cut] if len(times) > _NEEDED else times
    return Figure(median(times), inner[0], inner[-1])
