# SPDX-License-Identifier: GPL-2.0-or-later
"""What all tests share: a cache of their own, and a kernel source small enough to build at once."""

from __future__ import annotations

import difflib
import functools
import gc
import io
import os
import signal
import tarfile
from collections.abc import Callable
from pathlib import Path

import guests as fakes
import pytest
from fake_kernel import KCONFIG, MAKEFILE
from hypothesis import settings

from lab.base import host_time, sandbox
from lab.base.progress import Progress
from lab.base.sandbox import Mode
from lab.build import kernel, patching
from lab.build.kernel import Kernel
from lab.build.source import resolve
from lab.inputs import fio_program, kconfig, profile, series
from lab.measure.job import Testbed
from lab.measure.session import Session

GUESTS = Path(__file__).parent / "vm"

# A shell that starts something in the background makes it ignore interrupts; the tests that
# interrupt the lab would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes is the host's matter. `make check` tries few of them, `make test` all.
settings.register_profile("all", deadline=None)
settings.register_profile("few", deadline=None, max_examples=10)
settings.load_profile("all")

_BFQ = "".join(f"int bfq_{number};\n" for number in range(1, 41))


@pytest.hookimpl(tryfirst=True)  # before pytest itself deselects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test in the folder vm the marker vm: they boot real guests."""
    for item in items:
        if GUESTS in item.path.parents:
            item.add_marker(pytest.mark.vm)


def pytest_collection_finish() -> None:
    """Have the garbage collector look no more at what was collected: thousands of tests stay."""
    gc.collect()
    gc.freeze()


@functools.cache
def _series_names() -> list[str]:
    return series.known()


def pytest_make_parametrize_id(val: object) -> str | None:
    """An id that `pytest -k SERIES` does not select: that is for the claims of the series."""
    if isinstance(val, str) and any(name in val for name in _series_names()):
        return val.replace("_", "-")
    return None


# What a user may have set for his own commands.
_OF_THE_USER = ("LAB_TREE", "LAB_FLEET", "LAB_FLEET_KEYS")


@pytest.fixture(scope="session")
def testbed() -> Testbed:
    """The kernel of the quick profile, built or out of the cache, and checked engines."""
    return Session(profile.get("quick")).testbed


@pytest.fixture(autouse=True)
def _own_folders(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep tests away from the user's cache and results; guests and kernels share them."""
    if request.node.get_closest_marker("vm") or request.node.get_closest_marker("kernels"):
        return
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LAB_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(host_time, "FOLDER", tmp_path)
    # No test cuts the power, and a disk takes its time.
    monkeypatch.setattr(os, "fsync", lambda _opened: None)
    for name in (*_OF_THE_USER, "GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_PREFIX"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def guests(monkeypatch: pytest.MonkeyPatch) -> fakes.Guests:
    """What is booted in the place of real guests."""
    return fakes.installed(monkeypatch)


@pytest.fixture(params=[Mode.BWRAP, Mode.LANDLOCK])
def confined(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Mode:
    """Each mode that confines, where it works."""
    mode = Mode(request.param)
    if why := sandbox.obstacle_to(mode):
        pytest.skip(f"{mode}: {why}")
    monkeypatch.setenv(sandbox.CHOICE, mode)
    return mode


@pytest.fixture
def fio_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have jobs taken as right without starting fio, which takes a fifth of a second: what it says
    of them is tested in test_fio_program.
    """
    monkeypatch.setattr(fio_program, "_require_parsed", lambda _job: None)


@pytest.fixture
def quiet() -> Progress:
    """Progress that nobody sees."""
    return Progress(out=io.StringIO())


@pytest.fixture
def fake_tree(tmp_path: Path) -> Path:
    """A kernel source with two C files whose make understands what the lab asks of it."""
    top = tmp_path / "linux-0.1"
    files = {
        "Kbuild": "obj-y += init/ block/\n",
        "Kconfig": KCONFIG,
        "Makefile": MAKEFILE,
        "block/Kconfig": "menuconfig BLOCK_MENU\n\tbool\n\nconfig BLOCK\n\tbool\n",
        "block/bfq.c": _BFQ,
        "init/main.c": "int main(void) { return 0; }\n",
        "scripts/run.sh": "#!/bin/sh\n",
    }
    for name, content in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (top / "scripts/run.sh").chmod(0o755)
    (top / "scripts/link").symlink_to("../init/main.c")
    return top


@pytest.fixture
def fake_tarball(fake_tree: Path, tmp_path: Path) -> Path:
    """The fake kernel source as a release tarball."""
    tarball = tmp_path / "linux-0.1.tar.xz"
    with tarfile.open(tarball, "w:xz") as tar:
        tar.add(fake_tree, fake_tree.name)
    return tarball


@pytest.fixture
def make_patch(fake_tree: Path, tmp_path: Path) -> Callable[..., Path]:
    """A function: patch file name, file of the fake tree, pairs of text to replace and new text."""

    def make(name: str, file: str, *changes: tuple[str, str]) -> Path:
        old = (fake_tree / file).read_text()
        new = old
        for before, after in changes:
            assert before in new
            new = new.replace(before, after)
        lines = difflib.unified_diff(
            old.splitlines(keepends=True),
            new.splitlines(keepends=True),
            f"a/{file}",
            f"b/{file}",
        )
        patch = tmp_path / name
        patch.write_text(f"Subject: {name}\n\ndiff --git a/{file} b/{file}\n{''.join(lines)}")
        return patch

    return make


@pytest.fixture
def fragments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of kernel fragments that the fake kernel can serve."""
    folder = tmp_path / "fragments"
    folder.mkdir()
    (folder / "base.config").write_text("# comment\nCONFIG_SMP=y\n")
    (folder / "block.config").write_text("CONFIG_BLOCK=y\n")
    (folder / "lost.config").write_text("CONFIG_SMP=y\n\nCONFIG_NEEDS_MISSING=y\nCONFIG_TYPO=y\n")
    monkeypatch.setattr(kconfig, "merge", functools.partial(kconfig.merge, folder=folder))
    return folder


@pytest.fixture
def build(fragments: Path, fake_tarball: Path, quiet: Progress) -> Callable[..., Kernel]:
    """A function that builds the fake kernel with patches."""
    plain = resolve(f"tar:{fake_tarball}", quiet)

    def build_patched(*patches: Path, fragments: tuple[str, ...] = ("base", "block")) -> Kernel:
        return kernel.build(patching.patched(plain, patches), fragments, quiet)

    return build_patched
