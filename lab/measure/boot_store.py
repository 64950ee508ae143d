# SPDX-License-Identifier: GPL-2.0-or-later
"""What was measured: every boot with its numbers in SQLite, its raw files in a folder each."""

from __future__ import annotations

import json
import os
import sqlite3
import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lab.base import cache, durable, places
from lab.base.errors import LABS_FAILURES, LabError, UsageError
from lab.base.progress import Progress
from lab.base.system import results
from lab.build import block_layer
from lab.measure import call_tree, metrics, sim_counts
from lab.measure.cell import Cell, Task, written
from lab.measure.cost import Cost, from_text
from lab.measure.raw_files import RawFiles
from lab.measure.sampling import Sample

_SCHEMA = """
CREATE TABLE IF NOT EXISTS boots (
    id      TEXT PRIMARY KEY,   -- also the name of its folder below boots/
    key     TEXT NOT NULL,      -- equal for repetitions of one measurement
    cell    TEXT NOT NULL,      -- JSON
    arm     TEXT NOT NULL,      -- a label: boots of several arms may share a key
    kernel  TEXT NOT NULL,
    qemu    TEXT NOT NULL,      -- with the plugin's hash and its options
    host    TEXT NOT NULL,
    started REAL NOT NULL,      -- seconds since 1970
    seconds REAL NOT NULL,
    outcome TEXT NOT NULL,      -- ok; disturbed (by the host); alone in its round; a failure
    reason  TEXT NOT NULL,
    complaints TEXT NOT NULL,   -- of the kernel's console, a line each
    facts   TEXT NOT NULL,      -- JSON: what the guest really was
    round   TEXT NOT NULL DEFAULT ''  -- equal for the boots of one round of several arms
);
CREATE INDEX IF NOT EXISTS boots_by_key ON boots (key);
CREATE INDEX IF NOT EXISTS boots_by_cell ON boots (json_remove(cell, '$.seed'));
CREATE TABLE IF NOT EXISTS samples (
    boot   TEXT NOT NULL REFERENCES boots (id),
    metric TEXT NOT NULL,
    value  REAL NOT NULL,
    unit   TEXT NOT NULL,
    PRIMARY KEY (boot, metric)
);
-- Boots of before there was this table have no rows here, and are believed as they are.
CREATE TABLE IF NOT EXISTS files (
    boot   TEXT NOT NULL REFERENCES boots (id),
    name   TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (boot, name)
);
"""

# The outcomes of guests that came to their end.
_WHOLE = ("ok", "disturbed", "alone")
_TABLES = ("boots", "samples", "files")
# A boot whose files are gone or damaged: it counts for nothing, and not against its kernel.
_DAMAGED = "damaged"
# Changes with every change of a table that there was (a new one is added to older results); there
# is no way from one to the next before 1.0.
SCHEMA_VERSION = 3


@dataclass(frozen=True)
class StoredBoot:
    """One boot out of the store: when (seconds since 1970), what it was, and its numbers."""

    id: str
    kernel: str
    round: str
    started: float
    seconds: float
    facts: dict[str, str]
    values: dict[str, float]


@dataclass(frozen=True)
class Ends:
    """How many boots ended, how many with each kind of failure, and a boot that shows it."""

    boots: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Provenance:
    """What a boot ran on: measurement key, kernel id, Job.emulation(), host id, its round's id."""

    key: str
    kernel: str
    qemu: str
    host: str
    round: str = ""


