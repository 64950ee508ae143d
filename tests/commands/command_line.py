# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's command line in a test."""

from __future__ import annotations

from click.testing import CliRunner, Result

from lab.cli import main


def invoke(*words: str) -> Result:
    """Run a command of the lab; its errors are raised."""
    return CliRunner().invoke(main.lab, words, standalone_mode=False, catch_exceptions=False)
