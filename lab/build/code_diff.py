# SPDX-License-Identifier: GPL-2.0-or-later
"""Which functions and variables differ between two kernels, whatever address they have.

A change of one function moves all that is linked behind it, so calls and addresses differ nearly
everywhere. Two bodies are the same when they have the same length, and each place in which they
differ is an address of the same thing: the same offset in the same function or variable, an equal
string or constant, an equal jump table. What a function does is in its body, and in what that
refers to; so kernels without a difference execute the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lab.build.kernel_image import Image, Symbol, stem

_WORD, _LONG = 4, 8
# Addresses wrap: per-CPU variables lie at the bottom, and code at the top.
_SPACE = 2**64
# Bytes between a 32-bit displacement and the end of its instruction, from which it counts: an
# immediate operand may follow (Intel SDM, volume 2, 2.2.1.6). What is not code counts from itself.
_AFTER_CODE = (4, 5, 8, 6)
_AFTER_DATA = (0,)
# Opcodes of jumps by one byte (Intel SDM, volume 2): jmp, and those with a condition.
_SHORT_JUMPS = (0xEB, *range(0x70, 0x80))
# An anonymous constant has up to 16 bytes (.rodata.cst16), a string or a jump table more.
_CONSTANT = 16
_STRING = 4096
_ENTRIES = 4096
# Named by line numbers or counters, or made of all the rest: these differ without a difference.
_GENERATED = re.compile(
    r"__initcall_|__UNIQUE_ID_|__addressable_|__(start|stop|end)_|___?ksymtab|kallsyms_|__func__"
)
# Shorter ones could be numbers.
_TEXT = re.compile(rb"(?<=\0)[\x20-\x7e\t\n]{4,4096}(?=\0)")
_SYMBOL_TABLE = "kallsyms_"
# How gcc calls pieces and clones of a function.
_PIECE = "."


@dataclass(frozen=True)
class CodeDiff:
    """The functions whose code differs, or that only one kernel has, and the variables whose
    initial values or sizes do. Pieces and clones of a function count as that function.

    neighbours are the functions of the source files to which a variable is local whose value
    differs: what may use it. values are the variables of both kernels whose initial value or size
    differs. texts are the strings that only one kernel has.
    """

    functions: frozenset[str]
    variables: frozenset[str] = frozenset()
    neighbours: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether both kernels execute the same code on the same data; texts that they print may
        differ.
        """
        return not (self.functions or self.variables)


def compare(before: Path, after: Path) -> CodeDiff:
    """What differs between two files of the kind vmlinux. Raises BuildError for other files."""
    if before.read_bytes() == after.read_bytes():
        return CodeDiff(frozenset())
    images = Image(before), Image(after)
    old, new = (_by_name(image.symbols) for image in images)
    comparison = _Comparison(*images)
    differing = [
        key
        for key in old.keys() | new.keys()
        if not comparison.are_equal(old.get(key, ()), new.get(key, ()))
    ]
    values = [key for key in differing if not key[2] and key in old and key in new]
    files = {file for file, _, _ in values if file}
    tables = [_tables(image) for image in images]
    switched = {name for name in tables[0] if tables[1].get(name) not in (None, tables[0][name])}
    return CodeDiff(
        frozenset(function(name) for _, name, is_function in differing if is_function) | switched,
        frozenset(name for _, name, is_function in differing if not is_function),
        frozenset(function(name) for file, name, is_code in old if is_code and file in files),
        frozenset(name for _, name, _ in values),
        _texts(images[0]) ^ _texts(images[1]),
    )


def function(name: str) -> str:
    """The function that a symbol is a piece or a clone of, or is itself."""
    return name.partition(_PIECE)[0]


_Key = tuple[str, str, bool]


def _by_name(symbols: Sequence[Symbol]) -> Mapping[_Key, list[Symbol]]:
    groups: dict[_Key, list[Symbol]] = {}
    for symbol in sorted(symbols, key=lambda symbol: symbol.address):
        if not _GENERATED.match(symbol.name):
            key = symbol.file, stem(symbol.name), symbol.is_function
            groups.setdefault(key, []).append(symbol)
    return groups


def _tables(image: Image) -> dict[str, list[int]]:
    """The entries of jump tables by function, as offsets into it, in the order of the image: a
    table that stays in its place can change without any byte of its function.
    """
    entries: dict[str, list[int]] = {}
    low, high = image.code
    for start, content in image.constants:
        skipped = -start % _LONG
        whole = content[skipped : len(content) - (len(content) - skipped) % _LONG]
        words = np.frombuffer(whole, np.uint64)
        for address in words[(words > low) & (words < high)].tolist():
            place = image.place(address)
            if place and place[1]:  # not where a function begins
                entries.setdefault(function(place[0]), []).append(place[1])
    return entries


