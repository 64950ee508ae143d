# SPDX-License-Identifier: GPL-2.0-or-later
"""Strict TOML files: an unknown key or a wrong value names file, line, key and the nearest key."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from lab.base.errors import UsageError, nearest

# Chosen: the longest of the lab's own has 20 KiB, and every message looks for its line.
MOST_BYTES = 1 << 20
_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]")
_KEY = re.compile(r"""\s*([\w.-]+|"[^"]*"|'[^']*')\s*=\s*(\[\s*(?:#.*)?$)?""")


class Model(BaseModel):
    """Base of everything read from TOML, and of records: frozen, no key goes unnoticed, and numbers
    are finite.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


M = TypeVar("M", bound=Model)


def load(path: Path, model: type[M]) -> M:
    """Read the TOML file path as a model.

    Raises UsageError for a missing file, a syntax error, an unknown key or a wrong value; the
    message names the file, the line and the key.
    """
    try:
        with path.open("rb") as content:
            text = content.read(MOST_BYTES + 1).decode()
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise UsageError(f"{path} is not UTF-8 text: {exc.reason}") from exc
    if len(text) > MOST_BYTES:
        raise UsageError(f"{path} is larger than {MOST_BYTES >> 20} MiB")
    checked = _checked(text.replace("\r\n", "\n"), model, path)
    assert isinstance(checked, model)
    return checked


@lru_cache(maxsize=256)
def _checked(text: str, model: type[Model], path: Path) -> Model:
    """What a file's text is as a model, checked once: a run asks for the same few files for every
    cell.
    """
    try:
        data = tomllib.loads(text)
    except RecursionError as exc:
        raise UsageError("not valid TOML: nested too deeply", where=str(path)) from exc
    except ValueError as exc:  # a number of thousands of digits is no TOMLDecodeError
        raise UsageError(f"not valid TOML: {exc}", where=str(path)) from exc
    return parse(data, model, path, text)


def parse(data: dict[str, Any], model: type[M], path: Path, text: str = "") -> M:
    """Check already decoded TOML data against model; see load."""
    try:
        return model.model_validate(_frozen(data))
    except RecursionError as exc:  # a key of thousands of dots is read without one
        raise UsageError("not valid TOML: nested too deeply", where=str(path)) from exc
    except ValidationError as exc:
        errors = exc.errors(include_url=False)
        # A mistyped key is unknown, and often another one is missing because of it.
        error = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
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
    """The names that the files of a folder define, sorted; none where there is no folder."""
    listed = os.listdir(folder) if folder.is_dir() else []
    return sorted(name.removesuffix(suffix) for name in listed if name.endswith(suffix))


def _frozen(value: Any) -> Any:
    """The value with every list made a tuple, as frozen models want it."""
    if isinstance(value, dict):
        return {name: _frozen(inner) for name, inner in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


Place = tuple[int | str, ...]


def _line_of(text: str, loc: Place) -> str:
    """Where a key stands in TOML text, as ``:LINE``: the line that names most of its path."""
    best, most = "", 0
    for number, path in _places(text):
        if len(path) > most and path == loc[: len(path)]:
            best, most = f":{number}", len(path)
    return best


def _places(text: str) -> Iterator[tuple[int, Place]]:
    """The lines of TOML text that begin a table, a key or an item of an array, with its path."""
    table: Place = ()
    arrays: dict[str, int] = {}
    # The array that a line has opened whose items stand below it, and the items so far.
    opened: Place = ()
    items = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if opened and (more := _items(line)) is not None:
            yield from ((number, (*opened, item)) for item in range(items, items + more))
            items += more
            continue
        opened = ()
        if header := _HEADER.match(line):
            table = _key_parts(header[2])
            if header[1] == "[[":
                arrays[header[2]] = arrays.get(header[2], -1) + 1
                table = (*table, arrays[header[2]])
            yield number, table
        elif key := _KEY.match(line):
            path = (*table, *_key_parts(key[1]))
            yield number, path
            opened, items = (path if key[2] else ()), 0


def _items(line: str) -> int | None:
    """How many items of an array a line has; None when it does not consist of whole items."""
    try:
        return len(tomllib.loads(f"items = [{line}\n]")["items"])
    except tomllib.TOMLDecodeError:
        return None


def _key_parts(dotted: str) -> tuple[str, ...]:
    quoted = dotted.strip().strip("\"'")
    return (quoted,) if quoted != dotted.strip() else tuple(quoted.split("."))


def _keys_at(model: type[BaseModel], loc: Place) -> list[str]:
    """The keys that the models at the location loc accept."""
    current = [model]
    for part in loc:
        fields = [schema.model_fields[part] for schema in current if part in schema.model_fields]
        if fields:
            current = [inner for field in fields for inner in _models_of(field)]
    return sorted({name for schema in current for name in schema.model_fields})


def _models_of(field: FieldInfo) -> list[type[BaseModel]]:
    """The models that a field may be written as."""
    written = [m.json_schema_input_type for m in field.metadata if isinstance(m, BeforeValidator)]
    return [
        model for annotation in (field.annotation, *written) for model in _models_in(annotation)
    ]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for inner in getattr(annotation, "__args__", ()) for m in _models_in(inner)]
