# SPDX-License-Identifier: GPL-2.0-or-later
"""The plugins are compiled once, and only for a QEMU that is new enough."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.base import process
from lab.build import tcg_plugin
from lab.inputs.terms import Engine


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The compilers' command lines, on a host whose QEMU takes version 2 of the interface or 3."""
    found: list[list[str]] = []

    def run(argv: Sequence[str], **_: object) -> process.Result:
        if argv[0] == "/bin/cc":
            found.append([*argv])
            Path(argv[argv.index("-o") + 1]).write_text(" ".join(argv))
            return process.Result(0, "")
        taken = Path(argv[-1].partition(",")[0]).read_text()
        if "PLUGIN_API=1 " in taken:
            raise process.CommandError("no", status=1, output="too old\n")
        return process.Result(0, "")

    monkeypatch.setattr(tcg_plugin, "run", run)
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/cc")
    return found


def test_a_plugin_is_compiled_for_the_interface_that_qemu_takes_and_once(
    compilations: list[list[str]],
) -> None:
    first = tcg_plugin.compiled((10, 0, 2), "QEMU 10.0.2")
    assert set(first) == {Engine.ICOUNT, Engine.SIM}
    outputs = [Path(argv[argv.index("-o") + 1]).name for argv in compilations]
    assert outputs == ["insns.so", "insns.so", "sim.so", "sim.so"]
    assert tcg_plugin.compiled((10, 0, 2), "QEMU 10.0.2") == first
    assert len(compilations) == 4


def test_an_old_qemu_gets_no_simulation_and_nothing_is_compiled_for_it(
    compilations: list[list[str]],
) -> None:
    assert set(tcg_plugin.compiled((9, 0, 4), "QEMU 9.0.4")) == {Engine.ICOUNT}
    assert not any("sim.so" in word for argv in compilations for word in argv)


def test_without_a_compiler_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert tcg_plugin.compiled((10, 0, 2), "QEMU 10.0.2") == {}
