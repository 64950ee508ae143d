# SPDX-License-Identifier: GPL-2.0-or-later
"""What an I/O examples.costs by function, as other tools open it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
RUN = examples.compared_run()
CELL = "nullb bfq randread_burst, exact"
Schema = dict[str, Any]
TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def listed(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def record(*required: str, **properties: Schema) -> Schema:
    fields = {"required": [*required], "properties": properties, "additionalProperties": False}
    return {"type": "object", **fields}


# What a file of speedscope's must be (its file-format-schema.json), of the fields that are used.
UNITS = ["none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"]
PROFILE = record(
    *("type", "name", "unit", "startValue", "endValue", "samples", "weights"),
    type={"const": "sampled"},
    name=TEXT,
    unit={"enum": UNITS},
    startValue=NUMBER,
    endValue=NUMBER,
    samples=listed(listed(NUMBER)),
    weights=listed(NUMBER),
)
SCHEMA = record(
    *("$schema", "profiles", "shared"),
    **{"$schema": {"const": "https://www.speedscope.app/file-format-schema.json"}},
    name=TEXT,
    exporter=TEXT,
    activeProfileIndex=NUMBER,
    shared=record("frames", frames=listed(record("name", name=TEXT))),
    profiles=listed(PROFILE),
)


def lines(text: str) -> Mapping[str, int]:
    split = (line.rpartition(" ") for line in text.splitlines())
    return {stack: int(count) for stack, _, count in split}


def test_folded_stacks_are_what_a_thousand_ios_cost() -> None:
    assert lines(profiles.folded(RUN, examples.costs)) == {
        f"{CELL};before;user space": 5000,
        f"{CELL};before;kernel;kfree": 2250,
        f"{CELL};before;kernel;submit_bio": 10000,
        f"{CELL};after;user space": 5000,
        f"{CELL};after;kernel;added": 1,
        f"{CELL};after;kernel;kfree": 2250,
        f"{CELL};after;kernel;submit_bio": 7000,
    }


def test_functions_of_the_block_layer_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "root", lambda: tmp_path)
    folder = tmp_path / "kernels" / "kernel-after"
    folder.mkdir(parents=True)
    (folder / "block-layer").write_text("submit_bio\nother\n")
    stacks = lines(profiles.folded(RUN, examples.costs, "after"))
    assert [stack.split(";", 2)[2] for stack in stacks] == [
        *("user space", "kernel;kfree", "kernel;added", "kernel;block layer;submit_bio")
    ]
    before, after = profiles.compared(RUN, examples.costs)[0, 1]
    # Both sides by all lists: the kernel before may have been deleted.
    assert ("kernel", "block layer", "submit_bio") in before.stacks.keys() & after.stacks.keys()


@pytest.mark.parametrize(
    ("seeds", "kernel"),
    [
        ((Cost(1.0, {"f": 2.0}), Cost(1.0, {"f": 4.0, "g": 1.0})), {("f",): 3.0, ("g",): 0.5}),
        (
            (
                Cost(1.0, {"read": 2.0, "f": 1.0}, {("entry", "read"): 1.0}),
                Cost(1.0, {"read": 2.0, "f": 1.0}, {("entry", "f", "read"): 3.0}),
            ),
            {("entry", "read"): 0.5, ("entry", "f", "read"): 1.5},
        ),
    ],
    ids=["functions", "paths, where they were followed"],
)
def test_boots_of_several_seeds_are_one_profile_of_their_mean(
    seeds: tuple[Cost, Cost], kernel: Mapping[profiles.Stack, float]
) -> None:
    (profile,) = profiles.of_run(RUN, lambda boot: seeds[int(boot[-1])], "before")
    assert profile.stacks == {
        ("user space",): 1.0,
        **{("kernel", *path): value for path, value in kernel.items()},
    }


def test_simulated_time_is_in_nanoseconds_and_instructions_have_no_unit() -> None:
    simulated = examples.compared_run(engine="sim", machine="xeon16", cpus=16)
    for run, unit in ((RUN, "none"), (simulated, "nanoseconds")):
        document = json.loads(profiles.speedscope(run, examples.costs))
        assert [profile["unit"] for profile in document["profiles"]] == [unit, unit]
    name = "nullb bfq randread_burst, sim xeon16, 16 CPUs"
    assert profiles.folded(simulated, examples.costs).startswith(f"{name};before;user space ")


def test_speedscope_takes_it() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads(profiles.speedscope(RUN, examples.costs))
    jsonschema.validate(document, SCHEMA)
    names = [frame["name"] for frame in document["shared"]["frames"]]
    assert len(names) == len(set(names))
    before, after = document["profiles"]
    assert before["name"] == f"{CELL}, before"
    shown = [[names[place] for place in sample] for sample in after["samples"]]
    assert dict(zip(map(tuple, shown), after["weights"], strict=True)) == {
        ("user space",): 5.0,
        ("kernel", "added"): 0.001,
        ("kernel", "kfree"): 2.25,
        ("kernel", "submit_bio"): 7.0,
    }
    assert after["endValue"] == pytest.approx(sum(after["weights"]))


def test_cells_with_one_name_are_numbered() -> None:
    other_cell = RUN.cells[1].model_copy(update={"boots": RUN.cells[0].boots})
    twice = RUN.model_copy(update={"cells": (*RUN.cells, other_cell)})
    text = profiles.folded(twice, examples.costs)
    roots = dict.fromkeys(";".join(stack.split(";")[:2]) for stack in lines(text))
    assert [*roots][1:] == [f"{CELL};after", f"{CELL} (2);after"]


def test_what_was_not_counted_gives_nothing() -> None:
    for text in (profiles.folded, profiles.speedscope):
        assert text(RUN, lambda boot: None) == ""
        assert text(RUN, examples.costs, "mq-deadline") == ""
    assert profiles.compared(RUN, lambda boot: None) == {}


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
