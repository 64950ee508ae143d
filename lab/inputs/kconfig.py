# SPDX-License-Identifier: GPL-2.0-or-later
"""Kconfig fragments: merged, and every option held to account after the merge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base.errors import BuildError, UsageError, nearest
from lab.base.system import data

FRAGMENTS = data("configs") / "kernel"
_SET = re.compile(r"^(CONFIG_\w+)=(.+)$")
_UNSET = re.compile(r"^# (CONFIG_\w+) is not set$")


@dataclass(frozen=True)
class Option:
    """One line of a fragment: CONFIG_ name, wanted value (``n`` for not set), and where it is."""

    name: str
    value: str
    where: str

    def line(self) -> str:
        """The option in the syntax of a .config file."""
        return f"# {self.name} is not set" if self.value == "n" else f"{self.name}={self.value}"


def merge(names: Sequence[str], folder: Path = FRAGMENTS) -> dict[str, Option]:
    """The options of the named fragments, a later fragment overriding an earlier one.

    Raises UsageError for an unknown fragment or a line that is no option.
    """
    merged: dict[str, Option] = {}
    for name in names:
        path = folder / f"{name}.config"
        if not path.is_file():
            known = [found.stem for found in folder.glob("*.config")]
            raise UsageError(
                f"no kernel fragment is called {name!r}",
                where=str(folder),
                hint=nearest(name, known),
            )
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            if option := _option(line, f"{path}:{number}"):
                merged[option.name] = option
    return merged


def text(options: dict[str, Option]) -> str:
    """The merged options as the content of one fragment, in a fixed order."""
    return "".join(f"{options[name].line()}\n" for name in sorted(options))


def values(config: str) -> dict[str, str]:
    """Name and value of every option that a .config file sets."""
    return {found[1]: found[2] for line in config.splitlines() if (found := _SET.match(line))}


def check_survivors(options: dict[str, Option], config: str, declared: set[str]) -> None:
    """Raise BuildError when the final .config differs from what a fragment asked for.

    declared holds the options that any Kconfig file of the tree declares, as CONFIG_ names.
    """
    final = values(config)
    lost = [option for option in options.values() if final.get(option.name, "n") != option.value]
    if not lost:
        return
    reasons = [
        f"{option.where}: {option.line()}: {_why(option, final, declared)}" for option in lost
    ]
    raise BuildError(
        f"{len(lost)} kernel option(s) did not survive the configuration",
        where="\n         ".join(reasons),
        hint="add the option it depends on to the fragment, or drop it",
    )


def _option(line: str, where: str) -> Option | None:
    line = line.strip()
    if found := _SET.match(line):
        return Option(found[1], found[2], where)
    if found := _UNSET.match(line):
        return Option(found[1], "n", where)
    if line and not line.startswith("#"):
        raise UsageError(
            f"not a kernel option: {line!r}", where=where, hint="write CONFIG_NAME=value"
        )
    return None


def _why(option: Option, final: dict[str, str], declared: set[str]) -> str:
    if option.name not in declared:
        return "this kernel has no such option"
    if option.name in final:
        return f"the configuration made it {final[option.name]}"
    return "a dependency is not met"
