# SPDX-License-Identifier: GPL-2.0-or-later
"""A boot as it was written down, so that it can be booted again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab.base.errors import UsageError
from lab.inputs.terms import Engine
from lab.measure.boot_store import BootStore
from lab.measure.cell import Cell

_LATEST = "last"


@dataclass(frozen=True)
class Recorded:
    """A boot: its cell, its kernel's id, the key of what was executed, how it ended, its numbers.

    Boots of a round are kept under the key of the round: key is empty for them.
    """

    id: str
    cell: Cell
    arm: str
    kernel: str
    key: str
    outcome: str
    reason: str
    values: Mapping[str, float]


def find(store: BootStore, name: str) -> Recorded:
    """The boot of an id, or of the beginning of one; ``last`` is the newest.

    Raises UsageError when there is none, or several.
    """
    beginning = "" if name == _LATEST else name
    rows = store.rows(
        "SELECT id, cell, arm, kernel, key, outcome, reason, round FROM boots"
        " WHERE substr(id, 1, ?) = ? ORDER BY rowid",
        (len(beginning), beginning),
    )
    exact = [row for row in rows if row[0] == name]
    rows = exact or (rows[-1:] if name == _LATEST else rows)
    if len(rows) != 1:
        what = f"{len(rows)} boots begin with" if rows else "no boot is called"
        raise UsageError(
            f"{what} {name!r}",
            where=str(store.folder),
            hint="a run's page names its boots, and so do the folders in boots/",
        )
    boot, cell, arm, kernel, key, outcome, reason, round_id = rows[0]
    query = "SELECT metric, value FROM samples WHERE boot = ? ORDER BY metric"
    values = dict(store.rows(query, (boot,)))
    alone = "" if round_id else key
    return Recorded(boot, _cell(json.loads(cell)), arm, kernel, alone, outcome, reason, values)


def _cell(written: dict[str, Any]) -> Cell:
    """A cell out of its JSON, which has lists for tuples."""
    parameters = tuple((name, value) for name, value in written.pop("parameters"))
    engine = Engine(written.pop("engine"))
    rest: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in written.items()}
    return Cell(parameters=parameters, engine=engine, **rest)
