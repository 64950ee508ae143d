# SPDX-License-Identifier: GPL-2.0-or-later
"""What all tests share: a cache of their own, and a kernel source small enough to build at once."""

from __future__ import annotations

import difflib
import io
import signal
import tarfile
from collections.abc import Callable
from pathlib import Path

import guests as fakes
import pytest
from hypothesis import settings

from lab.base.progress import Progress
from lab.inputs import profile
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

# Words in a C file that make the fake kernel's build go wrong.
#   SYNTAX_ERROR  a compiler error          HANG  half an object file, then nothing more
#   DISK_FULL     a linker without space
_MAKEFILE = r"""
VERSION = 0
PATCHLEVEL = 1
O ?= .

.PHONY: allnoconfig bzImage
allnoconfig:
	@mkdir -p $(O)
	@sed -n 's/^config /CONFIG_/p' Kconfig block/Kconfig | grep -v NEEDS_MISSING > $(O)/known
	@grep -wFf $(O)/known $(KCONFIG_ALLCONFIG) > $(O)/.config || true

bzImage:
	@echo "  CC      block/bfq.o"
	@if grep -q SYNTAX_ERROR block/bfq.c; then \
		echo "block/bfq.c:1:1: error: expected ';'" >&2; exit 1; fi
	@mkdir -p $(O)/block $(O)/include/config $(O)/arch/x86/boot
	@cp block/bfq.c $(O)/block/bfq.o
	@if grep -q HANG block/bfq.c; then sleep 1000; fi
	@echo "  LD      vmlinux"
	@if grep -q DISK_FULL block/bfq.c; then cp Makefile /dev/full; fi
	@cat block/bfq.c init/main.c $(O)/.config > $(O)/vmlinux
	@echo "flags $(KCFLAGS) $(PROFILE)" >> $(O)/vmlinux
	@cp $(O)/vmlinux $(O)/arch/x86/boot/bzImage
	@echo "ffffffff81000000 T _text" > $(O)/System.map
	@echo "0.1.0$(LOCALVERSION)" > $(O)/include/config/kernel.release
"""
_KCONFIG = "config SMP\n\tbool\n\nconfig NEEDS_MISSING\n\tbool\n\tdepends on MISSING\n"
_BFQ = "".join(f"int bfq_{number};\n" for number in range(1, 41))


@pytest.hookimpl(tryfirst=True)  # before pytest itself deselects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test in the folder vm the marker vm: they boot real guests."""
    for item in items:
        if GUESTS in item.path.parents:
            item.add_marker(pytest.mark.vm)


@pytest.fixture(scope="session")
def testbed() -> Testbed:
    """The kernel of the quick profile, built or out of the cache, and proved engines."""
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
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_PREFIX"):  # of a git hook
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def guests(monkeypatch: pytest.MonkeyPatch) -> fakes.Guests:
    """What is booted in the place of real guests."""
    return fakes.installed(monkeypatch)


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
        "Kconfig": _KCONFIG,
        "Makefile": _MAKEFILE,
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
