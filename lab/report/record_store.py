# SPDX-License-Identifier: GPL-2.0-or-later
"""The records of runs on disk: ``results/runs/ID/run.json``."""

from __future__ import annotations

import calendar
import time
import uuid
from pathlib import Path

from pydantic import ValidationError

from lab.base import cache
from lab.base.errors import UsageError, nearest
from lab.report.run_record import SCHEMA_VERSION, RunRecord

_FILE = "run.json"
_STAMP = "%Y%m%d-%H%M%S"


def save(run: RunRecord, results: Path) -> Path:
    """Write a run below the results folder and return its own folder."""
    folder = cache.make_folder(results / "runs" / run.id)
    cache.write_atomically(folder / _FILE, run.model_dump_json(indent=1))
    return folder


def new_id(results: Path, started: float) -> str:
    """An id for a run; ids sort by time, also after the clock was set back."""
    newest = next(iter(known(results)[::-1]), "")[: len(_now(started))]
    return f"{max(_now(started), _after(newest))}-{uuid.uuid4().hex[:4]}"


def _now(seconds: float) -> str:
    return time.strftime(_STAMP, time.gmtime(seconds))


def _after(stamp: str) -> str:
    """The next second; nothing for what is no time."""
    try:
        return _now(calendar.timegm(time.strptime(stamp, _STAMP)) + 1)
    except ValueError:
        return ""


def known(results: Path) -> list[str]:
    """The ids of all recorded runs, oldest first."""
    return sorted(path.parent.name for path in (results / "runs").glob(f"*/{_FILE}"))


def find(results: Path, name: str) -> Path:
    """The folder of a run by its id or the start of it; ``last`` is the newest, ``last~1`` before.

    Raises UsageError when there is none, or several.
    """
    ids = known(results)
    if not ids:
        raise UsageError(f"no run is recorded in {results}", hint="`lab run` makes one")
    latest, _, back = name.partition("~")
    if latest == "last" and back in ("", *map(str, range(len(ids)))):
        return results / "runs" / ids[-1 - int(back or 0)]
    matches = [run_id for run_id in ids if run_id.startswith(name)]
    if name in ids or len(matches) == 1:
        return results / "runs" / (name if name in ids else matches[0])
    what = f"{len(matches)} runs begin with {name!r}" if matches else f"no run is called {name!r}"
    raise UsageError(what, where=str(results / "runs"), hint=nearest(name, ["last", *ids]))


def load(folder: Path) -> RunRecord:
    """Read the record in a run's folder. Raises UsageError for one that this lab cannot read."""
    path = folder / _FILE
    try:
        return RunRecord.model_validate_json(path.read_bytes())
    except OSError as exc:
        raise UsageError(f"the record cannot be read: {exc.strerror}", where=str(path)) from exc
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"not a record of schema version {SCHEMA_VERSION}: {first['msg']}",
            where=f"{path}: {key}",
            hint="the lab that wrote it can read it",
        ) from exc
