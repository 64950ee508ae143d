# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults at random moments of real commands, and what must hold after each (`make faults`).

A fault is drawn by its number from the seed, so ONLY=N repeats one. After it, nothing of the run is
left, what is kept is whole, the exit code is a promised one, and an undisturbed run comes to the
record that one without a fault has.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fake_kernel import KCONFIG, MAKEFILE
from fake_lab import SLOW

from lab.base import durable

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
PROJECT = TESTS.parent
# What `lab --help` promises, a closed pipe, and SIGKILL, which nobody can answer.
CODES = {0, 1, 2, 3, 4, 129, 130, 141, 143, -signal.SIGKILL}
# What no disturbed run may come to, by command: a verdict that the kernels do not deserve.
COMMANDS = {
    "build": (("build",), {0}),
    "matrix": (
        (
            *("matrix", "--engine", "icount"),
            *("--topology", "nullb_mq", "--scheduler", "none", "--scheduler", "bfq"),
            *("--workload", "randread_burst"),
        ),
        {0},
    ),
    "green": (("gate", "{top}/green.toml"), {0}),
    "red": (("gate", "{top}/red.toml"), {1}),
}
_LIMIT_S = 120.0


class Broken(Exception):
    """An invariant that does not hold."""


@dataclass
class Place:
    """The folders of one fault, and the environment of the commands there."""

    top: Path
    added: dict[str, str] = field(default_factory=dict)

    @property
    def cache(self) -> Path:
        return self.top / "cache"

    @property
    def results(self) -> Path:
        return self.top / "results"

    @property
    def temporary(self) -> Path:
        return self.top / "tmp"

    @property
    def began(self) -> Path:
        return self.top / "began"

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
            **self.added,
        }

    def start(self, command: str, **options: Any) -> subprocess.Popen[bytes]:
        words = (word.format(top=self.top) for word in COMMANDS[command][0])
        return self.lab(*words, **options)

    def lab(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        self.began.unlink(missing_ok=True)
        with (self.top / "said").open("ab") as said:
            given = {"stdout": said, "stderr": said, "stdin": subprocess.DEVNULL, **options}
            argv = [sys.executable, str(HERE / "fake_lab.py"), *words]
            return subprocess.Popen(argv, cwd=self.top, env=self.environment(), **given)

    def said(self) -> str:
        return (self.top / "said").read_text(errors="replace")


# A fault is given the place, a command and chance; it returns the exit codes of what it disturbed.
Fault = Callable[[Place, str, random.Random], list[int]]
FAULTS: dict[str, Fault] = {}


def fault(own: Fault) -> Fault:
    FAULTS[own.__name__] = own
    return own


def _signalled(*signals: signal.Signals) -> Fault:
    def one(place: Place, command: str, chance: random.Random) -> list[int]:
        lab = place.start(command)
        sent = chance.choice(signals)
        _wait(place, chance.uniform(0.0, DURATIONS[command]))
        lab.send_signal(sent)
        if sent is signal.SIGSTOP:
            time.sleep(1.0)
            lab.send_signal(signal.SIGCONT)
        return [lab.wait(_LIMIT_S)]

    return one


FAULTS |= {
    "ended": _signalled(signal.SIGTERM, signal.SIGHUP, signal.SIGINT),
    "killed": _signalled(signal.SIGKILL),
    "stopped for a second": _signalled(signal.SIGSTOP),
}
DURATIONS: dict[str, float] = {}


@fault
def ended_twice(place: Place, command: str, chance: random.Random) -> list[int]:
    lab = place.start(command)
    _wait(place, chance.uniform(0.0, DURATIONS[command]))
    for sent in (signal.SIGHUP, signal.SIGTERM):
        lab.send_signal(sent)
        time.sleep(chance.uniform(0.0, 0.05))
    return [lab.wait(_LIMIT_S)]


@fault
def children_killed(place: Place, command: str, chance: random.Random) -> list[int]:
    """Git, make, a guest: whatever runs at some moments."""
    lab = place.start(command)
    for _ in range(chance.choice((1, 1, 20))):
        time.sleep(chance.uniform(0.0, DURATIONS[command] / 4))
        for process in _processes(place):
            if process != lab.pid:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
    return [lab.wait(_LIMIT_S)]


@fault
def cache_damaged(place: Place, command: str, chance: random.Random) -> list[int]:
    _finish(place, command)
    for _ in range(chance.randint(1, 3)):
        kept = (place.cache / name for name in ("kernels", "guests", "plugins"))
        _damage(chance.choice([path for folder in kept for path in _files(folder)]), chance)
    return [place.start(command).wait(_LIMIT_S)]


@fault
def state_damaged(place: Place, command: str, chance: random.Random) -> list[int]:
    _finish(place, command)
    for path in (place.cache / "host").glob("*.json"):
        _damage(path, chance)
    return [place.start(command).wait(_LIMIT_S)]


@fault
def evidence_damaged(place: Place, command: str, chance: random.Random) -> list[int]:
    _finish(place, command)
    for path in _files(place.results / "boots")[:: chance.randint(1, 3)]:
        _damage(path, chance)
    if chance.random() < 0.2:
        shutil.rmtree(place.results / "boots", ignore_errors=True)
    return [place.start(command).wait(_LIMIT_S)]


@fault
def database_damaged(place: Place, command: str, chance: random.Random) -> list[int]:
    """It is told, with where; the user moves it away, as the message says."""
    _finish(place, command)
    database = place.results / "lab.sqlite"
    if not database.exists():
        return []
    _damage(database, chance, least=200)
    code = place.start(command).wait(_LIMIT_S)
    shutil.rmtree(place.results)
    return [code]


@fault
def database_locked(place: Place, command: str, chance: random.Random) -> list[int]:
    place.results.mkdir(exist_ok=True)
    with closing(sqlite3.connect(place.results / "lab.sqlite")) as other:
        other.execute("BEGIN EXCLUSIVE")
        lab = place.start(command)
        time.sleep(chance.uniform(0.5, 3.0))
        other.rollback()
    return [lab.wait(_LIMIT_S)]


@fault
def disk_full(place: Place, command: str, chance: random.Random) -> list[int]:
    """Cache, results or temporary files on a disk of so many KiB; then it is a larger one."""
    folder = chance.choice((place.cache, place.results, place.temporary))
    folder.mkdir(exist_ok=True)
    size = int(2 ** chance.uniform(2, 11))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k,mode=755", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        return []
    try:
        code = place.start(command).wait(_LIMIT_S)
        subprocess.run([*mount[:4], "remount,size=8g", str(folder)], check=True)
        _finish(place, command)
        _check(place, command, [code])
    finally:
        subprocess.run(["umount", str(folder)], check=True)
    return [code]


@fault
def output_closed(place: Place, command: str, chance: random.Random) -> list[int]:
    if chance.random() < 0.5:
        with open("/dev/full", "wb") as full:
            return [place.start(command, stdout=full).wait(_LIMIT_S)]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return [place.start(command, stdout=writing).wait(_LIMIT_S)]
    finally:
        os.close(writing)


@fault
def compiler_killed(place: Place, command: str, chance: random.Random) -> list[int]:
    """Once, or always."""
    folder = place.top / "bin"
    folder.mkdir()
    how = chance.choice(("kill -9 $$", 'echo "x.c:1: internal compiler error: x" >&2; exit 2'))
    always = chance.random() < 0.5
    runs = f'n=$(wc -c <"{folder}/n" 2>/dev/null || echo 0); printf x >>"{folder}/n"'
    bad = f'case "$*:$n" in *bzImage:{"*" if always else chance.choice("123")}) {how};; esac'
    (folder / "make").write_text(f'#!/bin/sh\n{runs}\n{bad}\nexec {shutil.which("make")} "$@"\n')
    (folder / "make").chmod(0o755)
    place.added["PATH"] = f"{folder}:{os.environ['PATH']}"
    code = place.start(command).wait(_LIMIT_S)
    del place.added["PATH"]
    if always and code != 3:
        raise Broken(f"a compiler that is always killed ended with {code}")
    return [code]


@fault
def clock_moved(place: Place, command: str, chance: random.Random) -> list[int]:
    """All that is there is of another day; and then something of the past is kept, too."""
    _finish(place, command)
    moved = time.time() + 86400 * chance.choice((-400, -1, 1, 400))
    for path in (*place.cache.rglob("*"), *place.results.rglob("*")):
        if not path.is_symlink():
            os.utime(path, (moved, moved))
    if chance.random() < 0.5:
        shutil.rmtree(place.cache / "kernels")
    return [place.start(command).wait(_LIMIT_S)]


@fault
def two_at_once(place: Place, command: str, chance: random.Random) -> list[int]:
    labs = [place.start(command), place.start(chance.choice([*COMMANDS]))]
    if chance.random() < 0.5:
        time.sleep(chance.uniform(0.0, DURATIONS[command]))
        labs[1].kill()
    return [lab.wait(_LIMIT_S) for lab in labs]


@fault
def gc_beside(place: Place, command: str, chance: random.Random) -> list[int]:
    """What looks as if it was old goes, but nothing that is used."""
    _finish(place, command)
    for path in place.cache.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (1000, 1000))
    lab = place.start(command)
    codes = []
    while lab.poll() is None:
        codes.append(place.lab("gc", "--days", "0").wait(_LIMIT_S))
    return [*codes, lab.wait(_LIMIT_S)]


