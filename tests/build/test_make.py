# SPDX-License-Identifier: GPL-2.0-or-later
"""Mistakes in a source, told from a host that took a compiler its memory or its disk."""

from __future__ import annotations

import pytest

from lab.build import make


@pytest.mark.parametrize(
    "said",
    [
        "block/bfq.c:12:3: error: expected ';' before 'return'",
        "block/bfq.c:3:10: fatal error: linux/nowhere.h: No such file or directory",
        "ld: block/bfq.o: undefined reference to `foo'",
        "ld: a.o:(.data+0x0): multiple definition of `foo'; b.o:(.data+0x0): first defined here",
        "block/Kconfig:12: syntax error",
        "make[3]: *** No rule to make target 'block/x.o', needed by 'built-in.a'.  Stop.",
        "block/Makefile:3: *** missing separator.  Stop.",
    ],
)
def test_a_tool_that_names_a_mistake_blames_the_source(said: str) -> None:
    rest = "make[2]: *** [scripts/Makefile.build:229: block/bfq.o] Error 1"
    assert make.blames_source(f"  CC block/bfq.o\n{said}\n{rest}\n")
    assert said in make.failures(f"  CC block/bfq.o\n{said}\n")


@pytest.mark.parametrize(
    "said",
    [
        "gcc: fatal error: Killed signal terminated program cc1",
        "block/bfq.c:12:3: internal compiler error: Segmentation fault",
        "cc1: out of memory allocating 65536 bytes after a total of 1 bytes",
        "block/bfq.c:1: fatal error: error writing to /tmp/x.s: No space left on device",
        "gcc: fatal error: cannot execute 'cc1': posix_spawnp: No such file or directory",
        "/bin/sh: 1: gcc: not found",
        "make[2]: *** [scripts/Makefile.build:229: block/bfq.o] Killed",
        "make: *** [Makefile:1: vmlinux] Error 137",
        "",
    ],
)
def test_a_tool_that_was_taken_something_blames_nobody(said: str) -> None:
    assert not make.blames_source(f"  CC block/bfq.o\n{said}\n")