class BootStore:
    """The results folder, made when it is first used; several processes may use it at once."""

    def __init__(self, folder: Path | None = None) -> None:
        configured = os.environ.get("LAB_RESULTS")
        wanted = folder or (Path(configured).absolute() if configured else results())
        self.folder = places.trusted(wanted, "LAB_RESULTS")
        self._database = self.folder / "lab.sqlite"
        self._files = RawFiles(self.folder)
        self._checked = False
        self._sound: set[str] = set()

    def boot_folder(self, identity: str) -> Path:
        """Where the raw files of a boot lie."""
        return self._files.boot_folder(identity)

    def cost(self, identity: str) -> Cost | None:
        """What an I/O of a boot cost by function; None where that was not counted."""
        folder = self.boot_folder(identity)
        path, tree = folder / "cost.tsv", call_tree.of_boot(folder)
        spent = from_text(path.read_text()) if path.exists() else None
        return replace(spent, paths=tree.stacks()) if spent and tree else spent

    def block_layer(self, identity: str) -> frozenset[str] | None:
        """The functions that counted as a boot's block layer; None where that was not measured."""
        path = self.boot_folder(identity) / block_layer.FILE
        return frozenset(path.read_text().splitlines()) if path.exists() else None

    def lines(self, identity: str) -> list[sim_counts.Line]:
        """The cache lines with most transfers in a simulated boot; none in others."""
        path = self.boot_folder(identity) / "lines.tsv"
        return sim_counts.from_text(path.read_text()) if path.exists() else []

    def new_boot(self) -> str:
        """An id for a boot that is about to start; ids sort by time."""
        return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:12]}"

    def finished(self, key: str) -> list[StoredBoot]:
        """The successful boots of a measurement, in the order in which they ended.

        A boot whose files are gone or damaged is told, and is none of them from now on.
        """
        with self.connection() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM boots WHERE key = ? AND outcome = 'ok' ORDER BY rowid",
                (key,),
            ).fetchall()
            return [_stored(connection, row) for row in rows if self._believed(connection, row[0])]

    def _believed(self, connection: sqlite3.Connection, boot: str) -> bool:
        """Whether a boot's files are what they were; looked at once by a process."""
        if boot in self._sound:
            return True
        sums = dict(connection.execute("SELECT name, sha256 FROM files WHERE boot = ?", (boot,)))
        if name := self._files.damaged(boot, sums):
            reason = f"{self.boot_folder(boot) / name} is missing or damaged"
            Progress().say(f"    {reason}: the boot is not believed, and run again")
            connection.execute(
                "UPDATE boots SET outcome = ?, reason = ? WHERE id = ?", (_DAMAGED, reason, boot)
            )
            return False
        self._sound.add(boot)
        return True

    def in_rounds(self, key: str) -> dict[str, StoredBoot]:
        """The successful boots of an arm by the round they belong to, in their order."""
        return {boot.round: boot for boot in self.finished(key)}

    def boots(self, identities: Sequence[str]) -> dict[str, StoredBoot]:
        """Boots by id; those that are not on record are skipped."""
        by_id = {}
        query = f"SELECT {_COLUMNS} FROM boots WHERE id = ?"
        with self.connection() as connection:
            for identity in identities:
                for row in connection.execute(query, (identity,)):
                    by_id[identity] = _stored(connection, row)
        return by_id

    def history(self, boot: str, metric: str) -> list[tuple[float, str, float]]:
        """A metric of all boots of the same cell and arm as a boot, of any kernel, in their order.

        Each is the time (seconds since 1970), the kernel's id and the value.
        """
        rows = self.rows(
            "SELECT started, kernel, value FROM boots JOIN samples ON boot = id"
            " WHERE metric = ? AND outcome = 'ok'"
            " AND (cell, arm) = (SELECT cell, arm FROM boots WHERE id = ?)"
            " ORDER BY boots.rowid",
            (metric, boot),
        )
        return [(float(when), str(kernel), float(value)) for when, kernel, value in rows]

    def by_seed(self, cell: Cell, metric: str) -> list[list[float]]:
        """A metric of all boots of a deterministic cell: all seeds of each kernel and emulation."""
        groups: dict[tuple[str, str], list[float]] = {}
        rows = self.rows(
            "SELECT kernel, qemu, value FROM boots JOIN samples ON boot = id"
            " WHERE metric = ? AND outcome = 'ok'"
            " AND json_remove(cell, '$.seed') = json_remove(?, '$.seed') ORDER BY boots.rowid",
            (metric, written(cell)),
        )
        for kernel, qemu, value in rows:
            groups.setdefault((kernel, qemu), []).append(float(value))
        return list(groups.values())

    def reject(self, round_id: str, outcome: str, why: str) -> None:
        """Take a round out of the results, as ``disturbed`` by the host or, where another of its
        guests failed, as ``alone``. Its boots stay on record.
        """
        with self.connection() as connection:
            connection.execute(
                "UPDATE boots SET outcome = ?, reason = ? WHERE round = ? AND outcome = 'ok'",
                (outcome, why, round_id),
            )

    def rejected(self, keys: Sequence[str]) -> int:
        """How many rounds of the arms with these keys were rejected."""
        marks = ", ".join("?" * len(keys))
        ((count,),) = self.rows(
            "SELECT count(DISTINCT round) FROM boots"
            f" WHERE outcome = 'disturbed' AND key IN ({marks})",
            keys,
        )
        return int(count)

    def ends(self, kernels: Collection[str]) -> Ends:
        """How all boots of kernels ended: by the outcome of a GuestError, or a kernel's complaint.

        What was the lab's, the host's or surely QEMU's fault counts for nothing.
        """
        marks = ", ".join("?" * len(kernels))
        rows = self.rows(
            f"SELECT id, outcome, complaints FROM boots WHERE kernel IN ({marks})"
            " AND outcome NOT IN ('lost', 'killed', ?, ?, ?) ORDER BY boots.rowid",
            [*kernels, *LABS_FAILURES, _DAMAGED],
        )
        failures, examples = Counter[str](), dict[str, str]()
        for boot, outcome, complaints in rows:
            kinds = complaints.splitlines() if outcome in _WHOLE else [outcome]
            failures.update(kinds)
            examples |= dict.fromkeys(kinds, boot)
        return Ends(len(rows), failures, examples)

    def complaints(self, kernel: str) -> list[str]:
        """What a kernel complained of in boots that came to their end, each kind once."""
        rows = self.rows(
            "SELECT complaints FROM boots WHERE kernel = ? AND outcome IN (?, ?, ?)"
            " ORDER BY boots.rowid",
            [kernel, *_WHOLE],
        )
        return list(dict.fromkeys(line for (text,) in rows for line in text.splitlines()))

    def add(
        self,
        identity: str,
        task: Task,
        origin: Provenance,
        started: float,
        sample: Sample | None,
        *,
        outcome: str = "ok",
        reason: str = "",
    ) -> None:
        """Write down a boot that ended, well or not; from then on its files do not change."""
        facts = dict(sample.facts) if sample else {}
        columns = (
            *(identity, origin.key, written(task.cell), task.arm, origin.kernel),
            *(origin.qemu, origin.host, started, max(0.0, time.time() - started)),
            *(outcome, reason),
            *("\n".join(sample.complaints if sample else ()), json.dumps(facts), origin.round),
        )
        with cache.disk_space_matters(self.folder), self.connection() as connection:
            sums = self._files.keep(self.boot_folder(identity))
            marks = ", ".join("?" * len(columns))
            connection.execute(f"INSERT INTO boots VALUES ({marks})", columns)
            if sample:
                connection.executemany(
                    "INSERT INTO samples VALUES (?, ?, ?, ?)",
                    [(identity, m, v, metrics.get(m).unit) for m, v in sample.values.items()],
                )
            connection.executemany(
                "INSERT INTO files VALUES (?, ?, ?)",
                [(identity, name, digest) for name, digest in sums.items()],
            )

    def sweep(self) -> None:
        """Delete the files that no boot has any more."""
        self._files.sweep()

    def started_before(self, horizon: float) -> list[str]:
        """The ids of all boots that started before a time in seconds since 1970, however ended."""
        rows = self.rows("SELECT id FROM boots WHERE started < ?", (horizon,))
        return [str(identity) for (identity,) in rows]

    def newest(self) -> float | None:
        """When the newest boot started, in seconds since 1970; None before the first."""
        ((newest,),) = self.rows("SELECT max(started) FROM boots")
        return newest if newest is None else float(newest)

    def kernels_since(self, horizon: float) -> set[str]:
        """The ids of the kernels that were booted since a time in seconds since 1970."""
        rows = self.rows("SELECT kernel FROM boots WHERE started >= ?", (horizon,))
        return {str(kernel) for (kernel,) in rows}

    def forget(self, boots: Sequence[str]) -> None:
        """Delete what is written down of boots, and their samples."""
        with self.connection() as connection:
            ids = [(boot,) for boot in boots]
            for table, column in (("samples", "boot"), ("files", "boot"), ("boots", "id")):
                connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", ids)

    def forget_unfinished(self) -> None:
        """Delete the folders of boots that were cut off and so never written down."""
        folders = {path.name: path for path in (self.folder / "boots").glob("*")}
        known = {identity for (identity,) in self.rows("SELECT id FROM boots")}
        for name in folders.keys() - known:
            durable.delete(folders[name])
        for folder in (self.folder / "runs").glob("*/"):
            durable.sweep(folder)
        self.sweep()

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[Any]:
        """What a query finds, row by row."""
        with self.connection() as connection:
            return connection.execute(query, parameters).fetchall()

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """The database, for the block; what it does appears whole or not at all."""
        cache.make_folder(self.folder)
        try:
            with closing(sqlite3.connect(self._database, timeout=60)) as connection, connection:
                if not self._checked:
                    self._check(connection)
                yield connection
        except sqlite3.ProgrammingError:
            raise  # the lab's own mistake
        except sqlite3.Error as exc:
            if getattr(exc, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
                raise cache.full_disk(self.folder) from exc
            raise LabError(
                f"the results cannot be read or written: {exc}",
                where=str(self._database),
                hint="mend or move the file, or set LAB_RESULTS to another folder",
            ) from exc

    def _check(self, connection: sqlite3.Connection) -> None:
        """Make the tables where there are none; UsageError for those of another version."""
        # One statement each, so that nobody sees the tables of another lab half made.
        version, names = connection.execute(
            "SELECT user_version, (SELECT group_concat(name) FROM sqlite_master)"
            " FROM pragma_user_version"
        ).fetchone()
        tables = set((names or "").split(","))
        if names and version != SCHEMA_VERSION:
            raise UsageError(
                f"these results have the schema version {version}, not {SCHEMA_VERSION}",
                where=str(self._database),
                hint="move the folder away, or set LAB_RESULTS to another one",
            )
        if not tables.issuperset(_TABLES):  # who only reads may have no right to write
            version = f"PRAGMA user_version = {SCHEMA_VERSION};"
            try:
                connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {version} COMMIT;")
            except sqlite3.OperationalError as exc:
                if not names or exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
                    raise
        self._checked = True


_COLUMNS = "id, kernel, round, started, seconds, facts"


def _stored(connection: sqlite3.Connection, row: Sequence[Any]) -> StoredBoot:
    boot, kernel, round_id, started, seconds, facts = row
    rows = connection.execute("SELECT metric, value FROM samples WHERE boot = ?", (boot,))
    values = {str(metric): float(value) for metric, value in rows}
    return StoredBoot(boot, kernel, round_id, started, seconds, json.loads(facts), values)
