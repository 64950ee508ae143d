# SPDX-License-Identifier: GPL-2.0-or-later
"""Tools end as the lab's commands do: with its exit codes, and one message for a mistake."""

from __future__ import annotations

import sys

import pytest

from lab.base.errors import ExitCode
from lab.base.process import run
from lab.base.system import PROJECT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tools.bench", "--repeat", "1"], "--repeat"),
        (["tools.control", "--arms", "1"], "--arms"),
        (["tools.planted", "--profile", "fast"], "fast"),
        (["tools.error_rates", "--profile", "fast"], "fast"),
    ],
)
def test_a_mistake_is_wrong_usage_and_named(words: list[str], said: str) -> None:
    result = run([sys.executable, "-m", *words], cwd=PROJECT, check=False, merge=True)
    assert result.status == ExitCode.USAGE
    assert said in result.output
    assert "Traceback" not in result.output
