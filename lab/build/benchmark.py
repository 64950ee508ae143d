# SPDX-License-Identifier: GPL-2.0-or-later
"""The benchmark of cache lines, atomic operations and locks, compiled at first use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.base import cache
from lab.base.process import run
from lab.base.system import PACKAGE

_SOURCE = PACKAGE / "build/primitives"
# Static, for it runs on this machine and in a guest without libraries.
_FLAGS = ("-O2", "-static", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wl,--build-id=none")


@dataclass(frozen=True)
class Benchmark:
    """The compiled benchmark; it calls the function at the address marker before and after all."""

    program: Path
    marker: int


def compiled() -> Benchmark:
    """The benchmark, compiled. Raises CommandError when the compiler fails."""
    files = sorted(_SOURCE.iterdir())
    folder = cache.root() / "benchmarks" / cache.key(*map(cache.file_hash, files), _FLAGS)
    program = folder / "primitives"
    if not cache.whole(folder):
        sources = [str(file) for file in files if file.suffix == ".c"]
        with cache.building(folder) as making:
            run(["gcc", *_FLAGS, "-o", str(making / program.name), *sources])
    symbols = run(["nm", str(program)]).output.splitlines()
    address = next(line.split()[0] for line in symbols if line.endswith(" T marker"))
    return Benchmark(program, int(address, 16))
