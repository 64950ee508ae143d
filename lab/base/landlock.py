# SPDX-License-Identifier: GPL-2.0-or-later
"""A program that confines itself, drops what it need not have, and becomes another program.

``python -I -S landlock.py VIEW COMMAND...``: VIEW is a JSON object with lists of paths: read, write
(with all below them) and devices; a filter of system calls (lab/base/seccomp.py) in hex; and how
early the kernel ends the command where memory ends, or null. It needs no privilege and the standard
library only: Landlock (landlock(7)) takes files away, the filter takes sockets and what reaches
into other processes. The command cannot leave its process group either, so that killing the group
is killing all of it.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

# The first version that lets files be renamed from one folder into another.
OLDEST_ABI = 2
# The first that knows truncate(2).
TRUNCATE_ABI = 3

# linux/landlock.h: the calls, and what may be done with files, by the version that brought it.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_GET_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_KNOWN_BITS = {1: 13, 2: 14, 3: 15, 4: 15}
_ALL_BITS = 16
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_SCOPES = 3  # abstract UNIX sockets, and signals

_NO_NEW_PRIVS, _SECCOMP, _FILTER = 38, 22, 2
_STEP_BYTES = 8

# Nobody else writes what is made.
_UMASK = 0o022

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """The version of Landlock that this kernel has; 0 without any."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _GET_VERSION)))


def confine(read: Iterable[str], write: Iterable[str], devices: Iterable[str], calls: str) -> None:
    """Confine this process and all that it will start: to paths, of which those that are not there
    are skipped, and by a filter of system calls. Raises OSError when the kernel cannot do it.
    """
    version = abi()
    if version < OLDEST_ABI or os.uname().machine != "x86_64":
        raise OSError(errno.ENOSYS, "this kernel has no Landlock")
    handled = (1 << _KNOWN_BITS.get(version, _ALL_BITS)) - 1
    attributes = struct.pack("QQQ", handled, 0, _SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 8
    ruleset = _call(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    for path in read:
        _allow(ruleset, path, handled & _READ)
    for path in write:
        _allow(ruleset, path, handled & ~(_MAKE_CHAR | _MAKE_BLOCK))
    for path in devices:
        _allow(ruleset, path, handled & _OF_A_FILE & ~_EXECUTE)
    if _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    # The filter refuses to make a file everybody's, as linkers do who follow the mask.
    os.umask(os.umask(0) | _UMASK)
    _install(bytes.fromhex(calls))


def _allow(ruleset: int, path: str, access: int) -> None:
    """Allow access to a file, or to a folder and all below it."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not Path(path).is_dir():
        access &= _OF_A_FILE
    _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", access, place), 0)
    os.close(place)


def _install(program: bytes) -> None:
    """Have the kernel ask a filter before every system call."""
    code = ctypes.create_string_buffer(program, len(program))
    steps = len(program) // _STEP_BYTES
    filter_program = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", steps, ctypes.addressof(code))
    )
    if _libc.prctl(_SECCOMP, _FILTER, filter_program, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")


def _call(number: int, *arguments: object) -> int:
    result: int = _libc.syscall(number, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def main() -> None:
    """Confine this process to the view of the first argument and run the command of the others."""
    try:
        view = json.loads(sys.argv[1])
        if (score := view.pop("oom_score")) is not None:
            Path("/proc/self/oom_score_adj").write_text(str(score))
        confine(**view)
        # Python would look for the command with modules that it can no longer read.
        os.execv("/usr/bin/env", ["env", *sys.argv[2:]])
    except OSError as exc:
        sys.exit(f"landlock: {exc.strerror or exc}: {sys.argv[2]}")


if __name__ == "__main__":
    main()
