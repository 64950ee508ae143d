# SPDX-License-Identifier: GPL-2.0-or-later
"""The gate's memory: which state of a branch was good, and what each night changed."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping

from lab.measure.boot_store import BootStore
from lab.report.trend import Night

_SCHEMA = """
CREATE TABLE IF NOT EXISTS gate_runs (
    id     INTEGER PRIMARY KEY,
    branch TEXT NOT NULL,
    source TEXT NOT NULL,   -- git:PATH@COMMIT
    run    TEXT NOT NULL,   -- id of the record; empty for a state accepted by hand
    judged REAL NOT NULL,   -- seconds since 1970
    good   INTEGER NOT NULL,
    reason TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS gate_run_changes (
    gate_run  INTEGER NOT NULL REFERENCES gate_runs (id),
    cell   TEXT NOT NULL,
    change REAL NOT NULL    -- against the baseline, as a fraction
);
CREATE INDEX IF NOT EXISTS gate_run_changes_by_cell ON gate_run_changes (cell);
-- Runs of before there was this table have no rows here.
CREATE TABLE IF NOT EXISTS gate_run_values (
    gate_run  INTEGER NOT NULL REFERENCES gate_runs (id),
    cell   TEXT NOT NULL,
    value  REAL NOT NULL    -- what an I/O costs in the block layer, mean of the seeds
);
CREATE INDEX IF NOT EXISTS gate_run_values_by_run ON gate_run_values (gate_run);
"""


class GateHistory:
    """Tables of the gate in the store's database; a row appears whole or not at all."""

    def __init__(self, store: BootStore) -> None:
        self._store = store
        with self._store.connection() as connection:
            connection.executescript(_SCHEMA)

    def add(
        self,
        branch: str,
        source: str,
        run: str,
        reason: str,
        changes: Mapping[str, float | None],
        values: Mapping[str, float | None] | None = None,
    ) -> None:
        """Write down a run of the gate; it was good when there is no reason against it.

        changes are those of the exact cells against the baseline, values what an I/O costs in the
        block layer of the branch, in instructions; None where a cell failed.
        """
        with self._store.connection() as connection:
            gate_run = self._insert(connection, branch, source, run, not reason, reason)
            for table, by_cell in (("changes", changes), ("values", values or {})):
                known = [(gate_run, c, value) for c, value in by_cell.items() if value is not None]
                connection.executemany(f"INSERT INTO gate_run_{table} VALUES (?, ?, ?)", known)

    def nights(self) -> dict[str, list[Night]]:
        """All runs of the gate by branch, oldest first; what was accepted by hand is none."""
        nights: dict[str, list[Night]] = {}
        with self._store.connection() as connection:
            values: dict[int, dict[str, float]] = {}
            for gate_run, cell, value in connection.execute(
                "SELECT gate_run, cell, value FROM gate_run_values"
            ):
                values.setdefault(gate_run, {})[cell] = value
            for row in connection.execute(
                "SELECT id, branch, source, judged, good, reason FROM gate_runs"
                " WHERE run != '' ORDER BY id"
            ):
                identity, branch, source, judged, good, reason = row
                night = Night(source, judged, bool(good), reason, values.get(identity, {}))
                nights.setdefault(branch, []).append(night)
        return nights

    def accept(self, branch: str, source: str, reason: str) -> None:
        """Make a state of a branch its baseline by hand."""
        with self._store.connection() as connection:
            self._insert(connection, branch, source, "", True, reason)

    def judged(self, branch: str, run: str) -> str | None:
        """The state of a branch that was judged in a run; None when it was not."""
        query = "SELECT source FROM gate_runs WHERE branch = ? AND run = ?"
        return self._first(query, branch, run)

    def last_run(self, branch: str) -> str | None:
        """The run in which a branch was judged last; None before the first."""
        return self._first(
            "SELECT run FROM gate_runs WHERE branch = ? AND run != '' ORDER BY id DESC LIMIT 1",
            branch,
        )

    def last_good(self, branch: str) -> str | None:
        """The newest good state of a branch; None before the first."""
        return self._first(
            "SELECT source FROM gate_runs WHERE branch = ? AND good ORDER BY id DESC LIMIT 1",
            branch,
        )

    def first_good(self, branch: str) -> str | None:
        """The first good state of a branch, or the last one accepted by hand; None before."""
        return self._first(
            "SELECT source FROM gate_runs WHERE branch = ? AND good"
            " ORDER BY run != '', CASE run WHEN '' THEN -id ELSE id END LIMIT 1",
            branch,
        )

    def baseline_runs(self) -> set[str]:
        """The runs in which the states were judged that are baselines now."""
        with self._store.connection() as connection:
            rows = connection.execute(
                "SELECT run FROM gate_runs WHERE run != '' AND (branch, source) IN"
                " (SELECT branch, source FROM gate_runs WHERE id IN"
                " (SELECT max(id) FROM gate_runs WHERE good GROUP BY branch))"
            )
            return {str(row[0]) for row in rows}

    def _first(self, query: str, *values: str) -> str | None:
        """The first column of a query's first row; None without a row."""
        with self._store.connection() as connection:
            row = connection.execute(query, values).fetchone()
            return str(row[0]) if row else None

    def _insert(
        self,
        connection: sqlite3.Connection,
        branch: str,
        source: str,
        run: str,
        good: bool,
        reason: str,
    ) -> int:
        cursor = connection.execute(
            "INSERT INTO gate_runs (branch, source, run, judged, good, reason)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (branch, source, run, time.time(), good, reason),
        )
        return cursor.lastrowid or 0
