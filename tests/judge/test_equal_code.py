# SPDX-License-Identifier: GPL-2.0-or-later
"""Two kernels do the same in a cell where no code that their guests executed differs: shown on
programs that are compiled here and lie where a kernel does.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.judge import equal_code

IMAGE, UNIT = 0xFFFFFFFF81000000, 16
BASE = """\
int depth = 16;
static int batch = 4;
__attribute__((noinline)) int init(int a) { depth += a; return batch; }
__attribute__((noinline)) int submit(int a) { return a * 3 + depth; }
__attribute__((noinline)) int merge(int a) { return a * 7 + depth; }
int _start(int a) { return init(a) + submit(a) + merge(a); }
"""
Guest = Callable[..., tuple[Any, str]]


@dataclass(frozen=True)
class BuiltKernel:
    """The files of a kernel."""

    vmlinux: Path
    system_map: Path


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    """A function: a kernel's source, and what its guest executed -> the kernel and the boot."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")

    def booted(
        source: str, functions: Collection[str], *, elsewhere: bool = False
    ) -> tuple[Any, str]:
        boot = str(len(list(tmp_path.iterdir())))
        folder = tmp_path / boot
        folder.mkdir()
        (folder / "part.c").write_text(source)
        argv = ["gcc", "-O2", "-falign-functions=16", "-nostdlib", "-static", "-no-pie"]
        argv += ["-mcmodel=kernel", "-fno-pie", "-fno-ipa-ra", f"-Wl,-Ttext={IMAGE:#x}"]
        subprocess.run([*argv, "-o", "vmlinux", "part.c"], cwd=folder, check=True)
        names = subprocess.run(["nm", "vmlinux"], cwd=folder, capture_output=True, text=True)
        (folder / "System.map").write_text(names.stdout)
        symbols = [line.split() for line in names.stdout.splitlines()]
        addresses = {name: int(address, 16) for address, _, name in symbols}
        units = sum(1 << (addresses[name] - IMAGE) // UNIT for name in functions)
        digits = f"{units:x}"[::-1]  # the first digit has the first units, the lowest bit first
        (folder / "insns").write_text(f"phase 0 1 1 1\nexecuted {elsewhere:d} {digits}\nend\n")
        kernel = BuiltKernel(folder / "vmlinux", folder / "System.map")
        return kernel, boot

    return booted


def equal(tmp_path: Path, before: tuple[Any, str], after: tuple[Any, str]) -> int:
    kernels, boots = (before[0], after[0]), ([before[1]], [after[1]])
    store: Any = SimpleNamespace(boot_folder=lambda boot: tmp_path / boot)
    return equal_code.functions(kernels, boots, store)


def changed(old: str, new: str) -> str:
    assert old in BASE
    return BASE.replace(old, new)


def test_a_change_of_what_no_guest_executed_is_none(guest: Guest, tmp_path: Path) -> None:
    other = changed("a * 7", "a * 9")
    executed = ["init", "submit"]
    assert equal(tmp_path, guest(BASE, executed), guest(other, executed)) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return a * 3", '__asm__("nop"); return a * 3'),
        ("depth += a", "depth += a + 1"),
    ],
)
def test_one_instruction_of_an_executed_function_is_a_change(
    guest: Guest, tmp_path: Path, old: str, new: str
) -> None:
    executed = ["init", "submit"]
    pair = guest(BASE, executed), guest(changed(old, new), executed)
    assert equal(tmp_path, *pair) == 0


def test_a_function_that_only_one_guest_executed_counts(guest: Guest, tmp_path: Path) -> None:
    other = changed("a * 7", "a * 9")
    assert equal(tmp_path, guest(BASE, ["init"]), guest(other, ["init", "merge"])) == 0
    assert equal(tmp_path, guest(BASE, ["init", "merge"]), guest(other, ["init"])) == 0


@pytest.mark.parametrize(("old", "new"), [("depth = 16", "depth = 17"), ("batch = 4", "batch = 5")])
def test_another_initial_value_that_may_be_used_is_a_change(
    guest: Guest, tmp_path: Path, old: str, new: str
) -> None:
    source, other = (
        text.replace("static int", "static volatile int") for text in (BASE, changed(old, new))
    )
    assert equal(tmp_path, guest(source, ["submit"]), guest(other, ["submit"])) == 0


def test_code_outside_of_the_image_proves_nothing(guest: Guest, tmp_path: Path) -> None:
    pair = guest(BASE, ["init"]), guest(BASE, ["init"], elsewhere=True)
    assert equal(tmp_path, *pair) == 0


def test_a_boot_that_does_not_tell_proves_nothing(guest: Guest, tmp_path: Path) -> None:
    pair = guest(BASE, ["init"]), guest(BASE, ["init"])
    (tmp_path / pair[1][1] / "insns").write_text("phase 0 1 1 1\nend\n")
    assert equal(tmp_path, *pair) == 0