@fault
def strange_environment(place: Place, command: str, chance: random.Random) -> list[int]:
    repo = place.top / "repo"
    before = _hashes(repo)
    choices: list[Mapping[str, str]] = [
        {"GIT_DIR": str(repo / ".git"), "GIT_WORK_TREE": str(repo), "GIT_INDEX_FILE": "x"},
        {"GIT_OBJECT_DIRECTORY": str(repo / ".git/objects"), "GIT_CONFIG_PARAMETERS": "x"},
        {"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de", "TZ": "Pacific/Apia"},
        {"LC_ALL": "tr_TR.UTF-8", "TZ": "America/St_Johns"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "TERM": "dumb"},
        {"MAKEFLAGS": "-n", "CFLAGS": "-O9", "NO_COLOR": "1", "COLUMNS": "1"},
    ]
    place.added |= chance.choice(choices)
    umask = os.umask(chance.choice((0o000, 0o022, 0o077)))
    try:
        code = place.start(command).wait(_LIMIT_S)
    finally:
        os.umask(umask)
        place.added.clear()
    if code not in COMMANDS[command][1]:
        raise Broken(f"ended with {code}")
    if _hashes(repo) != before:
        raise Broken("the user's repository was changed")
    return [code]


def _hashes(folder: Path) -> dict[str, str]:
    return {str(path): durable.file_hash(path) for path in _files(folder)}


