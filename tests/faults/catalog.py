# SPDX-License-Identifier: GPL-2.0-or-later
"""The faults: each is given a place, a command and chance, and disturbs the command there."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from invariants import check
from place import DURATIONS, LIMIT_S, Broken, Place, files, finish, processes, wait

from lab.base import durable

# A fault returns the exit codes of what it disturbed.
Fault = Callable[[Place, str, random.Random], list[int]]
FAULTS: dict[str, Fault] = {}
# Those that need a kernel of their own to build, or a cache to damage.
_FAKE_ONLY = {
    *("cache_damaged", "state_damaged", "compiler_killed", "clock_moved", "gc_beside"),
    *("disk_full_under_a_guest", "links_left_by_qemu"),
}
# How long a command may take to say that the disk is full, in s; its guest would go on for ever.
_SAID_S = 60.0


def of(real: bool) -> list[str]:
    """Name the faults that the real lab, whose cache is the user's, takes, or the fake one."""
    return [name for name in FAULTS if not (real and name in _FAKE_ONLY)]


def fault(own: Fault) -> Fault:
    FAULTS[own.__name__] = own
    return own


def _signalled(*signals: signal.Signals) -> Fault:
    def one(place: Place, command: str, chance: random.Random) -> list[int]:
        lab = place.start(command)
        sent = chance.choice(signals)
        wait(place, chance.uniform(0.0, DURATIONS[command]))
        lab.send_signal(sent)
        if sent is signal.SIGSTOP:
            time.sleep(1.0)
            lab.send_signal(signal.SIGCONT)
        return [lab.wait(LIMIT_S)]

    return one


FAULTS |= {
    "ended": _signalled(signal.SIGTERM, signal.SIGHUP, signal.SIGINT),
    "killed": _signalled(signal.SIGKILL),
    "stopped for a second": _signalled(signal.SIGSTOP),
}


@fault
def ended_twice(place: Place, command: str, chance: random.Random) -> list[int]:
    lab = place.start(command)
    wait(place, chance.uniform(0.0, DURATIONS[command]))
    for sent in (signal.SIGHUP, signal.SIGTERM):
        lab.send_signal(sent)
        time.sleep(chance.uniform(0.0, 0.05))
    return [lab.wait(LIMIT_S)]


@fault
def children_killed(place: Place, command: str, chance: random.Random) -> list[int]:
    """Git, make, a guest: whatever runs at some moments."""
    lab = place.start(command)
    for _ in range(chance.choice((1, 1, 20))):
        time.sleep(chance.uniform(0.0, DURATIONS[command] / 4))
        for process in processes(place):
            if process != lab.pid:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
    return [lab.wait(LIMIT_S)]


@fault
def cache_damaged(place: Place, command: str, chance: random.Random) -> list[int]:
    finish(place, command)
    for _ in range(chance.randint(1, 3)):
        kept = (place.cache / name for name in ("kernels", "guests", "plugins"))
        _damage(chance.choice([path for folder in kept for path in files(folder)]), chance)
    return [place.start(command).wait(LIMIT_S)]


@fault
def state_damaged(place: Place, command: str, chance: random.Random) -> list[int]:
    finish(place, command)
    for path in (place.cache / "host").glob("*.json"):
        _damage(path, chance)
    return [place.start(command).wait(LIMIT_S)]


@fault
def evidence_damaged(place: Place, command: str, chance: random.Random) -> list[int]:
    finish(place, command)
    for path in files(place.results / "boots")[:: chance.randint(1, 3)]:
        _damage(path, chance)
    if chance.random() < 0.2:
        shutil.rmtree(place.results / "boots", ignore_errors=True)
    return [place.start(command).wait(LIMIT_S)]


@fault
def database_damaged(place: Place, command: str, chance: random.Random) -> list[int]:
    """It is told, with where; the user moves it away, as the message says."""
    finish(place, command)
    database = place.results / "lab.sqlite"
    if not database.exists():
        return []
    _damage(database, chance, least=200)
    code = place.start(command).wait(LIMIT_S)
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
    return [lab.wait(LIMIT_S)]


@fault
def disk_full(place: Place, command: str, chance: random.Random) -> list[int]:
    """Cache, results or temporary files on a disk of so many KiB; then it is a larger one."""
    own = [place.results, place.temporary]
    folder = chance.choice(own if place.real else [*own, place.cache])
    folder.mkdir(exist_ok=True)
    size = int(2 ** chance.uniform(2, 11))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k,mode=755", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        return []
    try:
        code = place.start(command).wait(LIMIT_S)
        subprocess.run([*mount[:4], "remount,size=8g", str(folder)], check=True)
        finish(place, command)
        check(place, command, [code])
    finally:
        subprocess.run(["umount", str(folder)], check=True)
    return [code]


