# SPDX-License-Identifier: GPL-2.0-or-later
"""The shared libraries of the guest's programs, with stubs for those that are never called there.

A distribution's fio is linked with the libraries of every storage service that it can talk to:
Ceph, Gluster, RDMA and what these need, 75 MiB in all. The guest would unpack them at every boot
and relocate them at every start of fio, 48 M instructions each time
(docs/notes/2026-11-measuring.md).
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from lab.base import cache
from lab.base.errors import LabError
from lab.base.process import run

LOADER = "ld-linux-x86-64.so.2"
_LOADED = re.compile(r"(?:=> )?(/\S+) \(0x")
_NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")
# What a guest's programs do call: the C library and what local I/O takes.
_CALLED = re.compile(r"(lib(c|m|z|aio|numa|dl|rt|pthread|uring)\.so|libaio|ld-linux)")


def loaded(program: Path) -> dict[str, Path]:
    """All libraries that a program or library loads: their files, by the names it asks for."""
    lines = run(["ldd", str(program)]).output.splitlines()
    paths = [Path(match[1]) for line in lines if (match := _LOADED.search(line))]
    return {path.name: path.resolve() for path in paths}


def called(program: Path) -> dict[str, Path]:
    """The same, with one stub in place of all libraries that local I/O never calls.

    Without stubs where there is no compiler, or where the program uses data of such a library and
    does not start with its functions alone.
    """
    every = loaded(program)
    needed = _NEEDED.findall(run(["readelf", "-dW", str(program)]).output)
    kept = {name: path for name, path in every.items() if name == LOADER}
    for name in filter(_CALLED.match, needed):
        kept |= {name: every[name], **loaded(every[name])}
    unused = [name for name in needed if not _CALLED.match(name)]
    try:
        stub = _stub(program, kept)
        lean = {**kept, **dict.fromkeys(unused, stub)}
        _require_start(program, lean)
    except LabError:
        return every
    return lean


def _stub(program: Path, kept: dict[str, Path]) -> Path:
    """A library with every function that a program needs and no kept library has; calling one of
    them ends the program by an illegal instruction.
    """
    there = {name for path in kept.values() for name, _ in _symbols(path, "--defined-only")}
    missing = [symbol for symbol in _symbols(program, "--undefined-only") if symbol[0] not in there]
    labels = "".join(f".globl {name}\n.type {name}, @function\n{name}:\n" for name, _ in missing)
    source = f'.text\n{labels}ud2\n.section .note.GNU-stack,"",@progbits\n'
    # The dynamic linker asks for the version that a program was linked with.
    by_version: dict[str, list[str]] = {}
    for name, version in missing:
        if version:
            by_version.setdefault(version, []).append(name)
    versions = "".join(
        f"{version} {{ {'; '.join(by_version[version])}; }};\n" for version in by_version
    )
    folder = cache.root() / "stubs" / cache.key(source, versions)
    if not cache.whole(folder):
        with cache.building(folder) as making:
            (making / "versions").write_text(versions or "{ *; };\n")
            flags = ["-shared", "-nostdlib", f"-Wl,--version-script={making / 'versions'}"]
            command = ["gcc", *flags, "-Wl,--build-id=none", "-x", "assembler", "-"]
            run([*command, "-o", str(making / "stub.so")], stdin=source)
    return folder / "stub.so"


def _symbols(path: Path, which: str) -> tuple[tuple[str, str], ...]:
    """A file's dynamic symbols, each with its version or nothing; weak ones may be missing."""
    return _symbols_of(path, which, cache.file_hash(path))


@functools.cache
def _symbols_of(path: Path, which: str, _content: str) -> tuple[tuple[str, str], ...]:
    """The same, read once for each content: a guest root is asked for by each of a run's cells."""
    lines = run(["nm", "-D", which, str(path)]).output.splitlines()
    words = [line.split() for line in lines]
    names = sorted({fields[-1].replace("@@", "@") for fields in words if fields[-2] not in "wv"})
    parts = (symbol.partition("@") for symbol in names)
    return tuple((name, version) for name, _, version in parts)


def _require_start(program: Path, libraries: dict[str, Path]) -> None:
    """Raise LabError when a program does not start with the given libraries and no others."""
    folder = cache.root() / "stubs" / cache.key(sorted(map(str, libraries.items())))
    if not cache.whole(folder):
        with cache.building(folder) as making:
            for name, path in libraries.items():
                (making / name).symlink_to(path)
            paths = ["--inhibit-cache", "--library-path", str(making)]
            run([str(making / LOADER), *paths, str(program), "--version"])
