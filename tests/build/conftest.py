# SPDX-License-Identifier: GPL-2.0-or-later
"""Fragments that the fake kernel can serve, and a function that builds it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.base.progress import Progress
from lab.build import kernel, patching
from lab.build.kernel import Kernel
from lab.build.source import resolve
from lab.inputs import kconfig


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
