# SPDX-License-Identifier: GPL-2.0-or-later
"""Strict TOML files: an unknown key or a wrong value names file, line, key and the nearest key."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from lab.errors import UsageError, nearest

PROJECT = Path(__file__).resolve().parent.parent


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
        error = exc.errors(include_url=False)[0]
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
            f"no {what} is called {name!r}", where=str(folder), hint=nearest(name, names(folder))
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
    keys = [str(part) for part in loc if isinstance(part, str)]
    for key in reversed(keys):
        pattern = re.compile(rf"^\s*(\[+.*)?\b{re.escape(key)}\b", re.MULTILINE)
        if found := pattern.search(text):
            return f":{text.count(chr(10), 0, found.start()) + 1}"
    return ""


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
