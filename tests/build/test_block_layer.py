# SPDX-License-Identifier: GPL-2.0-or-later
"""Which functions belong to the block layer: those of its folders, by what was compiled."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.build import block_layer


def compiled(objects: Path, name: str, text: str) -> Path:
    """An object file of a C source."""
    source, made = objects / f"{name}.c", objects / f"{name}.o"
    made.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(text)
    subprocess.run(["gcc", "-c", "-o", made, source], check=True)
    return made


def archived(objects: Path, folder: str, *members: Path) -> None:
    """A folder's built-in.a as Kbuild makes it: thin, with the objects of folders below."""
    names = [str(member.relative_to(objects)) for member in members]
    archive = ["ar", "cDPrST", f"{folder}/built-in.a", *names]
    subprocess.run(archive, cwd=objects, check=True)


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    """The objects of a kernel with a block layer and another folder."""
    bio = compiled(
        tmp_path, "block/bio", "int x; static int y(void) {return 1;} int a(void) {return y();}"
    )
    nvme = compiled(tmp_path, "drivers/nvme/host/pci", "int queue_rq(void) {return 2;}")
    weak = compiled(tmp_path, "block/sub/part", "__attribute__((weak)) int weak(void) {return 3;}")
    archived(tmp_path, "block", bio, weak)
    archived(tmp_path, "drivers/nvme", nvme)
    compiled(tmp_path, "lib/sbitmap", "int sbitmap_get(void) {return 4;}")
    compiled(tmp_path, "lib/sort", "int sort(void) {return 5;}")
    archived(tmp_path, "lib", *(tmp_path / f"lib/{name}.o" for name in ("sbitmap", "sort")))
    return tmp_path


def test_functions_of_its_folders_and_files_are_the_block_layers(objects: Path) -> None:
    assert block_layer.functions(objects) == ["a", "queue_rq", "sbitmap_get", "weak", "y"]


def test_a_kernel_without_any_of_them_has_no_block_layer(tmp_path: Path) -> None:
    assert block_layer.functions(tmp_path) == []


REFERENCE, ITS_SYMBOLS = {"submit_bio", "blk_run"}, {"submit_bio", "blk_run", "kfree", "pick"}


@pytest.mark.parametrize(
    ("listed", "symbols", "expected"),
    [
        (set(), {"submit_bio", "kfree"}, {"submit_bio"}),
        ({"kfree"}, {"submit_bio", "kfree"}, {"submit_bio"}),
        (set(), {"blk_run.isra.0", "blk_run.cold"}, {"blk_run.isra.0", "blk_run.cold"}),
        ({"pick.part.0"}, {"pick.part.0"}, set()),
        ({"blk_new"}, {"blk_new", "mm_new"}, {"blk_new"}),
        ({"gone"}, {"kfree"}, set()),
    ],
)
def test_the_reference_decides_of_what_it_has_and_the_kernel_of_what_is_new(
    listed: set[str], symbols: set[str], expected: set[str]
) -> None:
    assert block_layer.beside(REFERENCE, ITS_SYMBOLS, listed, symbols) == expected


def test_beside_itself_a_kernel_has_its_own_list() -> None:
    """Also where a name of the list and one beside it are parts of functions of one name."""
    symbols, listed = {"init.isra.0", "init", "blk_run"}, {"init.isra.0", "blk_run"}
    assert block_layer.beside(listed, symbols, listed, symbols) == listed


def test_the_functions_of_a_kernel_are_the_code_of_its_system_map(tmp_path: Path) -> None:
    path = tmp_path / "System.map"
    path.write_text("81000000 T a\n81000010 t b.cold\n81000020 d data\n81000030 W weak\nbroken\n")
    assert block_layer.symbols(path) == {"a", "b.cold", "weak"}
