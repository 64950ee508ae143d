# SPDX-License-Identifier: GPL-2.0-or-later
"""What an I/O examples.costs by function, as other tools open it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import examples
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base import cache
from lab.measure.cost import Cost
from lab.report import profiles

# A line that flame-graph makers take: frames, a space, a number. A frame that ended in a number of
# its own would be taken for the other side of a difference.
LINE = re.compile(r"(?:[^;\n]+;)*[^;\n]*[^;\s\d][^;\s]* \d+")
# What a file of speedscope's must be (its file-format-schema.json), of the fields that are used.
SCHEMA = {
    "type": "object",
    "required": ["$schema", "profiles", "shared"],
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "name": {"type": "string"},
        "exporter": {"type": "string"},
        "activeProfileIndex": {"type": "number"},
        "shared": {
            "type": "object",
            "required": ["frames"],
            "properties": {
                "frames": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}},
                        "additionalProperties": False,
                    },
                }
            },
        },
        "profiles": {
            "type": "array",
            "items": {
                "type": "object",
                "required": [
                    *("type", "name", "unit", "startValue", "endValue", "samples", "weights")
                ],
                "properties": {
                    "type": {"const": "sampled"},
                    "name": {"type": "string"},
                    "unit": {
                        "enum": [
                            *("none", "nanoseconds", "microseconds", "milliseconds"),
                            *("seconds", "bytes"),
                        ]
                    },
                    "startValue": {"type": "number"},
                    "endValue": {"type": "number"},
                    "samples": {
                        "type": "array",
                        "items": {"type": "array", "items": {"type": "number"}},
                    },
                    "weights": {"type": "array", "items": {"type": "number"}},
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}


def lines(text: str) -> Mapping[str, int]:
    split = (line.rpartition(" ") for line in text.splitlines())
    return {stack: int(count) for stack, _, count in split}


def test_folded_stacks_are_what_a_thousand_ios_cost() -> None:
    cell = "nullb bfq randread_burst, exact"
    assert lines(profiles.folded(examples.compared_run(), examples.costs)) == {
        f"{cell};before;user space": 5000,
        f"{cell};before;kernel;kfree": 2250,
        f"{cell};before;kernel;submit_bio": 10000,
        f"{cell};after;user space": 5000,
        f"{cell};after;kernel;added": 1,
        f"{cell};after;kernel;kfree": 2250,
        f"{cell};after;kernel;submit_bio": 7000,
    }


def test_functions_of_the_block_layer_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "root", lambda: tmp_path)
    folder = tmp_path / "kernels" / "kernel-after"
    folder.mkdir(parents=True)
    (folder / "block-layer").write_text("submit_bio\nother\n")
    stacks = lines(profiles.folded(examples.compared_run(), examples.costs, "after"))
    assert [stack.split(";", 2)[2] for stack in stacks] == [
        *("user space", "kernel;kfree", "kernel;added", "kernel;block layer;submit_bio")
    ]
    before, after = profiles.compared(examples.compared_run(), examples.costs)[0, 1]
    # Both sides by all lists: the kernel before may have been deleted.
    assert ("kernel", "block layer", "submit_bio") in before.stacks.keys() & after.stacks.keys()


def test_boots_of_several_seeds_are_one_profile_of_their_mean() -> None:
    def seeds(boot: str) -> Cost:
        return Cost(1.0, {"f": 2.0} if boot.endswith("0") else {"f": 4.0, "g": 1.0})

    (profile,) = profiles.of_run(examples.compared_run(), seeds, "before")
    assert profile.stacks == {("user space",): 1.0, ("kernel", "f"): 3.0, ("kernel", "g"): 0.5}


def test_a_boot_whose_stacks_were_followed_has_its_paths() -> None:
    def seeds(boot: str) -> Cost:
        path: profiles.Stack = ("entry", "read") if boot.endswith("0") else ("entry", "f", "read")
        return Cost(1.0, {"read": 2.0, "f": 1.0}, {path: 2.0 / len(path)})

    (profile,) = profiles.of_run(examples.compared_run(), seeds, "before")
    assert profile.stacks == {
        ("user space",): 1.0,
        ("kernel", "entry", "read"): 1 / 2,
        ("kernel", "entry", "f", "read"): 1 / 3,
    }


def test_simulated_time_is_in_nanoseconds_and_instructions_have_no_unit() -> None:
    simulated = examples.compared_run(engine="sim", machine="xeon16", cpus=16)
    for run, unit in ((examples.compared_run(), "none"), (simulated, "nanoseconds")):
        document = json.loads(profiles.speedscope(run, examples.costs))
        assert [profile["unit"] for profile in document["profiles"]] == [unit, unit]
    name = "nullb bfq randread_burst, sim xeon16, 16 CPUs"
    assert profiles.folded(simulated, examples.costs).startswith(f"{name};before;user space ")


def test_speedscope_takes_it() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads(profiles.speedscope(examples.compared_run(), examples.costs))
    jsonschema.validate(document, SCHEMA)
    names = [frame["name"] for frame in document["shared"]["frames"]]
    assert len(names) == len(set(names))
    before, after = document["profiles"]
    assert before["name"] == "nullb bfq randread_burst, exact, before"
    shown = [[names[place] for place in sample] for sample in after["samples"]]
    assert dict(zip(map(tuple, shown), after["weights"], strict=True)) == {
        ("user space",): 5.0,
        ("kernel", "added"): 0.001,
        ("kernel", "kfree"): 2.25,
        ("kernel", "submit_bio"): 7.0,
    }
    assert after["endValue"] == pytest.approx(sum(after["weights"]))


def test_cells_with_one_name_are_numbered() -> None:
    run = examples.compared_run()
    other_cell = run.cells[1].model_copy(update={"boots": examples.cell("more", (1.0,)).boots})
    twice = run.model_copy(update={"cells": (*run.cells, other_cell)})
    text = profiles.folded(
        twice, lambda boot: examples.COST_BEFORE if "more" in boot else examples.costs(boot)
    )
    roots = dict.fromkeys(";".join(stack.split(";")[:2]) for stack in lines(text))
    assert [*roots][1:] == [
        "nullb bfq randread_burst, exact;after",
        "nullb bfq randread_burst, exact (2);after",
    ]


def test_what_was_not_counted_gives_nothing() -> None:
    for text in (profiles.folded, profiles.speedscope):
        assert text(examples.compared_run(), lambda boot: None) == ""
        assert text(examples.compared_run(), examples.costs, "mq-deadline") == ""
    assert profiles.compared(examples.compared_run(), lambda boot: None) == {}


@given(st.text(), st.text(min_size=1))
def test_a_strangers_name_ends_neither_a_frame_nor_a_line(topology: str, function: str) -> None:
    text = profiles.folded(
        examples.compared_run(topology=topology),
        lambda boot: Cost(1.0, {f"f{function}x": 1.0}),
        "after",
    )
    assert text.count("\n") == 2
    assert text.count(";") == 5
    assert all(LINE.fullmatch(line) for line in text.splitlines())
