# SPDX-License-Identifier: GPL-2.0-or-later
"""A program that confines itself, drops what it need not have, and becomes another program.

``python -I -S landlock.py VIEW COMMAND...``: VIEW is a JSON object with lists of paths: read, write
(with all below them) and devices. It needs no privilege and the standard library only: Landlock
(landlock(7)) takes files away, a seccomp filter (seccomp(2)) takes sockets and what reaches into
other processes. The command cannot leave its process group either, so that killing the group is
killing all of it.
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

# x86-64 numbers (arch/x86/entry/syscalls/syscall_64.tbl) of what is refused: to reach into other
# processes and the kernel, to make namespaces, and to leave the process group.
_REFUSED = {
    "connect": 42,
    "ptrace": 101,
    "setpgid": 109,
    "setsid": 112,
    "keys": (248, 249, 250),
    "unshare": 272,
    "perf_event_open": 298,
    "setns": 308,
    "process_vm": (310, 311),
    "bpf": 321,
    "userfaultfd": 323,
    "io_uring": (425, 426, 427),
    "pidfd_getfd": 438,
}
_TRUNCATE_CALL, _SOCKET, _CLONE, _CLONE3 = 76, 41, 56, 435
_NAMESPACES = 0x7E020000
_UNIX, _STREAM, _TYPE_MASK = 1, 1, 0xF
_X86_64, _X32 = 0xC000003E, 0x40000000
# linux/bpf_common.h: load a word of seccomp_data, compare, return.
_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """The version of Landlock that this kernel has; 0 without any."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _GET_VERSION)))


def confine(read: Iterable[str], write: Iterable[str], devices: Iterable[str]) -> None:
    """Confine this process and all that it will start. Paths that are not there are left out.

    Raises OSError when the kernel cannot do it.
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
    _refuse_calls(truncate=version < 3)


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


def _refuse_calls(*, truncate: bool) -> None:
    """Install the filter; truncate(2) is refused where Landlock does not know it."""
    numbers = [n for own in _REFUSED.values() for n in (own if isinstance(own, tuple) else (own,))]
    numbers += [_TRUNCATE_CALL] if truncate else []
    refuse, allow = (_RETURN, 0, 0, _ERROR | errno.EPERM), (_RETURN, 0, 0, _ALLOW)
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _X86_64),
        refuse,
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        refuse,
    ]
    for number in numbers:
        program += [(_EQUAL, 0, 1, number), refuse]
    # The flags of clone3 lie in memory, where no filter can read them; C libraries then use clone.
    program += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    program += [(_EQUAL, 0, 4, _CLONE), (_LOAD, 0, 0, _FIRST), (_ANY_BIT, 0, 1, _NAMESPACES)]
    program += [refuse, allow]
    # QEMU's monitor listens on a UNIX socket. Who cannot connect reaches nobody by such a one.
    program += [(_EQUAL, 0, 6, _SOCKET), (_LOAD, 0, 0, _FIRST), (_EQUAL, 0, 3, _UNIX)]
    program += [(_LOAD, 0, 0, _SECOND), (_AND, 0, 0, _TYPE_MASK), (_EQUAL, 1, 0, _STREAM)]
    program += [refuse, allow]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    own = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    if _libc.prctl(_SECCOMP, _FILTER, own, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")


def _call(number: int, *arguments: object) -> int:
    found: int = _libc.syscall(number, *arguments)
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found


def main() -> None:
    """Confine this process to the view of the first argument and run the command of the others."""
    try:
        confine(**json.loads(sys.argv[1]))
        # Python would look for the command with modules that it can no longer read.
        os.execv("/usr/bin/env", ["env", *sys.argv[2:]])
    except OSError as exc:
        sys.exit(f"landlock: {exc.strerror or exc}: {sys.argv[2]}")


if __name__ == "__main__":
    main()
