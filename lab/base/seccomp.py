# SPDX-License-Identifier: GPL-2.0-or-later
"""Filters of system calls (seccomp(2)) for programs that are confined, as the kernel takes them.

They are made here as bytes, for x86-64: bubblewrap and lab/base/landlock.py install them.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Sequence

# x86-64 numbers (arch/x86/entry/syscalls/syscall_64.tbl), here and below. These open files by a
# description in memory, where no filter can read the mode of a new one.
_OPENAT2 = 437
_IO_URING = (425, 426, 427)
# Where the mode of a file stands among the arguments.
_MODES = {
    "chmod": (90, 1),
    "fchmod": (91, 1),
    "fchmodat": (268, 2),
    "fchmodat2": (452, 2),
    "mknod": (133, 1),
    "mknodat": (259, 2),
    "creat": (85, 1),
}
# Where the flags stand; the mode comes next, and counts only where a file is created.
_OPENS = {"open": (2, 1), "openat": (257, 2)}
_CREATES = 0o100 | 0o20000000  # O_CREAT, and what O_TMPFILE adds to O_DIRECTORY
_SET_ID = 0o6000
# What Landlock does not restrict and bubblewrap does: to reach into other processes and the kernel,
# to make namespaces, to leave the process group, and extended attributes of files out of view.
_REACHING = {
    "connect": 42,
    "ptrace": 101,
    "setpgid": 109,
    "setsid": 112,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "unshare": 272,
    "perf_event_open": 298,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "bpf": 321,
    "userfaultfd": 323,
    "pidfd_getfd": 438,
}
_ATTRIBUTES = (188, 189, 190, 463, 197, 198, 199, 466)  # setxattr..., removexattr...
_CHMODS = ("chmod", "fchmod", "fchmodat", "fchmodat2")
_OTHERS_WRITE = 0o2
_TRUNCATE, _SOCKET, _CLONE, _CLONE3 = 76, 41, 56, 435
_NAMESPACES = 0x7E020000
_UNIX, _STREAM, _TYPE_MASK = 1, 1, 0xF

_X86_64, _X32 = 0xC000003E, 0x40000000
# linux/bpf_common.h: load a word of seccomp_data, compare, return.
_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000

_Step = tuple[int, int, int, int]
_ALLOWED: _Step = (_RETURN, 0, 0, _ALLOW)


def against_set_id() -> bytes:
    """A filter against new files that run as their owner or group, whoever starts them."""
    return _packed([*_beginning(), *_set_id(), _ALLOWED])


def with_landlock(*, truncate: bool) -> bytes:
    """A filter for what Landlock leaves open; truncate: whether truncate(2) is allowed."""
    steps = [*_beginning(), *_refused(_REACHING.values())]
    steps += [] if truncate else _refused([_TRUNCATE])
    steps += _refused(_ATTRIBUTES, errno.EOPNOTSUPP)
    steps += _set_id()
    for name in _CHMODS:
        number, place = _MODES[name]
        steps += _refused_bits(number, place, _OTHERS_WRITE)
    # The flags of clone3 lie in memory as well; C libraries then use clone.
    steps += _refused([_CLONE3], errno.ENOSYS)
    steps += _refused_bits(_CLONE, 0, _NAMESPACES)
    # QEMU's monitor listens on a UNIX socket. Who cannot connect reaches nobody by such a one.
    steps += [(_EQUAL, 0, 6, _SOCKET), _argument(0), (_EQUAL, 0, 3, _UNIX)]
    steps += [_argument(1), (_AND, 0, 0, _TYPE_MASK), (_EQUAL, 1, 0, _STREAM)]
    steps += [_refusal(errno.EPERM), _ALLOWED]
    return _packed(steps)


def _beginning() -> list[_Step]:
    """Refuse calls by other tables of numbers, then load the number."""
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _X86_64),
        _refusal(errno.EPERM),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        _refusal(errno.EPERM),
    ]


def _set_id() -> list[_Step]:
    """Refuse every call that gives a file one of the bits of 06000."""
    steps = _refused(_IO_URING) + _refused([_OPENAT2], errno.ENOSYS)
    for number, place in _MODES.values():
        steps += _refused_bits(number, place, _SET_ID)
    for number, place in _OPENS.values():
        steps += [(_EQUAL, 0, 6, number), _argument(place), (_ANY_BIT, 0, 3, _CREATES)]
        steps += [_argument(place + 1), (_ANY_BIT, 0, 1, _SET_ID), _refusal(errno.EPERM), _ALLOWED]
    return steps


def _refused(numbers: Iterable[int], error: int = errno.EPERM) -> list[_Step]:
    """Refuse calls; the number is loaded."""
    return [step for number in numbers for step in ((_EQUAL, 0, 1, number), _refusal(error))]


def _refused_bits(number: int, place: int, bits: int) -> list[_Step]:
    """Refuse a call with one of these bits in an argument; the number is loaded, and stays so."""
    checked = [_argument(place), (_ANY_BIT, 0, 1, bits), _refusal(errno.EPERM)]
    return [(_EQUAL, 0, 4, number), *checked, (_LOAD, 0, 0, _NUMBER)]


def _argument(place: int) -> _Step:
    """Load the lower half of an argument."""
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * place)


def _refusal(error: int) -> _Step:
    return (_RETURN, 0, 0, _ERROR | error)


def _packed(steps: Sequence[_Step]) -> bytes:
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