def _texts(image: Image) -> frozenset[str]:
    """The strings that are no variable's: those that the code of functions names."""
    texts = set()
    for start, content in image.constants:
        for match in _TEXT.finditer(content):
            address = start + match.start()
            if image.place(address) is None and not image.follows(address, _SYMBOL_TABLE):
                texts.add(match[0].decode())
    return frozenset(texts)


class _Comparison:
    """Compares what two images have under one name."""

    def __init__(self, before: Image, after: Image) -> None:
        self._before = before
        self._after = after

    def are_equal(self, before: Sequence[Symbol], after: Sequence[Symbol]) -> bool:
        """Whether symbols of one name are the same, one by one."""
        return len(before) == len(after) and all(map(self._is_equal, before, after))

    def _is_equal(self, before: Symbol, after: Symbol) -> bool:
        if before.size != after.size:
            return False
        old = self._before.bytes_at(before.address, before.size)
        new = self._after.bytes_at(after.address, after.size)
        if old is None or new is None or old == new:
            return old == new
        differing = np.nonzero(np.frombuffer(old, np.uint8) != np.frombuffer(new, np.uint8))[0]
        explained = 0  # all before this place is the same
        for place in differing.tolist():
            if place < explained:
                continue
            explained = self._explained(before, after, old, new, place)
            if not explained:
                return False
        return True

    def _explained(self, before: Symbol, after: Symbol, old: bytes, new: bytes, place: int) -> int:
        """Where an address ends that is in this place and means the same in both; 0 if none is."""
        for start, size, targets in _addresses(before, after, old, new, place):
            if self._same(*targets, before, after):
                return start + size
        return 0

    def _same(self, old: int, new: int, before: Symbol, after: Symbol) -> bool:
        """Whether two addresses, which bodies refer to, are those of the same thing."""
        if self._before.names_at(old) & self._after.names_at(new):
            return True
        places = self._before.place(old), self._after.place(new)
        if places[0] is not None or places[1] is not None:
            return places[0] == places[1]
        # A jump table is the same when it has the same offsets into its function.
        table = list(_entries(self._before, old, before))
        same_table = bool(table) and table == list(_entries(self._after, new, after))[: len(table)]
        constants = self._before.bytes_at(old, _CONSTANT), self._after.bytes_at(new, _CONSTANT)
        if constants[0] is not None and constants[0] == constants[1]:
            return not table or same_table
        strings = self._before.string_at(old, _STRING), self._after.string_at(new, _STRING)
        if strings[0] is None or strings[0] != strings[1]:
            return same_table
        return bool(strings[0]) or self._ends_string(old, new)

    def _ends_string(self, old: int, new: int) -> bool:
        """Whether two NULs are the ends of strings: then both are empty strings."""
        last = self._before.bytes_at(old - 1, 1), self._after.bytes_at(new - 1, 1)
        return all(byte is not None and (byte == b"\0" or byte.isascii()) for byte in last)


def _entries(image: Image, address: int, symbol: Symbol) -> Iterator[int]:
    """The offsets into a function that a jump table of it has."""
    for entry in range(_ENTRIES):
        word = image.bytes_at(address + _LONG * entry, _LONG)
        offset = int.from_bytes(word, "little") - symbol.address if word else -1
        if not 0 <= offset < symbol.size:
            return
        yield offset


def _addresses(
    before: Symbol, after: Symbol, old: bytes, new: bytes, place: int
) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Where addresses could be that have a byte in this place, how long, and to what they go."""
    if before.is_function and place and all(b[place - 1] in _SHORT_JUMPS for b in (old, new)):
        jumps = [_signed(body, place, 1) for body in (old, new)]
        ends = before.address + place + 1, after.address + place + 1
        yield place, 1, (ends[0] + jumps[0], ends[1] + jumps[1])
    for start in range(place, max(-1, place - _LONG), -1):
        if start > place - _WORD and start + _WORD <= len(old):
            old_offset, new_offset = (_signed(body, start, _WORD) for body in (old, new))
            for after_it in _AFTER_CODE if before.is_function else _AFTER_DATA:
                end = start + after_it
                targets = before.address + end + old_offset, after.address + end + new_offset
                yield start, _WORD, (targets[0] % _SPACE, targets[1] % _SPACE)
            yield start, _WORD, (old_offset % _SPACE, new_offset % _SPACE)
        if start + _LONG <= len(old):
            pair = tuple(int.from_bytes(b[start : start + _LONG], "little") for b in (old, new))
            yield start, _LONG, (pair[0], pair[1])


def _signed(body: bytes, start: int, size: int) -> int:
    return int.from_bytes(body[start : start + size], "little", signed=True)