def _prepared(place: Place, command: str) -> None:
    """Have all built and checked that a command needs, and nothing measured."""
    finish(place, command)
    shutil.rmtree(place.results, ignore_errors=True)
    place.results.mkdir()


@fault
def disk_full_under_a_guest(place: Place, command: str, chance: random.Random) -> list[int]:
    """A guest fills the disk of the results, and QEMU would wait for ever."""
    _prepared(place, command)
    size = chance.randint(20, 80)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}m,mode=755", "tmpfs", str(place.results)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        return []
    place.added["FAKE_GUEST"] = "fills"
    try:
        code = place.start(command).wait(_SAID_S)
    finally:
        place.added.clear()
        subprocess.run(["umount", "-l", str(place.results)], check=True)
    if code != (0 if command == "build" else 3):
        raise Broken(f"a full disk under a guest ended with {code}")
    if command != "build" and "no space left on the disk" not in place.said():
        raise Broken("nobody said that the disk is full")
    return [code]


@fault
def links_left_by_qemu(place: Place, command: str, chance: random.Random) -> list[int]:
    """In the place of its files, and of those that the lab makes of them."""
    _prepared(place, command)
    place.added["FAKE_GUEST"] = "links"
    code = place.start(command).wait(LIMIT_S)
    place.added.clear()
    if code != (0 if command == "build" else 3):
        raise Broken(f"links that QEMU left ended with {code}")
    check(place, command, [code])
    # The failures of these guests stay on record, and count against their kernels.
    shutil.rmtree(place.results, ignore_errors=True)
    return [code]


@fault
def output_closed(place: Place, command: str, chance: random.Random) -> list[int]:
    if chance.random() < 0.5:
        with open("/dev/full", "wb") as full:
            return [place.start(command, stdout=full).wait(LIMIT_S)]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return [place.start(command, stdout=writing).wait(LIMIT_S)]
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
    bad = f'case "$*:$n" in *vmlinux:{"*" if always else chance.choice("123")}) {how};; esac'
    (folder / "make").write_text(f'#!/bin/sh\n{runs}\n{bad}\nexec {shutil.which("make")} "$@"\n')
    (folder / "make").chmod(0o755)
    place.added["PATH"] = f"{folder}:{os.environ['PATH']}"
    code = place.start(command).wait(LIMIT_S)
    del place.added["PATH"]
    if always and code != 3:
        raise Broken(f"a compiler that is always killed ended with {code}")
    return [code]


@fault
def clock_moved(place: Place, command: str, chance: random.Random) -> list[int]:
    """All that is there is of another day; and then something of the past is kept, too."""
    finish(place, command)
    moved = time.time() + 86400 * chance.choice((-400, -1, 1, 400))
    for path in (*place.cache.rglob("*"), *place.results.rglob("*")):
        if not path.is_symlink():
            os.utime(path, (moved, moved))
    if chance.random() < 0.5:
        shutil.rmtree(place.cache / "kernels")
    return [place.start(command).wait(LIMIT_S)]


@fault
def two_at_once(place: Place, command: str, chance: random.Random) -> list[int]:
    beside = chance.choice([*place.commands])
    labs = [place.start(command), place.start(beside)]
    if chance.random() < 0.5:
        time.sleep(chance.uniform(0.0, DURATIONS[command]))
        labs[1].kill()
    own, other = (lab.wait(LIMIT_S) for lab in labs)
    # The other's verdict is not this command's to deserve.
    return [own, 0 if other in place.commands[beside][1] else other]


@fault
def gc_beside(place: Place, command: str, chance: random.Random) -> list[int]:
    """What looks as if it was old goes, but nothing that is used."""
    finish(place, command)
    for path in place.cache.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (1000, 1000))
    lab = place.start(command)
    codes = []
    while lab.poll() is None:
        codes.append(place.lab("gc", "--days", "0").wait(LIMIT_S))
    return [*codes, lab.wait(LIMIT_S)]


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
        code = place.start(command).wait(LIMIT_S)
    finally:
        os.umask(umask)
        place.added.clear()
    if code not in place.commands[command][1]:
        raise Broken(f"ended with {code}")
    if _hashes(repo) != before:
        raise Broken("the user's repository was changed")
    return [code]


def _hashes(folder: Path) -> dict[str, str]:
    return {str(path): durable.file_hash(path) for path in files(folder)}


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
