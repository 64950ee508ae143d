# SPDX-License-Identifier: GPL-2.0-or-later
"""How long guests take: as those of their kind did here, else as they did on two cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.inputs import workload
from lab.measure.boot_store import BootStore
from lab.measure.cell import Cell

Kind = tuple[str, str, str, int]

# Host seconds of a guest, and of each of its vCPUs, seen on two cores of a small virtual machine:
# by the clock of the host, by the exact engine, simulated; and more for dbench.
_TIMED = (15.0, 0.0)
_EXACT = (4.0, 1.0)
_SIMULATED = (8.0, 2.0)
_DBENCH_S = 20.0


@dataclass(frozen=True)
class Durations:
    """Mean host seconds by kind of guest: hardware, workload, engine and vCPUs."""

    known: Mapping[Kind, float] = field(default_factory=dict)

    def of(self, cell: Cell) -> float:
        """How many seconds a boot of a cell takes."""
        kind = cell.topology, cell.workload, str(cell.engine), cell.cpus
        if kind in self.known:
            return self.known[kind]
        base, each = _SIMULATED if cell.engine.simulated else _EXACT
        base, each = (base, each) if cell.engine.deterministic else _TIMED
        dbench = workload.get(cell.workload).tool == "dbench"
        return base + each * cell.cpus + (_DBENCH_S if dbench else 0.0)


def recorded(store: BootStore) -> Durations:
    """What the successful boots of a store took; a store that is not there yet stays so."""
    if not store.folder.is_dir():
        return Durations()
    parts = ("topology", "workload", "engine", "cpus")
    kind = ", ".join(f"json_extract(cell, '$.{part}')" for part in parts)
    rows = store.rows(
        f"SELECT {kind}, avg(seconds) FROM boots WHERE outcome = 'ok' GROUP BY {kind}"
    )
    return Durations({(key[0], key[1], key[2], key[3]): mean for *key, mean in rows})
