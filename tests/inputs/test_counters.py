# SPDX-License-Identifier: GPL-2.0-or-later
"""Definitions of counters, and which of them have to be counted together."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import UsageError
from lab.inputs import counters


def define(folder: Path, name: str, keys: str) -> None:
    (folder / f"{name}.toml").write_text(f"title = 't'\nunit = 'u'\n{keys}\n")


@pytest.mark.parametrize(
    ("name", "operands"),
    [("stable_merges", set()), ("mean_batch", {"dispatch_lists"}), ("switches", {"idle_ends"})],
)
def test_a_counter_is_counted_with_its_operands_and_the_requests(
    name: str, operands: set[str]
) -> None:
    assert set(counters.with_operands([name])) == {name, *operands, "requests"}


def test_all_counters_of_the_project_go_together() -> None:
    assert set(counters.with_operands(counters.known())) == set(counters.known())


def test_the_functions_of_a_counter_are_all_that_its_keys_name() -> None:
    assert counters.get("inversions").functions == ("blk_mq_start_request", "elv_rqhash_del")
    assert counters.get("switches_ksoftirqd").functions == ("__switch_to_asm", "wake_up_process")


@pytest.mark.parametrize(
    ("name", "keys", "why"),
    [
        ("none", "", "calls"),
        ("empty", "calls = []", "calls"),
        ("mistyped", "calls = ['f']\nargumnet = 1", "did you mean 'argument'"),
        ("gone", "calls = ['f']\nevent = 'block/block_rq_issue'", "unknown key 'event'"),
        ("third", "calls = ['f']\nargument = 3", "argument"),
        ("objects", "calls = ['f']\nobjects = [{ callers = 'g' }]", "want the argument"),
        ("after", "calls = ['f']\nafter = { calls = ['g'] }", "want the argument"),
        ("distinct", "calls = ['f']\ndistinct = true", "want the argument"),
        ("deep", "calls = ['f']\nper = 'share'", "share is itself divided"),
        ("own", "calls = ['f']\nper = 'own'", "own is itself divided"),
        ("unknown", "calls = ['f']\nper = 'request'", "did you mean 'requests'"),
        ("lessened", "calls = ['f']\nless = 'request'", "did you mean 'requests'"),
    ],
)
def test_a_wrong_definition_is_refused(
    name: str, keys: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "FOLDER", tmp_path)
    define(tmp_path, "requests", "calls = ['f']")
    define(tmp_path, "share", "calls = ['f']\nper = 'requests'")
    define(tmp_path, name, keys)
    with pytest.raises(UsageError, match=why):
        counters.with_operands([name])
