# SPDX-License-Identifier: GPL-2.0-or-later
"""How many instructions a processor executes in a cycle, as far as its generation tells."""

from __future__ import annotations

from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
# Of the kernel's block layer: 7,329 instructions in 5,122 cycles, as perf counted on a Xeon Silver
# 4210R, a Skylake core (Ren et al., "BFQ, Multiqueue-Deadline, or Kyber?", ICPE 2024).
SKYLAKE = 1.43
# How much more its successors execute, as their makers state it of usual programs: Intel of Sunny
# Cove 18 % more than Skylake and of Golden Cove 19 % more than that, AMD of Zen 3 19 %, Zen 4 13 %
# and Zen 5 16 % more than the core before. Zen 2 is taken for as fast as Skylake, Granite Rapids
# (0xAD) for as fast as the generation before it.
_SUNNY_COVE = 1.18
_GOLDEN_COVE = 1.19 * _SUNNY_COVE
_ZEN3 = 1.19
_ZEN4 = 1.13 * _ZEN3
_ZEN5 = 1.16 * _ZEN4
# By vendor and family, models and the factor; the first that has the model counts.
_GENERATIONS: dict[tuple[str, int], list[tuple[frozenset[int], float]]] = {
    ("GenuineIntel", 6): [
        (frozenset({0x6A, 0x6C, 0x7D, 0x7E, 0xA7}), _SUNNY_COVE),
        (frozenset({0x8F, 0x97, 0x9A, 0xAD, 0xB7, 0xBA, 0xBF, 0xCF}), _GOLDEN_COVE),
    ],
    ("AuthenticAMD", 25): [
        (frozenset({*range(0x10, 0x20), *range(0x60, 0x80), *range(0xA0, 0xB0)}), _ZEN4),
        (frozenset(range(0x100)), _ZEN3),
    ],
    ("AuthenticAMD", 26): [(frozenset(range(0x100)), _ZEN5)],
}


def instructions_a_cycle() -> float:
    """Of this machine's processor: an assumption. One of no known generation is a Skylake."""
    facts: dict[str, str] = {}
    for line in _CPUINFO.read_text().splitlines():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    try:
        core = facts["vendor_id"], int(facts["cpu family"])
        model = int(facts["model"])
    except (KeyError, ValueError):
        return SKYLAKE
    factors = (factor for models, factor in _GENERATIONS.get(core, []) if model in models)
    return SKYLAKE * next(factors, 1.0)
