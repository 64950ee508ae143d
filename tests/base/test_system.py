# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the lab's files lie: in a checkout, and where it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base import system


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "CHECKOUT", None)


def test_a_checkout_has_its_folders_at_the_top() -> None:
    assert system.data("kernel-patches") == system.PROJECT / "kernel-patches"
    assert system.results() == system.PROJECT / "results"


@pytest.mark.usefixtures("installed")
def test_an_installed_lab_has_its_folders_in_the_package() -> None:
    assert system.data("kernel-patches") == system.PACKAGE / "_data/kernel_patches"


@pytest.mark.usefixtures("installed")
def test_an_installed_lab_leaves_results_with_the_users_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert system.results() == tmp_path / "blocklab"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert system.results() == tmp_path / ".local/state/blocklab"
