# SPDX-License-Identifier: GPL-2.0-or-later
"""Manual pages have what the commands say, and roff complains of nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lab.cli import main
from tools import man


def test_every_command_has_a_page_with_its_options(tmp_path: Path) -> None:
    man.write(tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == {
        "lab",
        *(f"lab-{name}" for name in main.COMMANDS),
    }
    run = (tmp_path / "lab-run.1").read_text()
    for option in ("\\-\\-profile", "\\-\\-dry\\-run", "\\-\\-json"):
        assert option in run
    assert all(f"lab-{name} (1)" in (tmp_path / "lab.1").read_text() for name in main.COMMANDS)


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_groff_takes_them(tmp_path: Path) -> None:
    man.write(tmp_path)
    argv = ["groff", "-man", "-Tutf8", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_text_is_no_request() -> None:
    assert man._text(".so /etc/passwd") == "\\&.so /etc/passwd"
    assert man._text("a\n.b -c \\d") == "a .b \\-c \\ed"
