# SPDX-License-Identifier: GPL-2.0-or-later
"""Which functions differ, in programs that are compiled here: what only moved does not."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.base.errors import BuildError
from lab.build import code_diff
from lab.build.code_diff import CodeDiff

BASE = """\
int calls;
static int limit = 16;
static const char *names[] = { "read", "write" };
static __attribute__((noinline)) int early(int a) { calls++; return a * 3; }
__attribute__((noinline)) const char *name(int a) { return a ? names[0] : "none"; }
__attribute__((noinline)) int choose(int a)
{
	switch (a) {
	case 0: return calls;
	case 1: return early(a) + 1;
	case 2: return calls + 7;
	case 3: return early(a + 1) + 1;
	case 4: return calls - limit;
	case 5: return early(a + 9) + 1;
	default: return 0;
	}
}
int _start(int a) { limit += a; return early(a) + choose(a) + name(a)[0]; }
"""
Compiler = Callable[[str], Path]


@pytest.fixture
def compiled(tmp_path: Path) -> Compiler:
    """A function that makes a program of a source."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")

    def make(source: str) -> Path:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / "part.c").write_text(source)
        argv = ["gcc", "-O2", "-fno-reorder-functions", "-fno-toplevel-reorder", "-nostdlib"]
        argv += ["-fno-ipa-ra", "-static", "-no-pie", "-fno-pie", "-o", "vmlinux", "part.c"]
        subprocess.run(argv, cwd=folder, check=True)
        return folder / "vmlinux"

    return make


def differing(compiled: Compiler, *changes: tuple[str, str]) -> CodeDiff:
    changed = BASE
    for old, new in changes:
        assert old in changed
        changed = changed.replace(old, new)
    return code_diff.compare(compiled(BASE), compiled(changed))


def test_the_same_source_and_comments_make_no_difference(compiled: Compiler) -> None:
    assert differing(compiled).is_empty
    assert differing(compiled, ("int calls;", "/* how often */\n\nint calls;")).is_empty


def test_what_only_moves_does_not_differ(compiled: Compiler) -> None:
    difference = differing(compiled, ("return a * 3;", '__asm__(".skip 32, 0x90"); return a * 3;'))
    assert difference.functions == {"early"}
    assert not difference.variables


def test_an_operand_that_is_no_address_differs(compiled: Compiler) -> None:
    difference = differing(compiled, ("calls + 7", "calls + 8"), ("a * 3", "a * 5 + 1000"))
    assert difference.functions == {"early", "choose"}


def test_a_call_of_another_function_differs(compiled: Compiler) -> None:
    function = "__attribute__((noinline)) int late(int a) { calls++; return a * 3; }\n"
    difference = differing(
        compiled, ("int _start", f"{function}int _start"), ("early(a + 9)", "late(a + 9)")
    )
    assert difference.functions >= {"late", "choose"}


def test_another_string_differs_and_one_that_only_moved_does_not(compiled: Compiler) -> None:
    difference = differing(compiled, ('"none"', '"nope"'))
    assert difference.texts == {"none", "nope"}
    assert difference.is_empty
    # A string that is longer than what the others follow moves them.
    moved = 'const char *more(void) { return "all that comes first moves the others"; }\n'
    difference = differing(compiled, ("int calls;", f"int calls;\n{moved}"))
    assert difference.functions == {"more"}


def test_an_initial_value_differs_and_names_who_may_use_it(compiled: Compiler) -> None:
    difference = differing(compiled, ("limit = 16", "limit = 17"))
    assert difference.variables == {"limit"}
    assert not difference.functions
    assert not difference.is_empty
    assert {"choose", "early"} <= difference.neighbours


def test_a_table_of_pointers_differs_by_what_it_points_to(compiled: Compiler) -> None:
    difference = differing(compiled, ('"read", "write"', '"write", "read"'))
    assert difference.variables == {"names"}


@pytest.mark.parametrize(
    ("name", "family"),
    [("f", "f"), ("f.cold", "f"), ("f.isra.0", "f"), ("f.constprop.3.cold", "f")],
)
def test_pieces_and_clones_count_as_their_function(name: str, family: str) -> None:
    assert code_diff.function(name) == family


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01" + bytes(8), b"no program"])
def test_what_is_no_kernel_image_is_refused(tmp_path: Path, content: bytes) -> None:
    image, other_image = tmp_path / "one", tmp_path / "other"
    image.write_bytes(content)
    other_image.write_bytes(content + b"x")
    with pytest.raises(BuildError, match="not a kernel image") as caught:
        code_diff.compare(image, other_image)
    assert caught.value.where == str(image)
