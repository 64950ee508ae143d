# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels: built once for each id, and a cache that no failed or killed build can spoil.

The kernel here is the fake one of conftest.py: real make, real git, no compiler.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.base import cache, sandbox
from lab.base.errors import BuildError, LabError
from lab.base.process import run
from lab.base.sandbox import Mode
from lab.build import kernel, patching
from lab.build.kernel import Kernel

MakePatch = Callable[..., Path]
Build = Callable[..., Kernel]


pytestmark = pytest.mark.usefixtures("fragments")


def logs() -> dict[str, tuple[int, str]]:
    """Every log of a make run: when it was written, and its text."""
    paths = (cache.root() / "logs").glob("build-*.log")
    return {path.name: (path.stat().st_mtime_ns, path.read_text()) for path in paths}


def object_folder() -> Path:
    (folder,) = cache.root().glob("workbench/*/src/obj-*")
    return folder


@pytest.fixture
def seven(make_patch: MakePatch) -> Path:
    """A patch of the fake kernel's code."""
    return make_patch("1.patch", "block/bfq.c", ("int bfq_7;", "int seven;"))


def test_a_build_leaves_image_symbols_and_configuration_in_the_cache(build: Build) -> None:
    built = build()
    assert sorted(os.listdir(built.folder)) == [
        *("System.map", "block-layer", "config", "kernel.json", "sums", "vmlinux")
    ]
    assert "int bfq_1;" in built.vmlinux.read_text()
    assert (built.folder / "config").read_text() == "CONFIG_BLOCK=y\nCONFIG_SMP=y\n"
    assert built.release == "0.1.0"
    assert built.fragments == ("base", "block")
    assert "ld" in built.toolchain.lower()


def test_a_second_build_is_found_in_the_cache_and_needs_no_workbench(build: Build) -> None:
    first = build()
    before = logs()
    shutil.rmtree(cache.root() / "workbench")
    assert build() == first == kernel.find(first.id)
    assert logs() == before
    assert not (cache.root() / "workbench").exists()


def test_each_content_of_a_patch_makes_another_kernel_and_going_back_builds_nothing(
    build: Build, make_patch: MakePatch
) -> None:
    plain = build()
    seven, eight = (
        build(make_patch("1.patch", "block/bfq.c", ("int bfq_7;", new)))
        for new in ("int seven;", "int eight;")
    )
    assert len({plain.id, seven.id, eight.id}) == 3
    assert "int eight;" in eight.vmlinux.read_text()
    assert "int bfq_7;" not in eight.vmlinux.read_text()
    before = logs()
    assert build() == plain
    assert logs() == before


def test_a_file_that_a_patch_added_is_gone_without_the_patch(build: Build, tmp_path: Path) -> None:
    patch = tmp_path / "new.patch"
    patch.write_text("--- /dev/null\n+++ b/block/new.c\n@@ -0,0 +1 @@\n+int added;\n")
    build(patch)
    source = object_folder().parent
    assert (source / "block/new.c").exists()
    build(fragments=("base",))
    assert not (source / "block/new.c").exists()


def test_other_options_make_another_kernel_and_equal_ones_the_same(build: Build) -> None:
    both = build()
    assert build(fragments=("base",)).id != both.id
    assert build(fragments=("block", "base")).id == both.id


