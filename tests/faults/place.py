# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a fault happens: folders of its own, and the real command line in them.

With the lab's guests and kernels faked (fake_lab) a command takes a second and all is its own; with
real ones the cache is the user's, and only what is measured in it is the fault's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fake_kernel import KCONFIG, MAKEFILE
from fake_lab import SLOW

from lab.base import cache

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
PROJECT = TESTS.parent
# How long a command may take at all, and to be imported, in s.
LIMIT_S = 600.0
_IMPORT_S = 0.5
# How long an undisturbed command takes, in s, by its name: faults happen within.
DURATIONS: dict[str, float] = {}
_CELL = ("--engine", "exact", "--topology", "nullb_mq", "--workload", "randread_burst")
# What is run, and with what code it ends when nothing disturbs it.
FAKE: dict[str, tuple[tuple[str, ...], set[int]]] = {
    "build": (("build",), {0}),
    "matrix": (("matrix", *_CELL, "--scheduler", "none", "--scheduler", "bfq"), {0}),
    "green": (("gate", "{top}/green.toml"), {0}),
    "red": (("gate", "{top}/red.toml"), {1}),
}
REAL: dict[str, tuple[tuple[str, ...], set[int]]] = {
    "matrix": FAKE["matrix"],
}


class Broken(Exception):
    """An invariant that does not hold."""


@dataclass
class Place:
    """The folders of one fault, and the environment of the commands there."""

    top: Path
    real: bool = False
    added: dict[str, str] = field(default_factory=dict)

    @property
    def commands(self) -> dict[str, tuple[tuple[str, ...], set[int]]]:
        return REAL if self.real else FAKE

    @property
    def cache(self) -> Path:
        return cache.root() if self.real else self.top / "cache"

    @property
    def results(self) -> Path:
        return self.top / "results"

    @property
    def temporary(self) -> Path:
        return self.top / "tmp"

    @property
    def began(self) -> Path:
        return self.top / "began"

    @property
    def canary(self) -> Path:
        """A file of the user's, which nothing that runs here may change."""
        return self.top / "canary"

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return {
            **kept,
            "PYTHONPATH": f"{PROJECT}:{TESTS}:{HERE}",
            "LAB_CACHE": str(self.cache),
            "LAB_RESULTS": str(self.results),
            "TMPDIR": str(self.temporary),
            "FAKE_BEGAN": str(self.began),
            "FAKE_TREE": f"git:{self.top}/repo@v1",
            "FAKE_FRAGMENTS": str(self.top / "fragments"),
            "FAKE_CANARY": str(self.canary),
            **self.added,
        }

    def start(self, command: str, **options: Any) -> subprocess.Popen[bytes]:
        words = (word.format(top=self.top) for word in self.commands[command][0])
        return self.lab(*words, **options)

    def lab(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        self.began.unlink(missing_ok=True)
        with (self.top / "said").open("ab") as said:
            given = {"stdout": said, "stderr": said, "stdin": subprocess.DEVNULL, **options}
            lab = ("-m", "lab") if self.real else (str(HERE / "fake_lab.py"),)
            argv = [sys.executable, *lab, *words]
            return subprocess.Popen(argv, cwd=self.top, env=self.environment(), **given)

    def said(self) -> str:
        return (self.top / "said").read_text(errors="replace")


def make(scratch: Path, own: Path, name: str, real: bool) -> Place:
    top = scratch / name
    shutil.copytree(own, top, symlinks=True)
    _configure(top)
    return Place(top, real)


def finish(place: Place, command: str) -> None:
    """An undisturbed run. Raises Broken when it does not end as it should."""
    code = place.start(command).wait(LIMIT_S)
    if code not in place.commands[command][1]:
        raise Broken(f"an undisturbed run ended with {code}")


def wait(place: Place, seconds: float) -> None:
    """Wait so long from when the command's own code runs: before that Python imports it."""
    if place.real:
        time.sleep(seconds + _IMPORT_S)
        return
    deadline = time.monotonic() + LIMIT_S
    while not place.began.exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(seconds)


def processes(place: Place) -> list[int]:
    """What runs in a folder of the fault or names one."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            where = (entry / "cwd").readlink()
            named = str(place.top).encode() in (entry / "cmdline").read_bytes()
            if named or place.top in (where, *where.parents):
                found.append(int(entry.name))
    return found


def files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())


def _git(repo: Path, *words: str) -> None:
    name = ("-c", "user.name=x", "-c", "user.email=x@x")
    subprocess.run(["git", "-C", str(repo), *name, *words], capture_output=True, check=True)


def template(top: Path) -> None:
    """A repository of the fake kernel, fragments, configurations of a gate."""
    repo = top / "repo"
    files = {
        "Kbuild": "obj-y += block/\n",
        "Kconfig": KCONFIG,
        "Makefile": MAKEFILE.replace("VERSION = 0", "VERSION = 6", 1)
        .replace("PATCHLEVEL = 1", "PATCHLEVEL = 12", 1)
        .replace('"0.1.0', '"6.12.0'),
        "block/Kconfig": "config BLOCK\n\tbool\n",
        "block/bfq.c": "int bfq;\n" * 300,
        "init/main.c": "int main(void) { return 0; }\n",
    }
    for name, content in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(content)
    _git(repo, "init", "-q", ".")
    for tag, change in (("v1", ""), ("v2", "/* comment */\n"), ("v3", f"int {SLOW};\n")):
        with (repo / "block/bfq.c").open("a") as source:
            source.write(change)
        _git(repo, "add", ".")
        _git(repo, "commit", "-q", "--allow-empty", "-m", tag)
        _git(repo, "tag", tag)
    (top / "fragments").mkdir()
    (top / "fragments/base.config").write_text("CONFIG_SMP=y\nCONFIG_BLOCK=y\n")
    (top / "fragments/block.config").write_text("CONFIG_BLOCK=y\n")
    (top / "fragments/filesystems.config").write_text("CONFIG_SMP=y\n")
    (top / "tmp").mkdir()
    (top / "canary").write_text("mine")


def _configure(top: Path) -> None:
    for name, tag in (("green", "v2"), ("red", "v3")):
        (top / f"{name}.toml").write_text(
            'topologies = ["nullb_mq"]\nschedulers = ["bfq"]\nworkloads = ["randread_burst"]\n'
            f'config = ["base"]\n[branches.next]\nsource = "git:{top}/repo@{tag}"\n'
            f'baseline = "git:{top}/repo@v1"\nlong_term_baseline = ""\n'
        )
