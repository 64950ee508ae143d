# SPDX-License-Identifier: GPL-2.0-or-later
"""The only place that starts processes: run to completion, or start and supervise."""

from __future__ import annotations

import contextlib
import errno
import os
import pty
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lab.base.errors import LabError
from lab.base.text import visible

# A shell that leads a process group of its own and takes the whole group with it when the lab
# dies, even by SIGKILL: setpriv has the kernel send it SIGTERM then.
_SUPERVISOR = 'trap "kill -KILL 0" TERM; "$@" & wait $!'
# Set to anything but 0, this variable has every command printed; `lab --verbose` sets it.
VERBOSE = "LAB_VERBOSE"
_TAIL_LINES = 15
_KILL_GRACE_S = 5.0
_KILL_POLL_S = 0.01
_OF_A_REPOSITORY = frozenset(
    f"GIT_{name}"
    for name in (
        *("DIR", "WORK_TREE", "INDEX_FILE", "OBJECT_DIRECTORY", "ALTERNATE_OBJECT_DIRECTORIES"),
        *("COMMON_DIR", "NAMESPACE", "PREFIX", "CONFIG", "CONFIG_PARAMETERS", "GRAFT_FILE"),
    )
)


class CommandError(LabError):
    """A command ended with a non-zero status; ``output`` is what it printed, ``status`` how."""

    def __init__(self, what: str, *, status: int = 1, output: str = "", where: str = "") -> None:
        super().__init__(what, where=where)
        self.status = status
        self.output = output


@dataclass(frozen=True)
class Result:
    """A finished command: exit status and its standard output (errors too when merged)."""

    status: int
    output: str


