# SPDX-License-Identifier: GPL-2.0-or-later
"""TAB offers what there is, and nothing that begins otherwise."""

from __future__ import annotations

import examples
import pytest
from click.shell_completion import BashComplete

from lab.cli import main
from lab.measure.boot_store import BootStore
from lab.report import record_store


def offered(line: str) -> list[str]:
    """What is offered for the last word of a line."""
    *words, begun = line.split(" ")
    completion = BashComplete(main.lab, {}, "lab", "_LAB_COMPLETE")
    return [item.value for item in completion.get_completions(words, begun)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("run bf", ["bfq_burst_merge", "bfq_io_bound"]),
        ("run --claim deadline_t", ["deadline_throughput"]),
        ("run --profile s", ["standard"]),
        ("matrix --topology nullb_mq_", ["nullb_mq_old"]),
        ("try x --workload dben", ["dbench_xfs"]),
        ("diff --config sm", ["small"]),
        ("diff --machine xe", ["xeon10", "xeon16"]),
        ("shell --scheduler mq", ["mq-deadline"]),
        ("shell plug_o", ["plug_order"]),
        ("tren", ["trend"]),
        ("show la", ["last"]),
        ("rerun x", []),
    ],
)
def test_a_word_is_completed_by_what_it_may_be(line: str, expected: list[str]) -> None:
    assert offered(line) == expected


def test_runs_and_boots_are_offered() -> None:
    store = BootStore()
    record_store.save(examples.run(), store.folder)
    (store.folder / "boots/20260102-000000-abcdef").mkdir(parents=True)
    assert offered("report 2026") == [examples.run().id]
    assert offered("rerun 2026") == ["20260102-000000-abcdef"]
