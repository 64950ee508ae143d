# SPDX-License-Identifier: GPL-2.0-or-later
"""What was measured: every boot with its numbers in SQLite, its raw files in a folder each."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.base import cache
from lab.base.system import results
from lab.measure.cell import Cell
from lab.measure.cost import Cost, from_text
from lab.measure.sampling import Sample

_SCHEMA = """
CREATE TABLE IF NOT EXISTS boots (
    id      TEXT PRIMARY KEY,   -- also the name of its folder below boots/
    key     TEXT NOT NULL,      -- equal for repetitions of one measurement
    cell    TEXT NOT NULL,      -- JSON
    kernel  TEXT NOT NULL,
    qemu    TEXT NOT NULL,
    host    TEXT NOT NULL,
    started REAL NOT NULL,      -- seconds since 1970
    seconds REAL NOT NULL,
    outcome TEXT NOT NULL,      -- ok, disturbed (by the host), or the kind of failure
    reason  TEXT NOT NULL,
    facts   TEXT NOT NULL,      -- JSON: what the guest really was
    turn    TEXT NOT NULL DEFAULT ''  -- equal for the boots of one round of several arms
);
CREATE INDEX IF NOT EXISTS boots_by_key ON boots (key);
CREATE TABLE IF NOT EXISTS samples (
    boot   TEXT NOT NULL REFERENCES boots (id),
    metric TEXT NOT NULL,
    value  REAL NOT NULL,
    unit   TEXT NOT NULL,
    PRIMARY KEY (boot, metric)
);
"""

_READ_ONLY = 0o444


@dataclass(frozen=True)
class Stored:
    """One boot out of the store: id, outcome, values by metric, and what the guest was."""

    id: str
    outcome: str
    reason: str
    seconds: float
    values: dict[str, float]
    facts: dict[str, str]


@dataclass(frozen=True)
class Detail:
    """What a record keeps of one boot; started is in seconds since 1970."""

    id: str
    kernel: str
    turn: str
    started: float
    seconds: float
    facts: dict[str, str]
    values: dict[str, float]


@dataclass(frozen=True)
class Provenance:
    """What a boot ran on: measurement key, kernel id, QEMU version, host id; turn is its round."""

    key: str
    kernel: str
    qemu: str
    host: str
    turn: str = ""


class Store:
    """The results folder. Safe to use from several processes; a row appears whole or not at all."""

    def __init__(self, folder: Path | None = None) -> None:
        own = os.environ.get("LAB_RESULTS")
        self.folder = cache.make_folder(folder or (Path(own) if own else results()))
        self._database = self.folder / "lab.sqlite"
        with self._connection() as connection:
            connection.executescript(_SCHEMA)
            columns = {row[1] for row in connection.execute("PRAGMA table_info(boots)")}
            if "turn" not in columns:  # a results folder from before there were rounds
                connection.execute("ALTER TABLE boots ADD COLUMN turn TEXT NOT NULL DEFAULT ''")

    def boot_folder(self, identity: str) -> Path:
        """Where the raw files of a boot lie."""
        return self.folder / "boots" / identity

    def cost(self, identity: str) -> Cost | None:
        """What an I/O of a boot cost by function; None where that was not counted."""
        path = self.boot_folder(identity) / "cost.tsv"
        return from_text(path.read_text()) if path.exists() else None

    def new_boot(self) -> str:
        """An id for a boot that is about to start; ids sort by time."""
        return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:6]}"

    def finished(self, key: str) -> list[Stored]:
        """The successful boots of a measurement, oldest first."""
        return [boot for _, boot in self._finished(key)]

    def in_rounds(self, key: str) -> dict[str, Stored]:
        """The successful boots of an arm by the round they belong to, oldest first."""
        return dict(self._finished(key))

    def _finished(self, key: str) -> list[tuple[str, Stored]]:
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT turn, id, outcome, reason, seconds, facts FROM boots"
                " WHERE key = ? AND outcome = 'ok' ORDER BY started",
                (key,),
            ).fetchall()
            return [
                (
                    row[0],
                    _stored(connection, row[1:]),
                )
                for row in rows
            ]

    def details(self, identities: Sequence[str]) -> dict[str, Detail]:
        """Boots by id."""
        found = {}
        with self._connection() as connection:
            for identity in identities:
                row = connection.execute(
                    "SELECT id, kernel, turn, started, seconds, facts FROM boots WHERE id = ?",
                    (identity,),
                ).fetchone()
                if row:
                    _, kernel, turn, started, seconds, facts = row
                    values = _values(connection, identity)
                    found[identity] = Detail(
                        identity, kernel, turn, started, seconds, json.loads(facts), values
                    )
        return found

    def history(self, boot: str, metric: str) -> list[tuple[float, str, float]]:
        """A metric of all boots of the same cell as a boot, whatever kernel, oldest first.

        Each is the time (seconds since 1970), the kernel's id and the value.
        """
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT started, kernel, value FROM boots JOIN samples ON boot = id"
                " WHERE metric = ? AND outcome = 'ok'"
                " AND cell = (SELECT cell FROM boots WHERE id = ?) ORDER BY started",
                (metric, boot),
            )
            return [(float(when), str(kernel), float(value)) for when, kernel, value in rows]

    def reject(self, turn: str, why: str) -> None:
        """Take a round out of the results: the host disturbed it. Its boots stay on record."""
        with self._connection() as connection:
            connection.execute(
                "UPDATE boots SET outcome = 'disturbed', reason = ?"
                " WHERE turn = ? AND outcome = 'ok'",
                (why, turn),
            )

    def rejected(self, keys: Sequence[str]) -> int:
        """How many rounds of the arms with these keys were rejected."""
        with self._connection() as connection:
            marks = ", ".join("?" * len(keys))
            (count,) = connection.execute(
                "SELECT count(DISTINCT turn) FROM boots"
                f" WHERE outcome = 'disturbed' AND key IN ({marks})",
                list(keys),
            ).fetchone()
            return int(count)

    def usual_seconds(self) -> float | None:
        """The mean duration of the last successful boots; None before the first."""
        with self._connection() as connection:
            (mean,) = connection.execute(
                "SELECT avg(seconds) FROM (SELECT seconds FROM boots WHERE outcome = 'ok'"
                " ORDER BY started DESC LIMIT 40)"
            ).fetchone()
            return mean if mean is None else float(mean)

    def add(
        self,
        identity: str,
        cell: Cell,
        origin: Provenance,
        started: float,
        sample: Sample | None,
        *,
        outcome: str = "ok",
        reason: str = "",
    ) -> None:
        """Write down a boot that ended, well or not; from then on its files do not change."""
        facts = dict(sample.facts) if sample else {}
        with cache.disk_space_matters(self.folder), self._connection() as connection:
            self._file(self.boot_folder(identity))
            connection.execute(
                "INSERT INTO boots VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(identity, origin.key, json.dumps(asdict(cell)), origin.kernel, origin.qemu),
                    *(origin.host, started, time.time() - started, outcome, reason),
                    *(json.dumps(facts), origin.turn),
                ),
            )
            if sample:
                connection.executemany(
                    "INSERT INTO samples VALUES (?, ?, ?, ?)",
                    [(identity, m, value, sample.units[m]) for m, value in sample.values.items()],
                )

    def _file(self, folder: Path) -> None:
        """Keep a boot's files below objects/ by SHA-256, and one file for all boots that agree.

        What lies in the boot's folder are hard links to them. Exact boots agree in megabytes. Where
        a file system has no hard links, or no more of them, files stay as they are.
        """
        for path in folder.glob("*"):
            if path.is_symlink() or not path.is_file() or not path.stat().st_size:
                continue
            path.chmod(_READ_ONLY)
            digest = cache.file_hash(path)
            kept = cache.make_folder(self.folder / "objects" / digest[:2]) / digest
            with suppress(OSError):
                try:
                    kept.hardlink_to(path)
                except FileExistsError:
                    aside = path.with_name(f".{path.name}")
                    aside.hardlink_to(kept)
                    aside.replace(path)

    def sweep(self) -> None:
        """Delete the files that no boot has any more."""
        for path in (self.folder / "objects").glob("*/*"):
            if path.stat().st_nlink == 1:
                path.unlink()

    def started_before(self, horizon: float) -> list[str]:
        """The ids of all boots that started before a time in seconds since 1970, however ended."""
        with self._connection() as connection:
            rows = connection.execute("SELECT id FROM boots WHERE started < ?", (horizon,))
            return [str(row[0]) for row in rows]

    def kernels_since(self, horizon: float) -> set[str]:
        """The ids of the kernels that were booted since a time in seconds since 1970."""
        with self._connection() as connection:
            rows = connection.execute("SELECT kernel FROM boots WHERE started >= ?", (horizon,))
            return {str(row[0]) for row in rows}

    def forget(self, boots: Sequence[str]) -> None:
        """Delete what is written down of boots, and their samples."""
        with self._connection() as connection:
            for boot in boots:
                connection.execute("DELETE FROM samples WHERE boot = ?", (boot,))
                connection.execute("DELETE FROM boots WHERE id = ?", (boot,))

    def forget_unfinished(self) -> None:
        """Delete the folders of boots that were cut off and so never written down."""
        folders = {path.name: path for path in (self.folder / "boots").glob("*")}
        with self._connection() as connection:
            known = {row[0] for row in connection.execute("SELECT id FROM boots")}
        for name in folders.keys() - known:
            shutil.rmtree(folders[name], ignore_errors=True)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._database, timeout=60)) as connection, connection:
            yield connection


def _stored(connection: sqlite3.Connection, row: Sequence[Any]) -> Stored:
    boot, outcome, reason, seconds, facts = row
    return Stored(boot, outcome, reason, seconds, _values(connection, boot), json.loads(facts))


def _values(connection: sqlite3.Connection, boot: str) -> dict[str, float]:
    rows = connection.execute("SELECT metric, value FROM samples WHERE boot = ?", (boot,))
    return {str(metric): float(value) for metric, value in rows}
