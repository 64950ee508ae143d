# SPDX-License-Identifier: GPL-2.0-or-later
"""What a workbench adds to the make of a tree."""

from __future__ import annotations

import pytest

from lab.base.process import CommandError
from lab.build import workbench
from lab.build.patching import Tree
from lab.build.source import Source


@pytest.mark.parametrize(
    ("makefile", "expected"),
    [
        ("obj-$(CONFIG_PVH) += enlighten.o", ["enlighten", "string"]),
        ("KASAN_SANITIZE := n\nobj-$(CONFIG_PVH) += enlighten.o", []),
        (None, []),
    ],
)
def test_kasan_leaves_the_pvh_entry_alone_where_the_tree_does_not_say_so_itself(
    makefile: str | None, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*_: str) -> str:
        if makefile is None:
            raise CommandError("git: there is no such file")
        return makefile

    monkeypatch.setattr(workbench, "git", git)
    variables = workbench.unwatched(Tree(Source("spec", "5.10", "tree", "origin"), "hash"))
    assert variables == tuple(f"KASAN_SANITIZE_{name}.o=n" for name in expected)
