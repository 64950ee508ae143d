# SPDX-License-Identifier: GPL-2.0-or-later
"""A history of a gate that never ran: nights of measured noise, with planted steps."""

from __future__ import annotations

import random
from pathlib import Path

from lab.report.trend import Night

_SPREADS = Path(__file__).with_name("data") / "seed-spreads.txt"
_DAY = 86400.0
# Of four nights one finds a branch as it was.
_QUIET = 0.25
NIGHTS, CELLS = 200, 100
# Planted: cell, night, change. The cells' noise is 0.01 %, 0.05 % and 0.08 %.
STEPS = ((3, 60, 0.005), (40, 120, -0.008), (60, 170, 0.004))


def history(seed: int, planted: tuple[tuple[int, int, float], ...] = STEPS) -> list[Night]:
    """Nights of a branch whose cells differ from night to night as seeds of one kernel do.

    Cells are in the order of their noise, which grows from 0.001 % to some 0.2 %, and a tenth of
    them have more, up to 10 %.
    """
    chance = random.Random(seed)
    lines = [line.split() for line in _SPREADS.read_text().splitlines() if line[0] != "#"]
    spreads = [float(lines[place * len(lines) // CELLS][0]) for place in range(CELLS)]
    levels = [chance.uniform(1000, 9000) for _ in range(CELLS)]
    names = [f"disk{n % 10}/{('bfq', 'none', 'kyber')[n % 3]}/work{n:02}" for n in range(CELLS)]
    nights: list[Night] = []
    commit = "0" * 40
    for night in range(NIGHTS):
        for cell, when, change in planted:
            levels[cell] *= 1 + change if night == when else 1
        steps = any(when == night for _, when, _ in planted)
        if nights and not steps and chance.random() < _QUIET:
            values = dict(nights[-1].values)
        else:
            commit = f"{chance.getrandbits(160):040x}"
            drawn = [
                level * max(0.1, 1 + chance.gauss(0, spread))
                for level, spread in zip(levels, spreads, strict=True)
            ]
            values = dict(zip(names, drawn, strict=True))
        good = not any(when == night and change > 0 for _, when, change in planted)
        reason = "" if good else "costs more"
        source = f"git:/nowhere@{commit}"
        nights.append(Night(source, 1.7e9 + night * _DAY, good, reason, values))
    return nights
