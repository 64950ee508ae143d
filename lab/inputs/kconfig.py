# SPDX-License-Identifier: GPL-2.0-or-later
"""Kconfig fragments: merged, and every option held to account after the merge.

A fragment is written in the syntax of a .config file. A line that not every kernel can take ends
with the versions that it is for, the second one excluded:

    CONFIG_INET=y  # before 6.4
    CONFIG_PREEMPT_LAZY=y  # since 7.0
    CONFIG_EXAMPLE=y  # since 5.12 before 6.4

For any other kernel the line is not there. Nothing is tried and nothing is skipped silently: what
a fragment says for a version, every kernel of this version must have. The version is the one in
the tree's Makefile, and the commits of a merge window still bear the release before it there.

A driver that no kernel has comes with its option, and what others changed in a kernel before they
measured it: kernel-patches/hardware/FRAGMENT holds the patches that every kernel with this fragment
gets first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base.errors import BuildError, UsageError
from lab.base.system import data
from lab.base.toml import named

FRAGMENTS = data("configs") / "kernel"
# A distribution's options in the path of an I/O; and what stands for none of them.
DISTRO, SMALL = "distro", "small"
PATCHES = data("kernel-patches") / "hardware"
Version = tuple[int, int]

_SET = re.compile(r"""^(CONFIG_\w+)=("(?:[^"\\]|\\.)*"|[^\s"]+)$""")
_UNSET = re.compile(r"^# (CONFIG_\w+) is not set$")
_VERSION = re.compile(r"^(VERSION|PATCHLEVEL) *= *(\d+)$", re.MULTILINE)
# At the end of a line, and never empty: for which versions it is.
_RANGE = re.compile(r"\s+#(?=.)(?: since (\d+\.\d+))?(?: before (\d+\.\d+))?$")


@dataclass(frozen=True)
class Option:
    """One line of a fragment: CONFIG_ name, wanted value (``n`` for not set), and where it is."""

    name: str
    value: str
    where: str

    def line(self) -> str:
        """The option in the syntax of a .config file."""
        return f"# {self.name} is not set" if self.value == "n" else f"{self.name}={self.value}"


def version(makefile: str) -> Version:
    """The version that a kernel's Makefile gives, such as (6, 12); BuildError when it has none."""
    numbers = dict(_VERSION.findall(makefile))
    if len(numbers) < 2:
        raise BuildError(
            "the kernel source does not tell its version",
            where="VERSION and PATCHLEVEL in its Makefile",
            hint="give the whole source of a kernel",
        )
    return int(numbers["VERSION"]), int(numbers["PATCHLEVEL"])


def added(fragments: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    """Names of fragments with more of them, each once; with small, without distro."""
    without = {SMALL, DISTRO} if SMALL in more else set[str]()
    return tuple(dict.fromkeys(name for name in (*fragments, *more) if name not in without))


def merge(names: Sequence[str], kernel: Version, folder: Path = FRAGMENTS) -> dict[str, Option]:
    """The options of the named fragments for a kernel, a later fragment overriding an earlier one.

    Raises UsageError for an unknown fragment or a line that is no option.
    """
    merged: dict[str, Option] = {}
    for name in names:
        path = named(folder, name, ".config", "kernel fragment")
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            if option := _option(line.strip(), f"{path}:{number}", kernel):
                merged[option.name] = option
    return merged


def patches(names: Sequence[str], folder: Path = PATCHES) -> tuple[Path, ...]:
    """The patches of the named fragments in order, which come before all others."""
    return tuple(path for name in names for path in sorted((folder / name).glob("*.patch")))


def text(options: dict[str, Option]) -> str:
    """The merged options as the content of one fragment, in a fixed order."""
    return "".join(f"{options[name].line()}\n" for name in sorted(options))


def values(config: str) -> dict[str, str]:
    """Name and value of every option that a .config file sets."""
    return {match[1]: match[2] for line in config.splitlines() if (match := _SET.match(line))}


def differences(before: str, after: str) -> tuple[str, ...]:
    """What differs between two .config files, such as ``CONFIG_X: n -> y``, sorted by name."""
    old, new = values(before), values(after)
    pairs = ((name, old.get(name, "n"), new.get(name, "n")) for name in sorted({*old, *new}))
    return tuple(f"{name}: {was} -> {now}" for name, was, now in pairs if was != now)


def check_survivors(
    options: dict[str, Option], config: str, declared: Callable[[], set[str]]
) -> None:
    """Raise BuildError when the final .config differs from what a fragment asked for.

    declared gives the options that any Kconfig file of the tree declares, as CONFIG_ names. It is
    called only when an option is lost, because it searches the whole tree.
    """
    final = values(config)
    lost = [option for option in options.values() if final.get(option.name, "n") != option.value]
    if not lost:
        return
    known = declared()
    reasons = [f"{option.where}: {option.line()}: {_why(option, final, known)}" for option in lost]
    raise BuildError(
        f"{len(lost)} kernel option(s) did not survive the configuration",
        where="\n         ".join(reasons),
        hint="add the option it depends on to the fragment, drop it, or write behind it for which "
        "versions it is, such as '# before 7.0'",
    )


def _option(line: str, where: str, kernel: Version) -> Option | None:
    """The option of a line; None for a comment, and for one that is for other versions."""
    versions = _RANGE.search(line)
    text = line[: versions.start()] if versions else line
    if match := _SET.match(text) or _UNSET.match(text):
        value = match[2] if match.re is _SET else "n"
        return Option(match[1], value, where) if _is_for(kernel, versions) else None
    if line and (not line.startswith("#") or " is not set" in line):
        raise UsageError(
            f"not a kernel option: {line!r}",
            where=where,
            hint="write CONFIG_NAME=value; '# since 6.4', '# before 7.0' or both may follow",
        )
    return None


def _is_for(kernel: Version, versions: re.Match[str] | None) -> bool:
    """Whether a line with these versions at its end is for a kernel."""
    since, before = versions.groups() if versions else (None, None)
    return (not since or _parsed(since) <= kernel) and (not before or kernel < _parsed(before))


def _parsed(text: str) -> Version:
    major, minor = text.split(".")
    return int(major), int(minor)


def _why(option: Option, final: dict[str, str], declared: set[str]) -> str:
    if option.name not in declared:
        return "this kernel has no such option"
    if option.name in final:
        return f"the configuration made it {final[option.name]}"
    return "a dependency is not met"
