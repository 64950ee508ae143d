# SPDX-License-Identifier: GPL-2.0-or-later
"""The plugin is compiled once, and only for a QEMU that is new enough."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.base import process
from lab.base.errors import LabError
from lab.build import tcg_plugin


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The compilers' command lines, on a host whose QEMU takes versions 4 to 8 of the interface."""
    command_lines: list[list[str]] = []

    def run(argv: Sequence[str], **_: object) -> process.Result:
        if argv[0] == "/bin/cc":
            command_lines.append([*argv])
            Path(argv[argv.index("-o") + 1]).write_text(" ".join(argv))
            return process.Result(0, "")
        taken = Path(argv[-1].partition(",")[0]).read_text()
        if "PLUGIN_API=9 " in taken:
            raise process.CommandError("no", status=1, output="not supported\n")
        return process.Result(0, "")

    monkeypatch.setattr(tcg_plugin, "run", run)
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/cc")
    return command_lines


def test_it_is_compiled_for_the_interface_that_qemu_takes_and_once(
    compilations: list[list[str]],
) -> None:
    first = tcg_plugin.compiled((10, 0, 2), "QEMU 10.0.2")
    assert first
    assert "PLUGIN_API=8 " in first.read_text()
    assert tcg_plugin.compiled((10, 0, 2), "QEMU 10.0.2") == first
    assert len(compilations) == 2


def test_nothing_is_compiled_for_an_old_qemu(compilations: list[list[str]]) -> None:
    assert tcg_plugin.compiled((8, 2, 2), "QEMU 8.2.2") is None
    assert compilations == []


def test_without_capstone_it_is_said_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(argv: Sequence[str], **_: object) -> process.Result:
        output = "fatal error: capstone/capstone.h: No such file or directory"
        raise process.CommandError("cc ended with status 1", status=1, output=output)

    monkeypatch.setattr(tcg_plugin, "run", run)
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/cc")
    with pytest.raises(LabError, match="Capstone is not installed") as caught:
        tcg_plugin.compiled((10, 0, 2), "QEMU 10.0.2")
    assert "make setup" in caught.value.hint


def test_without_a_compiler_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert tcg_plugin.compiled((10, 0, 2), "QEMU 10.0.2") is None