def paste(
    argv: Sequence[str], cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """The command as a user can paste it into a shell; env is what is added to the environment."""
    added = [f"{name}={value}" for name, value in (env or {}).items()]
    line = shlex.join(["env", *added, *argv] if added else argv)
    return f"(cd {shlex.quote(str(cwd))} && {line})" if cwd else line


def is_verbose() -> bool:
    """Whether everything that is done is to be printed (LAB_VERBOSE)."""
    return os.environ.get(VERBOSE, "0") not in ("", "0")


def _tell(argv: Sequence[str], cwd: Path | None, env: Mapping[str, str] | None) -> None:
    """Print a command that is about to start, for who wants to see them all."""
    if is_verbose():
        clear = "\r\033[K" if sys.stderr.isatty() else ""  # of the live line of a step
        print(f"{clear}+ {visible(paste(argv, cwd, env))}", file=sys.stderr, flush=True)


def tail(text: str, lines: int = _TAIL_LINES) -> str:
    """The last non-empty lines of a log, indented for use in a message."""
    kept = [line for line in text.splitlines() if line.strip()][-lines:]
    return "\n".join(f"    {line}" for line in kept)


def tail_of_file(path: Path, lines: int = _TAIL_LINES) -> str:
    """The last non-empty lines of a log file; empty when there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - 65536))
        return tail(log.read().decode(errors="replace"), lines)


def _environment(added: Mapping[str, str] | None) -> dict[str, str]:
    """The environment with what is added, and without what makes git take another repository.

    Git sets that for its hooks (`git rev-parse --local-env-vars` lists all).
    """
    kept = {name: value for name, value in os.environ.items() if name not in _OF_A_REPOSITORY}
    return {**kept, **(added or {})}


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    check: bool = True,
    merge: bool = False,
    shows_errors: bool = False,
    timeout_s: float | None = None,
) -> Result:
    """Run a short command and return its output.

    env is added to the environment. merge puts standard error into the output; with shows_errors
    it goes where the lab's own goes.
    Raises CommandError when check is set and the status is not zero, LabError when the program
    is missing or runs longer than timeout_s.
    """
    _tell(argv, cwd, env)
    try:
        done = subprocess.run(
            _ending_with_the_lab(argv, env),
            cwd=cwd,
            env=_environment(env),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge else None if shows_errors else subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError as exc:
        raise _missing(argv, exc) from exc
    except subprocess.TimeoutExpired as exc:
        raise LabError(f"{argv[0]} did not end within {timeout_s} s", where=paste(argv)) from exc
    if check and done.returncode:
        printed = done.stdout + (done.stderr or "")
        raise _failed(argv, cwd, done.returncode, printed)
    return Result(done.returncode, done.stdout)


def converse(argv: Sequence[str]) -> int:
    """Run a command at a terminal of its own that stands for the user's; return its exit status.

    What runs there cannot put words into the user's own terminal's input. Raises LabError when the
    program is missing.
    """
    _tell(argv, None, None)
    try:
        supervised = _ending_with_the_lab(argv, None)
    except FileNotFoundError as exc:
        raise _missing(argv, exc) from exc
    return os.waitstatus_to_exitcode(pty.spawn(supervised))


class Process:
    """A supervised process: it and all its children end with the lab, whatever ends the lab."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start argv with both outputs appended to the file log."""
        _tell(argv, cwd, env)
        supervised = ["setpriv", "--pdeathsig", "TERM", "--", "sh", "-c", _SUPERVISOR, "sh", *argv]
        with log.open("ab") as out:
            try:
                self._child = subprocess.Popen(
                    supervised,
                    cwd=cwd,
                    env=_environment(env),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except FileNotFoundError as exc:
                raise _missing(supervised, exc) from exc

    @property
    def group(self) -> int:
        """The process group that holds the command and all it started."""
        return self._child.pid

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""
        return self._child.poll()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for the end; None when it still runs after timeout_s."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._child.wait(timeout_s)
        return None

    def kill(self) -> None:
        """End the whole group, politely, then surely, and wait until nobody is left of it."""
        for sig, patience in ((signal.SIGTERM, 0.2), (signal.SIGKILL, _KILL_GRACE_S)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.group, sig)
            self.wait(patience)
        # A guest's memory takes a while to be given back, and on a busy host its death as well.
        deadline = time.monotonic() + _KILL_GRACE_S
        while any(map(_runs, self.members())) and time.monotonic() < deadline:
            time.sleep(_KILL_POLL_S)

    def members(self) -> list[int]:
        """Process ids of the group that are alive."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if _group_of(pid) == self.group]


@contextlib.contextmanager
def supervised(
    argv: Sequence[str],
    *,
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[Process]:
    """A Process that is gone, with all its children, when the block is left."""
    process = Process(argv, log=log, cwd=cwd, env=env)
    try:
        yield process
    finally:
        process.kill()


def run_logged(argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> None:
    """Run a long command with its output in a log file; CommandError shows the log's end."""
    with supervised(argv, log=log, env=env) as process:
        status = process.wait()
    if status:
        raise CommandError(
            f"{argv[0]} failed with status {status}; its log ends:\n{tail_of_file(log)}",
            status=status,
            output=log.read_text(errors="replace"),
            where=f"{log}\n         {paste(argv)}",
        )


@contextlib.contextmanager
def piped(
    argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Iterator[IO[bytes]]:
    """Start a command and yield its standard input; on leaving, close it and wait.

    Raises CommandError when the command fails.
    """
    _tell(argv, cwd, env)
    try:
        child = subprocess.Popen(
            _ending_with_the_lab(argv, env),
            cwd=cwd,
            env=_environment(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    except FileNotFoundError as exc:
        raise _missing(argv, exc) from exc
    assert child.stdin is not None
    assert child.stderr is not None
    broken: BrokenPipeError | None = None
    try:
        try:
            yield child.stdin
            child.stdin.close()
        except BrokenPipeError as exc:
            broken = exc  # the command's own words, below, say more
        errors = child.stderr.read().decode(errors="replace")
        status = child.wait()
    except BaseException:
        child.kill()
        child.wait()
        raise
    if status or broken:
        raise _failed(argv, cwd, status, errors)


def _ending_with_the_lab(argv: Sequence[str], env: Mapping[str, str] | None) -> list[str]:
    """A command that the kernel kills when the lab dies. Raises FileNotFoundError."""
    path = _environment(env).get("PATH", "")
    if not shutil.which(argv[0], path=path):
        raise FileNotFoundError(errno.ENOENT, "not found", argv[0])
    setpriv = shutil.which("setpriv", path=f"{path}:{os.defpath}")
    return [*([setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []), *argv]


def _failed(argv: Sequence[str], cwd: Path | None, status: int, output: str) -> CommandError:
    what = f"{argv[0]} failed with status {status}:\n{tail(output)}"
    return CommandError(what, status=status, output=output, where=paste(argv, cwd))


def _missing(argv: Sequence[str], exc: FileNotFoundError) -> LabError:
    program = exc.filename or argv[0]
    return LabError(
        f"cannot start {program}: not found",
        where=paste(argv),
        hint="`make setup`, or `python3 -m lab.setup`, installs what the lab needs",
    )


def _runs(pid: int) -> bool:
    """Whether a process is there, and not only a number that nobody has asked for yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None
