# SPDX-License-Identifier: GPL-2.0-or-later
"""Strict TOML files: an unknown key or a wrong value names file, line, key and the nearest key."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from lab.base.errors import UsageError, nearest

_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]")
_KEY = re.compile(r"""\s*([\w.-]+|"[^"]*"|'[^']*')\s*=""")


class Model(BaseModel):
    """Base of everything read from TOML: frozen, and no key goes unnoticed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


M = TypeVar("M", bound=Model)


def load(path: Path, model: type[M]) -> M:
    """Read the TOML file path as a model.

    Raises UsageError for a missing file, a syntax error, an unknown key or a wrong value; the
    message names the file, the line and the key.
    """
    try:
        text = path.read_text()
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise UsageError(f"{path} is not UTF-8 text: {exc.reason}") from exc
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise UsageError(f"not valid TOML: {exc}", where=str(path)) from exc
    return parse(data, model, path, text)


def parse(data: dict[str, Any], model: type[M], path: Path, text: str = "") -> M:
    """Check already decoded TOML data against model; see load."""
    try:
        return model.model_validate(_frozen(data))
    except ValidationError as exc:
        found = exc.errors(include_url=False)
        # A mistyped key is unknown, and often another one is missing because of it.
        error = next((e for e in found if e["type"] == "extra_forbidden"), found[0])
        key = ".".join(str(part) for part in error["loc"])
        where = f"{path}{_line_of(text, error['loc'])}: {key}"
        if error["type"] == "extra_forbidden":
            name = str(error["loc"][-1])
            known = _keys_at(model, error["loc"][:-1])
            raise UsageError(
                f"unknown key {name!r}", where=where, hint=nearest(name, known)
            ) from exc
        raise UsageError(f"{error['msg']} (key {key!r})", where=where) from exc


def named(folder: Path, name: str, suffix: str, what: str) -> Path:
    """The file called name in a folder of the project, or a UsageError with the nearest name."""
    path = folder / f"{name}{suffix}"
    if not path.is_file():
        raise UsageError(
            f"no {what} is called {name!r}",
            where=str(folder),
            hint=nearest(name, names(folder, suffix)),
        )
    return path


def names(folder: Path, suffix: str = ".toml") -> list[str]:
    """The names that the files of a folder define, sorted."""
    return sorted(path.name.removesuffix(suffix) for path in folder.glob(f"*{suffix}"))


def _frozen(value: Any) -> Any:
    """The value with every list made a tuple, as frozen models want it."""
    if isinstance(value, dict):
        return {name: _frozen(inner) for name, inner in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _line_of(text: str, loc: tuple[int | str, ...]) -> str:
    """Where a key stands in TOML text, as ``:LINE``: the line that names most of its path."""
    best, most = "", 0
    table: tuple[int | str, ...] = ()
    arrays: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _key_parts(header[2])
            if header[1] == "[[":
                arrays[header[2]] = arrays.get(header[2], -1) + 1
                table = (*table, arrays[header[2]])
            path = table
        elif key := _KEY.match(line):
            path = (*table, *_key_parts(key[1]))
        else:
            continue
        if len(path) > most and path == loc[: len(path)]:
            best, most = f":{number}", len(path)
    return best


def _key_parts(dotted: str) -> tuple[str, ...]:
    quoted = dotted.strip().strip("\"'")
    return (quoted,) if quoted != dotted.strip() else tuple(quoted.split("."))


def _keys_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The keys that the model at the location loc accepts."""
    current: Any = model
    for part in loc:
        fields = getattr(current, "model_fields", {})
        if not isinstance(part, str) or part not in fields:
            continue
        current = _model_in(fields[part].annotation)
    return list(getattr(current, "model_fields", {}))


def _model_in(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        if (found := _model_in(inner)) is not None:
            return found
    return None
