# SPDX-License-Identifier: GPL-2.0-or-later
"""The ELF file of a kernel (vmlinux): its symbols, and the bytes at an address.

A build with somebody else's makefiles wrote the file, so nothing in it is believed: what does not
fit together is a BuildError.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lab.base.errors import BuildError

# Names and layouts are those of the ELF specification (gABI, chapter 4).
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_MAGIC = b"\x7fELF\x02\x01"
_SHT_PROGBITS, _SHT_SYMTAB, _SHT_NOBITS = 1, 2, 8
_CONSTANTS = b".rodata"
_SHF_ALLOC, _SHF_EXECINSTR = 2, 4
# As KSYM_NAME_LEN of include/linux/kallsyms.h.
_LONGEST_NAME = 513
_NOTYPE, _OBJECT, _FUNC, _FILE = 0, 1, 2, 4


@dataclass(frozen=True)
class Symbol:
    """A function or a variable: its name, the source file that a local one is from (else empty),
    its address and its size in bytes.
    """

    name: str
    file: str
    address: int
    size: int
    is_function: bool


@dataclass(frozen=True)
class _Section:
    address: int
    size: int
    offset: int
    stored: bool
    executable: bool
    constant: bool

    @property
    def end(self) -> int:
        return self.address + self.size


class Image:
    """A vmlinux, read once. Raises BuildError for a file that is none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._content = path.read_bytes()
        try:
            self._sections, self.symbols, self._labels = self._read()
        except (struct.error, ValueError, IndexError) as exc:
            raise BuildError(f"not a kernel image: {exc}", where=str(path)) from exc
        self._starts = [section.address for section in self._sections]

    def bytes_at(self, address: int, size: int) -> bytes | None:
        """What the file has at an address; None where it holds nothing (.bss), or not so much."""
        section = self._section(address)
        if section is None or not section.stored or size < 0 or address + size > section.end:
            return None
        start = section.offset + address - section.address
        content = self._content[start : start + size]
        return content if len(content) == size else None

    def string_at(self, address: int, most: int) -> bytes | None:
        """The bytes from an address up to a NUL, at most so many; None where nothing is stored."""
        section = self._section(address)
        if section is None:
            return None
        content = self.bytes_at(address, min(most, section.end - address))
        return None if content is None else content.partition(b"\0")[0]

    def place(self, address: int) -> tuple[str, int] | None:
        """The symbol that an address lies in, and how far in; None for what has no name. In code
        that is the nearest symbol before it; a variable has to reach as far.
        """
        section = self._section(address)
        if section is None:
            return None
        addresses, ends, names = self._table
        index = bisect_right(addresses, address) - 1
        if index < 0 or (address >= ends[index] and not section.executable):
            return None
        return names[index], address - addresses[index]

    @property
    def constants(self) -> list[tuple[int, bytes]]:
        """The sections .rodata: where each begins, and its bytes."""
        return [
            (section.address, self._content[section.offset : section.offset + section.size])
            for section in self._sections
            if section.stored and section.constant
        ]

    @property
    def code(self) -> tuple[int, int]:
        """Where the code begins, and where it ends."""
        code = [section for section in self._sections if section.executable]
        begin = min((section.address for section in code), default=0)
        return begin, max((section.end for section in code), default=0)

    def follows(self, address: int, prefix: str) -> bool:
        """Whether the nearest symbol before an address has a name that begins so."""
        addresses, _, names = self._table
        index = bisect_right(addresses, address) - 1
        return index >= 0 and names[index].startswith(prefix)

    def names_at(self, address: int) -> frozenset[str]:
        """The symbols that begin at an address, such as what the linker defines at the ends of
        tables, which lie in no section.
        """
        return self._names.get(address, frozenset())

    @cached_property
    def _names(self) -> dict[int, frozenset[str]]:
        by_address: dict[int, set[str]] = {}
        for label in self._labels:
            by_address.setdefault(label.address, set()).add(stem(label.name))
        return {address: frozenset(names) for address, names in by_address.items()}

    @cached_property
    def _table(self) -> tuple[list[int], list[int], list[str]]:
        """Addresses, ends and names of what an address can lie in, one for each address."""
        by_address: dict[int, tuple[int, str]] = {}
        for label in sorted(self._labels, key=lambda label: (label.size == 0, label.name)):
            by_address.setdefault(
                label.address, (label.address + max(label.size, 1), stem(label.name))
            )
        ordered = sorted(by_address.items())
        ends, names = [end for _, (end, _) in ordered], [name for _, (_, name) in ordered]
        return [address for address, _ in ordered], ends, names

    def _section(self, address: int) -> _Section | None:
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        section = self._sections[index]
        return section if address < section.end else None

    def _read(self) -> tuple[list[_Section], list[Symbol], list[Symbol]]:
        content = self._content
        if content[:6] != _MAGIC:
            raise ValueError("no 64-bit ELF file")
        header = _HEADER.unpack_from(content)
        start, size, count = header[6], header[11], header[12]
        if size != _SECTION.size:
            raise ValueError("sections of another size")
        raw = [_SECTION.unpack_from(content, start + size * place) for place in range(count)]
        titles = raw[header[13]][4]
        sections = [
            _Section(
                fields[3],
                fields[5],
                fields[4],
                fields[1] == _SHT_PROGBITS,
                bool(fields[2] & _SHF_EXECINSTR),
                content.startswith(_CONSTANTS, titles + fields[0]),
            )
            for fields in raw
            if fields[2] & _SHF_ALLOC and fields[1] in (_SHT_PROGBITS, _SHT_NOBITS) and fields[5]
        ]
        (table,) = (fields for fields in raw if fields[1] == _SHT_SYMTAB)
        names = raw[table[6]]
        strings = content[names[4] : names[4] + names[5]]
        symbols = list(_symbols(content[table[4] : table[4] + table[5]], strings))
        return (
            sorted(sections, key=lambda section: section.address),
            [symbol for symbol, kind in symbols if kind in (_OBJECT, _FUNC) and symbol.size],
            [symbol for symbol, _ in symbols],
        )


def stem(name: str) -> str:
    """A symbol's name without the numbers that gcc appends: ``__key.7`` and ``__key.8`` are
    variables of one name, and so are ``f.isra.0`` and ``f.isra.1``.
    """
    head, *rest = name.split(".")
    return ".".join([head, *(part for part in rest if not part.isdigit())])


def _symbols(table: bytes, strings: bytes) -> Iterator[tuple[Symbol, int]]:
    """Functions, variables and labels, with their kind, in the order of the file."""
    file = ""
    for name, info, _, section, address, size in _SYMBOL.iter_unpack(table):
        kind, is_local = info & 15, info >> 4 == 0
        if not name:
            continue
        end = strings.index(b"\0", name, name + _LONGEST_NAME)
        text = strings[name:end].decode(errors="replace")
        if kind == _FILE:
            file = text
        elif kind in (_NOTYPE, _OBJECT, _FUNC) and section and not text.startswith("__pfx_"):
            yield Symbol(text, file if is_local else "", address, size, kind == _FUNC), kind
