# SPDX-License-Identifier: GPL-2.0-or-later
"""The page and its plots: whole, self-contained, and nobody's text becomes markup."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import examples
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pages import page

from lab.base.stats import Interval
from lab.report import svg
from lab.report.run_record import RunRecord

PAIRED = examples.paired_run()
values = st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=12)


@pytest.mark.parametrize(
    "run", [PAIRED, examples.swept_run(), examples.matrix_run(8), examples.run()]
)
def test_a_page_is_whole_needs_nothing_else_and_can_be_read_aloud(run: RunRecord) -> None:
    tags = page(run)
    assert not tags.faults
    for link in tags.links:
        assert link.startswith(("#", "../../boots/"))
        if link.startswith("#"):
            assert link[1:] in tags.ids
    assert len(tags.ids) == len(set(tags.ids))


def test_published_expected_and_measured_are_there() -> None:
    tags = page(PAIRED)
    for part in (
        "all 1 claims 1 HOLDS",
        "published +40 %",
        "expected before → after >= +20%: half of it",
        "measured 20,667 → 28,917 host-clock IOPS, +39.9 % [+35.0, +47.0] · p 0.016",
        "6 boots an arm",
        "lab run own",
        "A CPU, 2 CPUs",
    ):
        assert part in tags.words
    assert "../../boots/boot-after-nullb-5/" in tags.links


def test_the_page_opens_with_each_claim_beside_what_was_published() -> None:
    claims = [
        examples.claim(examples.finding(verdict=verdict), name=name, verdict=verdict)
        for name, verdict in (("good", "HOLDS"), ("open", "INCONCLUSIVE"), ("bad", "REFUTED"))
    ]
    run = PAIRED.model_copy(update={"series": (examples.series(*claims),)})
    text = page(run).source
    table = text[text.index('<table class="verdicts">') : text.index("</table>")]
    assert re.findall(r'href="#own\.(\w+)"', table) == ["good", "open", "bad"]
    assert table.count("+40 %") == 3
    dots = text[text.index('<table class="dots">') :].partition("</table>")[0]
    assert dots.count("<svg") == 3
    opened = re.findall(r'<details class="claim" data-verdict="(\w+)" open>', text)
    assert sorted(opened) == ["INCONCLUSIVE", "REFUTED"]
    for verdict in ("REFUTED", "INCONCLUSIVE", "HOLDS"):
        assert f'id="only-{verdict}"' in text
        assert f'#only-{verdict}:checked) [data-verdict]:not([data-verdict~="{verdict}"])' in text


def test_cells_lead_to_their_boots() -> None:
    tags = page(examples.matrix_run(8))
    for place in range(8):
        assert f"#cell-{place}" in tags.links
        assert f"cell-{place}" in tags.ids


@pytest.mark.parametrize(
    ("release", "function", "tail"),
    [
        ("6.12.94", "dd_has_work", "v6.12/A/ident/dd_has_work"),
        ("7.3.0-rc2", "dd_has_work.isra.0", "v7.3-rc2/A/ident/dd_has_work"),
        ("block-next", "dd_has_work", ""),
        ("6.12.94", "541 more", ""),
        ("6.12.94", "f/../x", ""),
    ],
)
def test_a_function_leads_to_its_source_where_that_is_known(
    release: str, function: str, tail: str
) -> None:
    run = examples.compared_run(facts={"release": release})
    cost = run.costs[0].model_copy(update={"functions": ((function, 1.0, 2.0),)})
    links = page(run.model_copy(update={"costs": (cost,)})).links
    elixir_links = [link for link in links if "elixir" in link]
    assert elixir_links == ([f"https://elixir.bootlin.com/linux/{tail}"] if tail else [])


def _luminance(color: str) -> float:
    digits = color * 2 if len(color) == 3 else color
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return math.fsum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_colours_of_text_have_contrast(mode: int) -> None:
    palette = re.findall(r":root \{ --bg.*?\}", page(PAIRED).source, re.S)[mode]
    colours = dict(re.findall(r"--(\w+):#(\w+)", palette))
    for name in ("fg", "soft", "good", "bad", "open", "a0", "a1", "a2", "a3"):
        for below in ("bg", "card"):
            darker, lighter = sorted(_luminance(colours[key]) for key in (name, below))
            assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (name, below)


def test_a_sweep_is_drawn_beside_what_was_published() -> None:
    text = page(examples.swept_run()).source
    assert "after (published)" in text
    assert "sq (published)" in text
    assert "improvement of amean_ms against before, by clients" in text


def test_every_boot_of_a_timed_finding_is_a_point() -> None:
    text = page(PAIRED).source
    rounds, strips, _ = re.findall(r'<svg class="plot".*?</svg>', text, re.S)
    assert rounds.count("<circle") == 6
    assert strips.count("<circle") == 12


@pytest.mark.parametrize(("later", "count"), [(100.02, 0), (150.0, 1)])
def test_a_history_is_that_of_several_kernels_with_change_points(later: float, count: int) -> None:
    known = [(float(n), f"kernel-{n}", 100.0 + n % 2 / 100) for n in range(6)]
    known += [(10.0 + n, f"later-{n}", later) for n in range(3)]
    text = page(PAIRED, lambda boot, metric: known).source
    assert "The same cells before" in text
    assert f"change points: {count}<" in text
    assert "The same cells before" not in page(PAIRED, lambda boot, metric: known[:1]).text


@pytest.mark.slow
def test_many_cells_make_a_page_that_can_be_sent() -> None:
    sizes = [len(page(examples.matrix_run(cells)).source) for cells in (400, 4000)]
    assert sizes[1] < 2_000_000
    assert sizes[1] < 12 * sizes[0]


def svgs(text: str) -> list[ET.Element]:
    elements = [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.S)]
    assert elements or not text
    return elements


def inside(svg: ET.Element) -> None:
    """Every point lies within the picture."""
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    for circle in svg.iter("circle"):
        assert 0 <= float(circle.attrib["cx"]) <= width
        assert 0 <= float(circle.attrib["cy"]) <= height
    for text in svg.iter("text"):
        assert 0 <= float(text.attrib["x"]) <= width
        assert float(text.attrib["y"]) <= height


@given(values, values)
def test_strips_stay_inside(before: list[float], after: list[float]) -> None:
    (drawing,) = svgs(svg.strips({"before": before, "after": after}, "ms"))
    inside(drawing)
    assert len(list(drawing.iter("circle"))) == len(before) + len(after)


@given(
    st.lists(st.floats(-0.99, 100), min_size=1, max_size=12),
    st.tuples(st.floats(-0.99, 10), st.floats(-0.99, 10)).map(sorted),
    st.sampled_from([(0.2, math.inf), (-math.inf, -0.5), (-0.01, 0.01), (0.0, 0.0)]),
)
def test_changes_stay_inside(
    rounds: list[float], ends: list[float], bound: tuple[float, float]
) -> None:
    for drawing in svgs(svg.change(rounds, Interval(*ends), Interval(*bound))):
        inside(drawing)


@given(st.lists(st.one_of(st.none(), st.floats(-0.99, 1e6)), min_size=1, max_size=9), st.booleans())
@example([5e-324], False)
def test_lines_stay_inside(curve: list[float | None], log: bool) -> None:
    labels = [str(number) for number in range(len(curve))]
    drawn = svg.lines(labels, {"after": curve, "after (published)": curve}, "t", log=log)
    for drawing in svgs(drawn):
        inside(drawing)


@given(values)
def test_points_are_small_enough_for_a_cell(numbers: list[float]) -> None:
    text = svg.points(numbers, max(numbers))
    assert text.count("M") == len(numbers)
    assert len(text) < 100 + 16 * len(numbers)
