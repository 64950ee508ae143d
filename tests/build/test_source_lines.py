# SPDX-License-Identifier: GPL-2.0-or-later
"""From which source line instructions are, of a program that is compiled here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lab.base.process import CommandError
from lab.build import source_lines
from lab.build.source_lines import UNKNOWN, LinePlace

SOURCE = """\
static inline __attribute__((always_inline)) int twice(int *of)
{
	return *of * 2;
}

int first(int *of)
{
	*of += 5;
	return twice(of);
}

int _start(int *of)
{
	return *of;
}
"""


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A program whose objects lie below its sources, as a kernel's do."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    objects = tmp_path / "src/obj-0a1b"
    objects.mkdir(parents=True)
    (tmp_path / "src/block").mkdir()
    (tmp_path / "src/block/part.c").write_text(SOURCE)
    argv = ["gcc", "-g", "-O2", "-nostdlib", "-static", "-o", "vmlinux", "../block/part.c"]
    subprocess.run(argv, cwd=objects, check=True)
    return objects / "vmlinux"


def ranges(image: Path) -> dict[str, tuple[int, int]]:
    listed = subprocess.run(["nm", "-S", image], check=True, capture_output=True, text=True).stdout
    words = [line.split() for line in listed.splitlines()]
    return {w[3]: (int(w[0], 16), int(w[0], 16) + int(w[1], 16)) for w in words if len(w) == 4}


def test_each_instruction_has_its_line_and_what_was_inlined_its_own(built: Path) -> None:
    places = source_lines.places(built, [ranges(built)["first"]])
    assert [*places] == sorted(places)
    assert {place.line for place in places.values()} >= {8, 3}
    assert {place.file for place in places.values()} == {"block/part.c"}


def test_several_functions_are_asked_at_once(built: Path) -> None:
    both = ranges(built)
    places = source_lines.places(built, [both["_start"], both["first"]])
    assert places[both["_start"][0]] in {LinePlace("block/part.c", line) for line in (13, 14)}
    assert places.keys() > source_lines.places(built, [both["first"]]).keys()


def test_without_debug_information_no_line_is_known(built: Path) -> None:
    subprocess.run(["strip", "--strip-debug", built], check=True)
    places = source_lines.places(built, [ranges(built)["first"]])
    assert set(places.values()) == {UNKNOWN}
    assert str(UNKNOWN) == "?"


def test_what_is_no_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vmlinux").write_text("no program")
    with pytest.raises(CommandError, match="objdump"):
        source_lines.places(tmp_path / "vmlinux", [(0, 16)])
