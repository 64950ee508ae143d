# SPDX-License-Identifier: GPL-2.0-or-later
"""The flame graph of a difference: widths are what it costs after, colours what has changed."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass

import examples
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import page

from lab.report import flame
from lab.report.profiles import CostProfile, Stack

SVG = "{http://www.w3.org/2000/svg}"
Profiled = Mapping[Stack, float]
USER: Stack = ("user space",)
LIST: Stack = ("kernel", "block layer", "list")
stacks = st.dictionaries(
    st.sampled_from([USER, LIST, *(("kernel", name) for name in "abcdef")]),
    st.floats(1e-6, 1e6),
    min_size=1,
)


@dataclass(frozen=True)
class Drawn:
    """A box as it is drawn: its place in per cent, its class, what it says."""

    left: float
    width: float
    top: int
    height: int
    kind: str
    title: str
    label: str


def profile(profiled: Profiled, arm: str = "after") -> CostProfile:
    return CostProfile("nullb bfq, exact", arm, False, profiled)


def graphs(before: Profiled, after: Profiled) -> list[flame.Graph]:
    return flame.graphs(profile(before, "before"), profile(after))


def drawn(before: Profiled, after: Profiled, number: int = 0) -> dict[str, Drawn]:
    """The boxes of a graph by name; the SVG is well-formed."""
    graph = graphs(before, after)[number]
    root = ET.fromstring(graph.svg)
    assert int(root.get("height") or 0) == graph.height
    boxes = {}
    for box in root.iter("svg"):
        if box is root:
            continue
        title = box.findtext("title") or ""
        x, width = (float((box.get(name) or "").removesuffix("%")) for name in ("x", "width"))
        top, height = (int(box.get(name) or 0) for name in ("y", "height"))
        label = box.findtext("text") or ""
        name = title.split(":")[0]
        boxes[name] = Drawn(x, width, top, height, box.get("class") or "", title, label)
    return boxes


def test_a_box_is_as_wide_as_what_it_costs_after() -> None:
    boxes = drawn({USER: 90.0, LIST: 10.0}, {USER: 25.0, LIST: 75.0})
    assert {name: (box.left, box.width) for name, box in boxes.items()} == {
        "an I/O": (0.0, 100.0),
        **dict.fromkeys(("kernel", "block layer", "list"), (0.0, 75.0)),
        "user space": (75.0, 25.0),
    }
    assert boxes["an I/O"].top < boxes["kernel"].top < boxes["block layer"].top < boxes["list"].top
    user, function = boxes["user space"], boxes["list"]
    assert function.top + function.height == user.top + user.height  # to the bottom


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ({USER: 10.0, LIST: 30.0}, {USER: 11.0, LIST: 20.0}, ["more s2", "less s5"]),
        ({USER: 1000.0, LIST: 1.0}, {USER: 1000.2, LIST: 9.0}, ["more s1", "more s5"]),
        ({USER: 1000.0, LIST: 10.0}, {USER: 1000.0, LIST: 10.2}, ["", "more s1"]),
        ({USER: 10.0, LIST: 1.0}, {USER: 10.0, LIST: 1.0}, ["", ""]),
    ],
    ids=["more and less", "large for the whole", "small for the whole, so pale", "equal"],
)
def test_colours_tell_what_costs_more_and_less_and_by_how_much(
    before: Profiled, after: Profiled, kinds: list[str]
) -> None:
    boxes = drawn(before, after)
    assert [boxes["user space"].kind, boxes["list"].kind] == kinds


def test_titles_have_the_numbers() -> None:
    boxes = drawn({LIST: 10.0, USER: 5.0}, {LIST: 12.5, USER: 5.0})
    assert boxes["list"].title == "list: 10.0 → 12.5 instructions, +2.50 (+25.0 %)"
    assert boxes["list"].label == "list +2.5"
    new = drawn({USER: 5.0}, {USER: 5.0, LIST: 5.0})
    assert new["list"].title == "list: 0.00 → 5.00 instructions, +5.00 (new)"


def test_narrow_functions_are_drawn_together_but_for_what_changed_most() -> None:
    few: Profiled = {("kernel", f"f{place}"): 0.1 for place in range(20)}
    boxes = drawn({USER: 100.0, **few, LIST: 0.1}, {USER: 100.0, **few, LIST: 0.4})
    assert boxes["20 smaller"].title == "20 smaller: 2.00 → 2.00 instructions, +0.00 (+0.00 %)"
    assert "list" in boxes
    assert "f1" not in boxes


def test_what_is_gone_is_named_and_has_its_width_in_a_graph_of_before() -> None:
    many: Profiled = {("kernel", f"f{place}"): 10.0 + place for place in range(7)}
    before, after = {USER: 5.0, LIST: 20.0, **many}, {USER: 5.0, LIST: 0.1}
    first, second = graphs(before, after)
    assert (first.arm, second.arm, first.gone) == ("after", "before", "")
    assert second.gone.startswith("list (20.0), f6 (16.0), ")
    assert second.gone.endswith(", f3 (13.0), 3 more")
    whole = sum(before.values())
    boxes = drawn(before, after, 1)
    assert boxes["list"].width == pytest.approx(100 * 20 / whole, abs=0.001)
    assert boxes["f6"].left < boxes["f5"].left
    assert boxes["list"].kind == "less s5"
    assert "f6" not in drawn(before, after)
    assert len(graphs(after, before)) == 1


def test_an_arm_that_costs_nothing_is_not_drawn() -> None:
    assert [graph.arm for graph in graphs({USER: 1.0}, {})] == ["before"]
    assert [graph.arm for graph in graphs({}, {USER: 1.0})] == ["after"]
    assert graphs({}, {}) == []


@given(stacks, stacks)
def test_boxes_lie_beside_each_other(before: dict[Stack, float], after: dict[Stack, float]) -> None:
    for number in range(len(graphs(before, after))):
        boxes = sorted(drawn(before, after, number).values(), key=lambda box: (box.top, box.left))
        assert all(box.left >= 0 and box.left + box.width <= 100.01 for box in boxes)
        for left_box, right_box in itertools.pairwise(boxes):
            if left_box.top == right_box.top:
                assert left_box.left + left_box.width <= right_box.left + 0.01


def test_with_callers_rows_are_even_and_colours_are_of_a_function_itself() -> None:
    deep = ("kernel", "entry", "submit", "merge", "find")
    before: Profiled = {deep[:3]: 10.0, deep[:4]: 10.0, deep: 10.0, (*deep[:3], "alloc"): 10.0}
    boxes = drawn(before, {**before, deep: 20.0})
    assert boxes["find"].kind == "more s5"
    assert {boxes[name].kind for name in ("kernel", "entry", "submit", "merge", "alloc")} == {""}
    assert len({box.height for box in boxes.values()}) == 1
    tops = [boxes[name].top for name in ("an I/O", *deep)]
    assert tops == [number * boxes["find"].height for number in range(6)]
    assert boxes["merge"].title.endswith("+10.00 (+50.0 %), itself +0.00")


def test_a_function_is_gone_if_no_path_has_it_any_more() -> None:
    path = ("kernel", "entry", "submit")
    before: Profiled = {path: 50.0, (*path, "get"): 10.0, (*path, "put", "get"): 10.0}
    (after, gone) = graphs(before, {path: 50.0})
    assert after.gone == ""
    assert gone.gone == "get (20.0)"


def test_names_of_strangers_are_text() -> None:
    evil = "<script>\x1b[31m&\"'"
    text = graphs({("kernel", evil): 1.0}, {("kernel", evil): 2.0})[0].svg
    assert "<script>" not in text
    assert "\x1b" not in text
    assert ET.fromstring(text).tag == "svg"


def test_a_file_of_its_own_has_every_comparison_and_its_colours() -> None:
    root = ET.fromstring(flame.standalone(examples.compared_run(), examples.costs))
    assert root.tag == f"{SVG}svg"
    assert len(root.findall(f"{SVG}svg/{SVG}svg[@class='flame']")) == 1
    style = root.findtext(f"{SVG}style") or ""
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    assert "fill:#1d2126" in light
    assert "fill:#e4e8ec" in dark
    assert "var(" not in style
    titles = [text.text for text in root.findall(f"{SVG}text")]
    assert titles == ["nullb bfq randread_burst, exact: before → after, as wide as after"]
    assert int(root.get("height") or 0) > 100
    assert flame.standalone(examples.compared_run(), lambda boot: None) == ""


@pytest.mark.parametrize("claim", ["", "own.faster"])
def test_a_page_has_the_graph_of_what_it_compares(claim: str) -> None:
    run = examples.compared_run()
    series = examples.paired_run().series if claim else ()
    costs = tuple(cost.model_copy(update={"claim": claim}) for cost in run.costs)
    run = run.model_copy(update={"costs": costs, "series": series})
    text = page(run, costs=examples.costs).source
    assert text.count('<svg class="flame"') == 1
    assert "submit_bio: 10.0 → 7.00 instructions" in text
    # Without the raw files there is the table alone.
    bare = page(run).source
    assert '<svg class="flame"' not in bare
    assert "submit_bio" in bare
