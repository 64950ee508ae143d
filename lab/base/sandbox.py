# SPDX-License-Identifier: GPL-2.0-or-later
"""Confinement of programs that somebody else wrote: a build, a guest, a script of a kernel tree.

A view says what such a program may read and write; nothing else of this machine is there for it:
no home, no network, no environment of the lab's. ``bwrap`` (bubblewrap) gives it namespaces of its
own, ``landlock`` takes files and sockets away where namespaces are forbidden, as in most
containers, ``none`` only sets limits. Each is checked with its real flags before it is used.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from lab.base import cache, durable, landlock, places, seccomp
from lab.base.errors import LabError, UsageError, nearest
from lab.base.process import run

# Chooses a mode, for tests; and lets foreign code run where nothing confines it.
CHOICE = "LAB_SANDBOX"
TRUST = "LAB_TRUST"

HOW_TO_CONFINE = (
    "install bubblewrap (apt-get install bubblewrap), or use a kernel of at least 5.19 with "
    "Landlock; in a container that forbids both, start it with --security-opt seccomp=unconfined "
    "--security-opt apparmor=unconfined --security-opt systempaths=unconfined"
)

_GIB = 2**30
_PROOF_S = 30.0
# What every program needs: itself and its libraries.
_USR = Path("/usr")
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_FILES = ("/etc/alternatives", "/etc/ld.so.cache")
# What lies beside bin; cross-compilers have folders such as x86_64-pc-linux-gnu, too.
_OF_A_PREFIX = ("include", "lib", "lib64", "libexec", "share/qemu")
_DEVICES = ("null", "zero", "full", "random", "urandom")
# Chosen: a build uses none of /dev/shm, QEMU little.
_SHARED_BYTES = 64 * 2**20
_BWRAP = (
    *("--unshare-all", "--unshare-user", "--die-with-parent", "--cap-drop", "ALL"),
    *("--dev", "/dev", "--size", str(_SHARED_BYTES), "--tmpfs", "/dev/shm"),
    *("--proc", "/proc", "--size", str(_GIB), "--tmpfs", "/tmp"),
)
# Bubblewrap reads a filter of system calls from a file that is open under a number.
_WITH_FILTER = 'exec "$@" 9<"$0"'
# What the kernel ends first where memory ends all the same is not another program of the user's.
_ENDED_FIRST = 500  # of 1000; chosen
_END_FIRST = f"echo {_ENDED_FIRST} >/proc/self/oom_score_adj; "
# Bubblewrap before 0.8 does not know it.
_NO_MORE_NAMESPACES = "--disable-userns"
# Landlock leaves a root its capabilities.
_NO_CAPABILITIES = ("setpriv", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--")


class Mode(StrEnum):
    """How programs are confined, the best first."""

    BWRAP = "bwrap"
    LANDLOCK = "landlock"
    NONE = "none"


@dataclass(frozen=True)
class Limits:
    """What one process may use: bytes of a file, seconds of a CPU, bytes of memory of its own
    (None: no limit).

    A user other than root may also have so many processes.
    """

    file_bytes: int = 4 * _GIB
    cpu_s: int | None = None
    processes: int = 8192
    memory_bytes: int | None = None


@dataclass(frozen=True)
class View:
    """What a confined program has: paths with all below them, devices, and all its environment.

    What is to be written may lie below what is only read. The working directory stays the lab's,
    if the program can see that.
    """

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[Path, ...] = ()
    limits: Limits = Limits()


def confined(argv: Sequence[str], view: View, how: Mode | None = None) -> list[str]:
    """The command that runs argv with that view, in the mode that works here or another one.

    Raises UsageError when the mode that the environment asks for does not work, LabError when a
    path to be written, or one of the lab's own folders, leads through a link.
    """
    how = mode() if how is None else how
    _refuse_links(view)
    settings = [f"{name}={value}" for name, value in view.env.items()]
    if "PATH" not in view.env:
        settings.append(f"PATH={os.environ.get('PATH', os.defpath)}")
    wrap = {Mode.BWRAP: _bwrap, Mode.LANDLOCK: _landlock}
    wrapped = wrap[how](view) if how in wrap else []
    return ["env", "-i", *settings, *_limited(view.limits), *wrapped, *argv]


def _refuse_links(view: View) -> None:
    """Raise LabError where somebody else's link would choose what is in view.

    Links on the way to the host's own programs are the host's.
    """
    for path in (*view.write, *filter(places.is_own, view.read)):
        if path.resolve() != path:
            raise LabError(
                f"{path} is not confined to its place: it is a link, or lies behind one",
                where=f"it leads to {path.resolve()}",
                hint="delete the link; a source or a build that was not confined left it",
            )


def mode() -> Mode:
    """The mode that is used: the first that works here, or the one that the environment names."""
    if wanted := os.environ.get(CHOICE):
        if wanted not in list(Mode):
            raise UsageError(f"{CHOICE} names no sandbox: {wanted!r}", hint=nearest(wanted, Mode))
        chosen = Mode(wanted)
        if obstacle := obstacle_to(chosen):
            raise UsageError(f"the sandbox {chosen} does not work here: {obstacle}", where=CHOICE)
        return chosen
    return next(candidate for candidate in Mode if not obstacle_to(candidate))


@functools.cache
def obstacle_to(how: Mode) -> str:
    """Why a mode does not work here; empty when it does. Proved once in a process."""
    if how is Mode.NONE:
        return ""
    if how is Mode.BWRAP and not shutil.which("bwrap"):
        return "bubblewrap is not installed"
    if how is Mode.LANDLOCK and landlock.abi() < landlock.OLDEST_ABI:
        return "this kernel has no Landlock, or hides it"
    return _proof(how)


def description() -> str:
    """The mode, and of better ones why they do not work, in a line."""
    used, modes = mode(), list(Mode)
    better = modes[: modes.index(used)]
    reasons = [f"{candidate}: {why}" for candidate in better if (why := obstacle_to(candidate))]
    return f"{used} ({'; '.join(reasons)})" if reasons else used.value


def trusted() -> bool:
    """Whether the user lets foreign code run where nothing confines it."""
    return os.environ.get(TRUST, "0") not in ("", "0")


def require_for(what: str) -> None:
    """Raise UsageError unless foreign code, what it is called, is confined here or trusted."""
    if mode() is Mode.NONE and not trusted():
        raise UsageError(
            f"{what} would run unconfined: a patch can do whatever this user can",
            where=description(),
            hint=f"{HOW_TO_CONFINE}; or say --trust ({TRUST}=1) when you trust the code",
        )


def installation(program: str) -> tuple[Path, ...]:
    """What a program that is not in /usr needs of where it is installed; nothing for one in /usr.

    Of a prefix, which may be a home's ~/.local, these are programs, libraries and QEMU's data.
    """
    path = shutil.which(program)
    if not path:
        return ()
    folders = {Path(path).absolute().parent, Path(path).resolve().parent}
    outside = [folder for folder in folders if not folder.resolve().is_relative_to(_USR)]
    return tuple(path for folder in outside for path in _parts(folder))


def _parts(folder: Path) -> list[Path]:
    """A folder of programs, and what lies beside it in a prefix."""
    prefix = folder.parent
    if folder.name != "bin" or prefix in (Path("/"), Path.home()):
        return [folder]
    beside = [prefix / part for part in _OF_A_PREFIX]
    return [folder, *filter(Path.is_dir, beside), *prefix.glob("*-linux-*")]


def _limited(limits: Limits) -> list[str]:
    """Limits of resources; none can be above what the lab has itself."""
    wanted = {
        "core": (resource.RLIMIT_CORE, 0),
        "fsize": (resource.RLIMIT_FSIZE, limits.file_bytes),
        "nproc": (resource.RLIMIT_NPROC, limits.processes),
        "cpu": (resource.RLIMIT_CPU, limits.cpu_s),
        "data": (resource.RLIMIT_DATA, limits.memory_bytes),
    }
    options = []
    for name, (kind, most) in wanted.items():
        hard = resource.getrlimit(kind)[1]
        if most is not None:
            options.append(
                f"--{name}={most if hard == resource.RLIM_INFINITY else min(most, hard)}"
            )
    return ["prlimit", *options]


def _bwrap(view: View) -> list[str]:
    argv = [*_prepared(view.limits), *_BWRAP, *_namespaces(), "--ro-bind", str(_USR), str(_USR)]
    for name in _SYSTEM:
        if (link := Path(name)).is_symlink():
            argv += ["--symlink", str(link.readlink()), name]
        else:
            argv += ["--ro-bind-try", name, name]
    for name in _FILES:
        argv += ["--ro-bind-try", name, name]
    for device in view.devices:
        argv += ["--dev-bind-try", str(device), str(device)]
    # Parents first: what lies below them comes on top.
    binds = {**dict.fromkeys(view.read, "--ro-bind-try"), **dict.fromkeys(view.write, "--bind")}
    for path in sorted(binds):
        argv += [binds[path], str(path), str(path)]
    return [*argv, "--remount-ro", "/dev", "--remount-ro", "/", "--"]


def _prepared(limits: Limits) -> list[str]:
    """The beginning of bubblewrap's command: the filter of system calls, where one is made for this
    machine, and what is done before.
    """
    first = _END_FIRST if limits.memory_bytes else ""
    if os.uname().machine != "x86_64":
        return ["sh", "-c", f'{first}exec "$0" "$@"', "bwrap"]
    content, path = seccomp.against_set_id(), cache.root() / "set-id.bpf"
    if not path.is_file() or path.read_bytes() != content:
        durable.replace(cache.make_folder(path.parent) / path.name, content)
    return ["sh", "-c", first + _WITH_FILTER, str(path), "bwrap", "--seccomp", "9"]


@functools.cache
def _namespaces() -> tuple[str, ...]:
    """The option that forbids more namespaces, where this bubblewrap has it and it works."""
    base = ["bwrap", *_BWRAP, "--ro-bind", "/", "/", _NO_MORE_NAMESPACES, "--", "true"]
    return () if run(base, check=False, merge=True).status else (_NO_MORE_NAMESPACES,)


def _landlock(view: View) -> list[str]:
    confinement = {
        "read": [*map(str, (_USR, *view.read)), *_SYSTEM, *_FILES],
        "write": [*map(str, view.write)],
        "devices": [*(f"/dev/{name}" for name in _DEVICES), *map(str, view.devices)],
        "oom_score": _ENDED_FIRST if view.limits.memory_bytes else None,
        "calls": seccomp.with_landlock(truncate=landlock.abi() >= landlock.TRUNCATE_ABI).hex(),
    }
    helper = [sys.executable, "-I", "-S", landlock.__file__, json.dumps(confinement)]
    return [*(_NO_CAPABILITIES if os.geteuid() == 0 else ()), *helper]


def _proof(how: Mode) -> str:
    """Run a command that writes where it may and reads where it may not; what went wrong."""
    with cache.scratch() as folder:
        writable, hidden = folder / "own", folder / "other"
        writable.mkdir()
        hidden.write_text("secret")
        script = 'echo x >"$1/file" && ! cat "$2" 2>&1'
        argv = ["sh", "-c", script, "sh", str(writable), str(hidden)]
        try:
            done = run(
                confined(argv, View(write=(writable,)), how),
                check=False,
                merge=True,
                timeout_s=_PROOF_S,
                cwd=writable,
            )
        except LabError as exc:
            return exc.what
        if "secret" in done.output:
            return "it hides nothing"
        return (done.output.strip().splitlines() or ["it failed"])[-1] if done.status else ""