@pytest.mark.parametrize(
    ("name", "value"), [("KCFLAGS", "-O0"), ("MAKEFLAGS", " -- PROFILE=paper")]
)
def test_the_users_environment_does_not_reach_the_kernel(
    build: Build, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert build().vmlinux.read_text().endswith("flags  \n")


def test_a_build_that_fails_shows_the_compilers_error_and_spoils_nothing(
    build: Build, make_patch: MakePatch
) -> None:
    bad = make_patch("bad.patch", "block/bfq.c", ("int bfq_7;", "SYNTAX_ERROR"))
    for _ in range(2):
        with pytest.raises(BuildError) as caught:
            build(bad)
        assert "block/bfq.c:1:1: error: expected ';'" in caught.value.what
        log = Path(caught.value.where)
        assert log.is_relative_to(cache.root())
        assert "  CC      block/bfq.o" in log.read_text()
    assert not list(cache.root().glob("kernels/*"))
    good = build()
    assert "SYNTAX_ERROR" not in good.vmlinux.read_text()
    assert list(cache.root().glob("kernels/*")) == [good.folder]


def test_a_full_disk_in_the_build_is_told_as_such(build: Build, make_patch: MakePatch) -> None:
    full = make_patch("full.patch", "block/bfq.c", ("int bfq_7;", "DISK_FULL"))
    with pytest.raises(LabError, match=r"^no space left on the disk"):
        build(full)
    assert build().vmlinux.exists()


def test_a_lost_option_names_its_line_in_the_fragment(build: Build, fragments: Path) -> None:
    with pytest.raises(BuildError, match=r"^2 kernel option") as caught:
        build(fragments=("base", "lost"))
    assert [line.strip() for line in caught.value.where.splitlines()] == [
        f"{fragments}/lost.config:3: CONFIG_NEEDS_MISSING=y: a dependency is not met",
        f"{fragments}/lost.config:4: CONFIG_TYPO=y: this kernel has no such option",
    ]
    assert not list(cache.root().glob("kernels/*"))
    assert build().vmlinux.exists()


def test_an_option_declared_by_menuconfig_is_not_called_unknown(
    build: Build, fragments: Path
) -> None:
    (fragments / "menu.config").write_text("CONFIG_BLOCK_MENU=y\n")
    with pytest.raises(BuildError) as caught:
        build(fragments=("menu",))
    assert caught.value.where.endswith("a dependency is not met")


def test_a_killed_builds_newest_files_are_not_trusted(
    build: Build, make_patch: MakePatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patching, "is_foreign", lambda _: False)
    build()
    objects = object_folder()
    old = objects / "block/old.o"
    half = objects / "block/bfq.o"
    old.touch()
    os.utime(old, (time.time() - 1000,) * 2)
    before = half.stat().st_mtime_ns

    def interrupt_when_half_done() -> None:
        for _ in range(500):
            if half.stat().st_mtime_ns != before:
                os.kill(os.getpid(), signal.SIGINT)
                return
            time.sleep(0.02)

    thread = threading.Thread(target=interrupt_when_half_done, daemon=True)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        build(make_patch("slow.patch", "block/bfq.c", ("int bfq_7;", "HANG")))
    thread.join()
    assert half.exists()

    # Configuring alone must do it: a good build afterwards would make the file again.
    with pytest.raises(BuildError):
        build(fragments=("lost",))
    assert old.exists()
    assert not half.exists()
    assert not list(cache.root().glob("workbench/*/building"))
    assert build(fragments=("base",)).vmlinux.exists()


def test_a_finished_build_keeps_its_objects_for_the_next(build: Build, seven: Path) -> None:
    build()
    made = object_folder() / "block/kept.o"
    made.touch()
    build(seven)
    assert made.exists()


def test_a_new_configuration_begins_with_the_objects_of_the_nearest_one(
    build: Build, seven: Path
) -> None:
    """A foreign patch is built in a copy of its own, which is not kept."""
    build(fragments=("base", "block"))
    near = object_folder()
    (near / "block/kept.o").touch()
    tool = near / "tools/.program.cmd"
    tool.parent.mkdir()
    tool.write_text(f"cc -o {near}/tools/program")
    build(seven, fragments=("base",))
    (new,) = {*cache.root().glob("workbench/*/src/obj-*")} - {near}
    assert not any(new.iterdir())
    build(fragments=("base",))
    assert (new / "block/kept.o").exists()
    assert (new / "tools/.program.cmd").read_text() == f"cc -o {new}/tools/program"


def test_a_clock_that_was_set_back_does_not_keep_the_code_without_the_patch(
    build: Build, seven: Path
) -> None:
    """The objects of a build a day ahead are newer than the sources that a patch changes now."""
    build()
    made, tomorrow = object_folder() / "block/kept.o", time.time() + 86400
    made.touch()
    os.utime(made, (tomorrow, tomorrow))
    build(seven)
    assert not made.exists()


DAMAGES = {
    "objects that do not fit": "cd src/obj-*/block && rm bfq.o && mkdir -p bfq.o/in-the-way",
    "the lock of a git that was killed": "touch index.lock",
    "a broken index": ": >index",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_workbench_is_not_blamed_on_a_patch(
    build: Build, seven: Path, damage: str
) -> None:
    build()
    run(["sh", "-c", DAMAGES[damage]], cwd=object_folder().parents[1])
    assert "int seven;" in build(seven).vmlinux.read_text()


def test_a_kernel_without_its_record_is_built_again(build: Build) -> None:
    first = build()
    (first.folder / "kernel.json").unlink()
    assert kernel.find(first.id) is None
    assert build() == first
    assert first.vmlinux.exists()


def compiler(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a make into PATH that does something else first; it finds how often it ran in n."""
    folder.mkdir()
    real = shutil.which("make")
    count = f'n=$(wc -c <"{folder}/runs" 2>/dev/null || echo 0); printf x >>"{folder}/runs"'
    (folder / "make").write_text(f'#!/bin/sh\n{count}\n{script}\nexec {real} "$@"\n')
    (folder / "make").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv(sandbox.CHOICE, Mode.NONE)  # where it is confined it could not count


KILLED = 'echo "gcc: fatal error: Killed signal terminated program cc1" >&2; exit 2'
MISTAKE = "echo \"block/bfq.c:1: error: expected ';'\" >&2; exit 2"


@pytest.mark.parametrize("said", [KILLED, "kill -9 $$", MISTAKE])
def test_what_goes_wrong_once_is_built_again(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    compiler(tmp_path / "bin", monkeypatch, f"if [ $n = 1 ]; then {said}; fi")
    assert build().vmlinux.exists()


@pytest.mark.parametrize(
    "script",
    [KILLED, "kill -9 $$", f"case $n in 1) {MISTAKE};; 3) {KILLED};; esac"],
    ids=["killed", "make is killed", "a mistake that is seen only once"],
)
def test_what_was_not_said_of_the_source_twice_is_not_its_fault(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    compiler(tmp_path / "bin", monkeypatch, script)
    with pytest.raises(LabError) as caught:
        build()
    assert not isinstance(caught.value, BuildError)


@pytest.mark.parametrize("name", ["vmlinux", "System.map", "kernel.json", "config"])
def test_a_damaged_kernel_is_built_again(
    build: Build, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = build()
    before = cache.file_hash(first.folder / name)
    (first.folder / name).write_text("")
    monkeypatch.setattr(cache, "_held", {})  # as in the next process
    assert build() == first
    assert cache.file_hash(first.folder / name) == before
    assert f"({name})" in capsys.readouterr().err


def test_a_kernel_of_before_there_were_sums_is_not_built_again(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build()
    (first.folder / "sums").unlink()
    before = logs()
    monkeypatch.setattr(cache, "_held", {})
    assert build() == first
    assert logs() == before
    assert (first.folder / "sums").exists()


def configurations() -> int:
    """How often make was asked for a configuration, as its logs tell."""
    return sum(text.count("  CONF ") for _, text in logs().values())


def test_objects_are_configured_again_where_something_decides_otherwise(
    build: Build, seven: Path, make_patch: MakePatch
) -> None:
    plain = build()
    assert configurations() == 1
    build(seven)
    assert configurations() == 1
    build(make_patch("2.patch", "block/Kconfig", ("bool\n\nconfig", "bool \n\nconfig")))
    assert configurations() == 2
    build(make_patch("3.patch", "block/bfq.c", ("int bfq_7;", "int third;")))
    assert configurations() == 2
    object_folder().joinpath(".config").write_text("CONFIG_BLOCK=n\n")
    fourth = build(make_patch("4.patch", "block/bfq.c", ("int bfq_7;", "int fourth;")))
    assert configurations() == 3
    assert (fourth.folder / "config").read_text() == (plain.folder / "config").read_text()