def _wait(place: Place, seconds: float) -> None:
    """Wait so long from when the command's own code runs: before that Python imports it."""
    deadline = time.monotonic() + _LIMIT_S
    while not place.began.exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(seconds)


def _finish(place: Place, command: str) -> None:
    """An undisturbed run. Raises Broken when it does not end as it should."""
    code = place.start(command).wait(_LIMIT_S)
    if code not in COMMANDS[command][1]:
        raise Broken(f"an undisturbed run ended with {code}")


def _damage(path: Path, chance: random.Random, least: int = 0) -> None:
    content = path.read_bytes()
    path.chmod(0o644)
    how = chance.choice(("cut", "flip", "empty", "garbage"))
    if how == "flip" and content:
        place = chance.randrange(len(content))
        bits = content[place] ^ (1 << chance.randrange(8))
        content = content[:place] + bytes([bits]) + content[place + 1 :]
    elif how == "cut":
        content = content[: chance.randint(0, max(0, len(content) - 1))]
    elif how == "garbage":
        content = chance.randbytes(max(least, len(content)))
    else:
        content = b""
    path.write_bytes(content)


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())


def _processes(place: Place) -> list[int]:
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


def _check(place: Place, command: str, codes: list[int]) -> None:
    """Raise Broken for the first invariant that does not hold."""
    if bad := [code for code in codes if code not in CODES]:
        raise Broken(f"exit code {bad[0]}")
    if 1 in codes and not any(1 in COMMANDS[own][1] for own in COMMANDS if own == command):
        raise Broken("a verdict that nothing deserves")
    said = place.said()
    for word in ("Traceback", "a mistake of the lab's own", "Exception ignored"):
        if word in said:
            raise Broken(f"{word} in the output")
    deadline = time.monotonic() + 5.0
    while (left := _processes(place)) and time.monotonic() < deadline:
        time.sleep(0.1)
    if left:
        raise Broken(f"processes are left: {left}")
    _check_files(place)
    _check_results(place)


