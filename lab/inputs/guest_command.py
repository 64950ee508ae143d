# SPDX-License-Identifier: GPL-2.0-or-later
"""A command of the user's that a guest runs: the files and programs of this host that it names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from lab.base.errors import UsageError
from lab.base.system import which
from lab.inputs import io_uring_line

# What stands for the amount of work: a command that has it is measured with two amounts.
_AMOUNT = re.compile(r"\$N\b|\$\{N\}")
_MOST_BYTES = 64 << 10
_MOST_FILES_BYTES = 64 << 20
# After these a word is the name of a program.
_BEFORE_PROGRAMS = frozenset({";", "&", "&&", "|", "||", "(", "{", "!", "then", "do", "else", "if"})
_PREFIXES = frozenset({"exec", "time", "nice", "timeout", "env", "taskset", "while", "until"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_UNPRINTABLE = re.compile(r"[^\n\t\x20-\x7e\x80-\uffff]")
# A disk of the machine that a command was written on, or a part of it.
_DISK = re.compile(
    r"/dev/(?:nvme\d+n\d+(?:p\d+)?|nullb\d+|(?:sd|vd)[a-z]+\d*|dm-\d+|md\d+|ram\d+|pmem\d+)\b"
)
_SHEBANG = re.compile(rb"#![ \t]*(/\S+)")


def has_amount(text: str) -> bool:
    """Whether a command has an amount of work, $N."""
    return bool(_AMOUNT.search(text))


def fitted(text: str) -> tuple[str, list[str]]:
    """A command for a guest, which has one disk, and what was changed. Raises UsageError for what
    no guest can run.
    """
    disks = list(dict.fromkeys(_DISK.findall(text)))
    text, changes = io_uring_line.fitted(_DISK.sub("$DISK", text))
    return text, [f"the disk is named for {', '.join(disks)}"] * bool(disks) + changes


def require_text(text: str, where: str) -> None:
    """Raise UsageError for what is no command."""
    if not text.strip():
        raise UsageError("the command is empty", where=where)
    if unprintable := _UNPRINTABLE.search(text):
        raise UsageError(f"a command has no character {unprintable[0]!a}", where=where)
    if len(text.encode()) > _MOST_BYTES:
        raise UsageError(f"a command has at most {_MOST_BYTES >> 10} KiB", where=where)
    try:
        _words(text)
    except ValueError as exc:
        raise UsageError(f"not a shell command: {exc}", where=where) from exc


def files(text: str, folder: Path) -> dict[str, Path]:
    """The files of this host that a command names, from a folder, by where the guest has them; the
    programs that it calls by name lie in its /bin.

    Raises UsageError for files that are too large for a guest.
    """
    taken: dict[str, Path] = {}
    for is_program, written in _places(text):
        # As in dd if=FILE.
        word = written if is_program else written.rpartition("=")[2]
        program = which(word) if is_program and "/" not in word else None
        path = Path(program) if program else folder / word
        if path.is_file() and not word.startswith(("/dev/", "/proc/", "/sys/")):
            taken[f"/bin/{word}" if program else str(path)] = path.resolve()
            taken |= _interpreter(path)
    size = sum(path.stat().st_size for path in taken.values())
    if size > _MOST_FILES_BYTES:
        raise UsageError(
            f"the files that the command names have {size >> 20} MiB",
            hint=f"a guest takes at most {_MOST_FILES_BYTES >> 20} MiB along; make them in the "
            "guest, in --setup",
        )
    return taken


def _words(text: str) -> list[str]:
    lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    return [*lexer]


def _places(text: str) -> Iterator[tuple[bool, str]]:
    """The words of a command, and whether each is where a program stands."""
    is_program = True
    for word in _words(text):
        yield is_program, word
        separates = word in _BEFORE_PROGRAMS or set(word) <= set(";&|()")
        stays = is_program and (word in _PREFIXES or bool(_ASSIGNMENT.fullmatch(word)))
        is_program = separates or stays


def _interpreter(path: Path) -> dict[str, Path]:
    """What a script is run by."""
    with path.open("rb") as content:
        if shebang := _SHEBANG.match(content.read(256)):
            program = Path(shebang[1].decode(errors="replace"))
            return {str(program): program.resolve()} if program.is_file() else {}
    return {}
