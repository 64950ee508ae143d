# SPDX-License-Identifier: GPL-2.0-or-later
"""What must hold after every fault, and the record that a run without one comes to."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import time
from contextlib import closing
from typing import Any

from place import Broken, Place, files, processes

from lab.base import durable

# What `lab --help` promises, a closed pipe, and SIGKILL, which nobody can answer.
CODES = {0, 1, 2, 3, 4, 129, 130, 141, 143, -signal.SIGKILL}

# By which the labs of a user agree who has the host (lab/base/host_time.py).
_LOCK = re.compile(r"blocklab-\d+\.(?:turn|host)")


def check(place: Place, command: str, codes: list[int]) -> None:
    """Raise Broken for the first invariant that does not hold."""
    if bad := [code for code in codes if code not in CODES]:
        raise Broken(f"exit code {bad[0]}")
    if 1 in codes and 1 not in place.commands[command][1]:
        raise Broken("a verdict that nothing deserves")
    said = place.said()
    for word in ("Traceback", "a mistake of the lab's own", "Exception ignored"):
        if word in said:
            raise Broken(f"{word} in the output")
    deadline = time.monotonic() + 5.0
    while (left := processes(place)) and time.monotonic() < deadline:
        time.sleep(0.1)
    if left:
        raise Broken(f"processes are left: {left}")
    if not place.real and place.canary.read_text() != "mine":
        raise Broken("a file of the user's was written through a link")
    _check_files(place)
    _check_results(place)


def _check_files(place: Place) -> None:
    """Nothing is left aside, of temporary files, of disks."""
    shared = () if place.real else (place.cache, *place.cache.glob("*/"))
    for folder in (*shared, *place.results.glob("runs/*/")):
        if aside := [path for path in folder.glob(".*") if durable._ASIDE.fullmatch(path.name)]:
            raise Broken(f"left aside: {aside[0]}")
    temporary = [path for path in files(place.temporary) if not _LOCK.fullmatch(path.name)]
    left = [*temporary, *place.results.rglob("disk.raw")]
    if left:
        raise Broken(f"left: {left[0]}")


def _check_results(place: Place) -> None:
    """The database is whole, and so is the evidence of every boot that counts."""
    database = place.results / "lab.sqlite"
    if not database.exists():
        return
    with closing(sqlite3.connect(database)) as connection:
        ((whole,),) = connection.execute("PRAGMA integrity_check").fetchall()
        if whole != "ok":
            raise Broken(f"the database: {whole}")
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return  # killed before there were tables
        query = "SELECT boot, name, sha256 FROM files JOIN boots ON id = boot WHERE outcome = 'ok'"
        for boot, name, digest in connection.execute(query):
            path = place.results / "boots" / boot / name
            if not path.exists() or durable.file_hash(path) != digest:
                raise Broken(f"the evidence of a boot that counts: {path}")
        rows = connection.execute(
            "SELECT count(*) FROM boots WHERE outcome = 'ok' AND id NOT IN (SELECT boot FROM files)"
        ).fetchone()
        if rows[0]:
            raise Broken("a boot that counts has no evidence")


def record(place: Place) -> Any:
    """The last run's record without ids, times and the host."""
    runs = sorted((place.results / "runs").glob("*/run.json"))
    return _plain(json.loads(runs[-1].read_text().replace(str(place.top), ""))) if runs else None


def _plain(found: Any) -> Any:
    own = {"id", "started", "finished", "seconds", "command", "host", "lab", "kernel", "tables"}
    if isinstance(found, dict):
        return {name: _plain(value) for name, value in found.items() if name not in own}
    if isinstance(found, list):
        return [_plain(value) for value in found]
    return found