def _check_files(place: Place) -> None:
    """Nothing is left aside, of temporary files, of disks."""
    for folder in (place.cache, *place.cache.glob("*/"), *place.results.glob("runs/*/")):
        if aside := [path for path in folder.glob(".*") if durable._ASIDE.fullmatch(path.name)]:
            raise Broken(f"left aside: {aside[0]}")
    left = [*_files(place.temporary), *place.results.rglob("disk.raw")]
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


def _record(place: Place) -> Any:
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


def _git(repo: Path, *words: str) -> None:
    name = ("-c", "user.name=x", "-c", "user.email=x@x")
    done = subprocess.run(["git", "-C", str(repo), *name, *words], capture_output=True, check=True)
    assert done


def _template(top: Path) -> None:
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


def _configure(top: Path) -> None:
    for name, tag in (("green", "v2"), ("red", "v3")):
        (top / f"{name}.toml").write_text(
            'topologies = ["nullb_mq"]\nschedulers = ["bfq"]\nworkloads = ["randread_burst"]\n'
            f'kernel = ["base"]\n[branches.next]\nsource = "git:{top}/repo@{tag}"\n'
            f'baseline = "git:{top}/repo@v1"\nanchor = ""\n'
        )


def _places(scratch: Path, template: Path, name: str) -> Place:
    top = scratch / name
    shutil.copytree(template, top, symlinks=True)
    _configure(top)
    return Place(top)


def _numbers(given: argparse.Namespace) -> Iterator[int]:
    yield from [given.only] if given.only is not None else range(given.count)


def main() -> int:
    """Draw faults, try them, print a line each, and return how many found something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--only", type=int, help="the number of one fault")
    parser.add_argument("--keep", action="store_true", help="leave the folders of what failed")
    given = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="lab-faults-"))
    template = scratch / "template"
    _template(template)
    expected = {}
    for command in COMMANDS:
        place = _places(scratch, template, f"expected-{command}")
        begun = time.monotonic()
        _finish(place, command)
        DURATIONS[command] = time.monotonic() - begun
        _check(place, command, [])
        expected[command] = _record(place)
    found = []
    for number in _numbers(given):
        chance = random.Random(f"{given.seed}/{number}")
        name, command = chance.choice([*FAULTS]), chance.choice([*COMMANDS])
        place = _places(scratch, template, str(number))
        codes: list[int] = []
        try:
            codes = FAULTS[name](place, command, chance)
            sweeping = any(code == -signal.SIGKILL for code in codes)
            if not sweeping:
                _check(place, command, codes)
            _finish(place, command)
            _check(place, command, codes)
            if expected[command] and _record(place) != expected[command]:
                raise Broken("another record than without a fault")
            ending = "ok"
        except (Broken, subprocess.TimeoutExpired) as exc:
            found.append(number)
            ending = f"FOUND: {exc} (ONLY={number} repeats it)"
        print(f"{number:>4} {name}, {command}: {codes} {ending}", flush=True)
        if ending == "ok" or not given.keep:
            shutil.rmtree(place.top, ignore_errors=True)
    if not given.keep:
        shutil.rmtree(scratch)
    tried = 1 if given.only is not None else given.count
    print(f"seed {given.seed}: {tried} faults, {len(found)} found something: {found}")
    return min(len(found), 100)


if __name__ == "__main__":
    sys.exit(main())
