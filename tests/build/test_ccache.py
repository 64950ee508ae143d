# SPDX-License-Identifier: GPL-2.0-or-later
"""What ccache gives is what the compiler would: for all that a source is made of."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lab.base.process import run
from lab.build.make import Make

MAKEFILE = """
all: included.o taken.o
%.o: %.c
\t$(CC) -Wp,-MMD,$(O)/$@.d -c -o $(O)/$@ $<
%.o: %.S
\t$(CC) $(KAFLAGS) -Wp,-MMD,$(O)/$@.d -c -o $(O)/$@ $<
"""


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A make of a C file with a header, and of an assembler file that takes in another one."""
    source = tmp_path / "src"
    source.mkdir()
    (source / "Makefile").write_text(MAKEFILE)
    (source / "included.c").write_text('#include "own.h"\nconst char text[] = TEXT;\n')
    (source / "taken.S").write_text('.section .rodata\n.incbin "taken.bin"\n')
    return Make(source, source / "obj", tmp_path / "scratch", tmp_path / "ccache", keeps=True)


@pytest.mark.skipif(not shutil.which("ccache"), reason="without ccache nothing is cached")
def test_a_changed_header_and_a_changed_file_taken_in_are_noticed(
    make: Make, tmp_path: Path
) -> None:
    # The first build of all is compiled without ccache, so that its text is not kept.
    for text in ("first text", "second text", "first text", "second text"):
        (make.source / "own.h").write_text(f'#define TEXT "{text}"\n')
        (make.source / "taken.bin").write_text(text)
        make.run(["all"], tmp_path / "log", "build")
        for name in ("included.o", "taken.o"):
            assert text.encode() in (make.objects / name).read_bytes()
        (make.objects / "vmlinux").touch()
    statistics = run(["ccache", "--print-stats"], env={"CCACHE_DIR": str(make.ccache)}).output
    counts = dict(line.split("\t") for line in statistics.splitlines())
    assert counts["direct_cache_hit"] == "1"
    assert counts["cache_miss"] == "2"
