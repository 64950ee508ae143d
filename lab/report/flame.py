# SPDX-License-Identifier: GPL-2.0-or-later
"""A flame graph of the difference between two profiles: static SVG, no script.

A box is as wide as what it costs after, its colour says what has changed, and its title, which a
browser shows where the pointer is, has the numbers. What is gone has no width then, so where that
tells something a second graph is as wide as what it cost before. Widths are parts of the whole: it
fits a phone and a wide screen, and text keeps its size. Where the kernel's stacks were followed a
function lies below its caller. Else there are few rows and many narrow functions: these are drawn
high, with their names turned.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

from lab.base.text import number, percent
from lab.report import profiles, svg
from lab.report.profiles import CostProfile, Costs, Stack
from lab.report.run_record import RunRecord

_ROW = 22
_FUNCTION = 165  # the height of a function without callers
# The rows of the whole, the kernel, the block layer and a function: more are of callers.
_ROWS_WITHOUT_CALLERS = 4
# What is narrower is drawn together, unless it is one of what changed most; nobody sees what is
# narrower still.
_NARROW = 0.004
_HAIR = 0.001
_TELLING = 0.05
# Colours of changes: so many steps; the largest change of a function has the last, if it is so much
# of the whole, and so little of that has none.
_STEPS = 5
_STRONG = 0.01
_FAINT = 0.015
# A letter's share of a page as wide as it can be, and a line's; of narrower ones a name and a line
# take so much.
_LETTER, _LINE = 0.0072, 0.0155
_NARROWER_LINE, _PHONES_LINE, _PHONES_NAME = 0.029, 0.045, 0.15
# Letters of a name that is turned.
_TURNED = (_FUNCTION - 8) // 7
# What is left of a function that is all but gone; so many are named, for they have no width.
_GONE_BELOW = 0.01
_GONE = 5

# What a file of its own has beside the page's rules.
_ALONE = """\
:root { color-scheme:light dark; background:var(--bg) }
.title { font:14px system-ui, sans-serif; fill:var(--fg) }
"""


@dataclass(frozen=True)
class Box:
    """A part of what an I/O costs, before and after, and what is in it."""

    name: str
    before: float
    after: float
    inside: tuple[Box, ...] = ()

    @property
    def difference(self) -> float:
        """How much more it costs than before."""
        return self.after - self.before

    @property
    def change(self) -> str:
        """The same in per cent; empty for what is new."""
        return percent(self.difference / self.before, exact=True) if self.before else ""

    @cached_property
    def own(self) -> tuple[float, float]:
        """What it costs itself before and after, without what is in it."""
        before = self.before - math.fsum(box.before for box in self.inside)
        return before, self.after - math.fsum(box.after for box in self.inside)

    @property
    def own_difference(self) -> float:
        """How much more it costs itself than before."""
        return self.own[1] - self.own[0]

    def every(self) -> Iterator[Box]:
        """Itself and all boxes in it."""
        yield self
        for child in self.inside:
            yield from child.every()


@dataclass(frozen=True)
class Graph:
    """A graph as it is drawn: as wide as what it costs in an arm, and its height in pixels.

    gone says what it has and the one of the other arm has not.
    """

    svg: str
    height: int
    arm: str
    gone: str = ""


def graphs(before: CostProfile, after: CostProfile) -> list[Graph]:
    """The graph that is as wide as after, and where something is gone the one as wide as before.

    None of an arm that costs nothing.
    """
    every = dict.fromkeys((*after.stacks, *before.stacks))
    both = {stack: (before.stacks.get(stack, 0.0), after.stacks.get(stack, 0.0)) for stack in every}
    unit, root = "ns" if after.simulated else "instructions", _box("an I/O", both)
    drawn = []
    if root.after > 0:
        scale = _Scale(root, unit)
        drawn.append(Graph(_svg(scale), scale.height(root), after.arm))
    if gone := _gone(root):
        scale = _Scale(root, unit, of_before=True)
        drawn.append(Graph(_svg(scale), scale.height(root), before.arm, gone))
    return drawn


def standalone(run: RunRecord, costs: Costs, only: str = "") -> str:
    """All differences of a run below each other, as a file of its own; empty without any."""
    parts: list[str] = []
    top = 8
    for before, after in profiles.compared(run, costs, only).values():
        for graph in graphs(before, after):
            title = f"{after.cell}: {before.arm} → {after.arm}, as wide as {graph.arm}"
            parts.append(f'<text class="title" x="4" y="{top + 14}">{svg.text(title)}</text>')
            parts.append(f'<svg y="{top + 20}">{graph.svg}</svg>')
            top += graph.height + 36
    if not parts:
        return ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="100%" height="{top}">'
        f"<style>{_style()}</style>{''.join(parts)}</svg>\n"
    )


def _style() -> str:
    """The page's style in its light colours, and in its dark ones where these are wanted: what
    shows a file of its own may not know variables.
    """
    folder = resources.files("lab.report")
    rules = (folder / "flame.css.j2").read_text().partition("\n")[2] + _ALONE
    page = (folder / "style.css.j2").read_text().split("prefers-color-scheme: dark")
    light, dark = (_coloured(rules, dict(re.findall(r"--(\w+):(#\w+)", half))) for half in page)
    return f"{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


def _coloured(rules: str, colours: Mapping[str, str]) -> str:
    return re.sub(r"var\(--(\w+)\)", lambda name: colours[name[1]], rules)


@dataclass(frozen=True)
class _Scale:
    """How the boxes of a root are drawn: in which unit, as wide as before or as after."""

    root: Box
    unit: str
    of_before: bool = False

    def cost(self, box: Box) -> float:
        """What a box is as wide as."""
        return box.before if self.of_before else box.after

    def width(self, box: Box) -> float:
        """How wide a box is, as a part of the whole."""
        return self.cost(box) / self.cost(self.root)

    @cached_property
    def largest(self) -> float:
        """The change that has the strongest colour."""
        every = max(abs(box.own_difference) for box in self.root.every())
        return max(every, _STRONG * self.root.after, _STRONG * self.root.before)

    def is_drawn_alone(self, box: Box) -> bool:
        """Whether a box is drawn by itself."""
        width, changed = self.width(box), abs(box.difference) >= _TELLING * self.largest
        return width >= _NARROW or (changed and width >= _HAIR)

    def colour(self, box: Box) -> str:
        """The classes of a box: whether it costs more or less, and how much."""
        share = min(1.0, abs(box.own_difference) / self.largest)
        if share <= _FAINT:
            return ""
        step = math.ceil(_STEPS * math.sqrt(share))
        return f"{'more' if box.own_difference > 0 else 'less'} s{step}"

    @cached_property
    def leaf_height(self) -> int:
        """The height of a function that calls none."""
        return _ROW if self.rows(self.root) > _ROWS_WITHOUT_CALLERS else _FUNCTION

    def is_high(self, box: Box) -> bool:
        """Whether a box is a function that has room for a name that is turned."""
        return not box.inside and self.leaf_height > _ROW

    def height(self, box: Box) -> int:
        """The height of a box and all in it."""
        return _ROW * (self.rows(box) - 1) + self.leaf_height

    def rows(self, box: Box) -> int:
        """A box's own row, and those of what is drawn below it."""
        below = (self.rows(child) if self.is_drawn_alone(child) else 1 for child in box.inside)
        return 1 + max(below, default=0)


def _box(name: str, both: Mapping[Stack, tuple[float, float]]) -> Box:
    """A box of stacks with their costs before and after; in it a box for each first frame."""
    inner: dict[str, dict[Stack, tuple[float, float]]] = {}
    for stack, pair in both.items():
        if stack:
            inner.setdefault(stack[0], {})[stack[1:]] = pair
    before, after = (math.fsum(pair[side] for pair in both.values()) for side in (0, 1))
    return Box(name, before, after, tuple(_box(child, stacks) for child, stacks in inner.items()))


def _gone(root: Box) -> str:
    """The functions that are hardly executed any more, the costliest first."""
    before: defaultdict[str, float] = defaultdict(float)
    after: defaultdict[str, float] = defaultdict(float)
    for box in root.every():
        before[box.name] += box.own[0]
        after[box.name] += box.own[1]
    least = _NARROW * root.before
    wide = [n for n, v in before.items() if v >= least and v and after[n] <= _GONE_BELOW * v]
    wide.sort(key=lambda name: (-before[name], name))
    named = [f"{name} ({number(before[name])})" for name in wide[:_GONE]]
    more = [f"{len(wide) - _GONE} more"] if len(wide) > _GONE else []
    return ", ".join(named + more)


def _svg(scale: _Scale) -> str:
    kind = "Profile" if scale.leaf_height > _ROW else "Flame graph"
    title = svg.text(f"{kind} of {_description(scale.root, scale.unit)}")
    return (
        f'<svg class="flame" role="img" height="{scale.height(scale.root)}"><title>{title}</title>'
        f"{''.join(_drawn(scale.root, 0.0, 0, scale))}</svg>"
    )


def _drawn(box: Box, left: float, depth: int, scale: _Scale) -> Iterator[str]:
    """A box, and below it what is in it; left is a part of the whole."""
    width, top = scale.width(box), _ROW * depth
    height = scale.height(scale.root) - top if scale.is_high(box) else _ROW
    yield (
        f'<svg class="{scale.colour(box)}" x="{100 * left:.3f}%" y="{top}"'
        f' width="{100 * width:.3f}%" height="{height}">'
        f"<title>{svg.text(_description(box, scale.unit))}</title>"
        f'<rect width="100%" height="100%"/>{_label(box, scale)}</svg>'
    )
    for child in _together(box.inside, scale):
        yield from _drawn(child, left, depth + 1, scale)
        left += scale.width(child)


def _together(inside: Sequence[Box], scale: _Scale) -> Iterator[Box]:
    """Boxes, the widest first, then one box for all that are too narrow to be drawn alone."""
    alone = [box for box in inside if scale.is_drawn_alone(box)]
    yield from sorted(alone, key=lambda box: (-scale.cost(box), box.name))
    rest = [box for box in inside if scale.cost(box) and not scale.is_drawn_alone(box)]
    if rest:
        sums = (math.fsum(box.before for box in rest), math.fsum(box.after for box in rest))
        yield Box(f"{len(rest)} smaller", *sums)


def _label(box: Box, scale: _Scale) -> str:
    """A box's name and its change, or what there is room for; a function's is turned if need be."""
    if box is scale.root:
        costs = f"{number(box.before)} → {number(box.after)} {scale.unit}"
        return _line(f"{box.name} {box.change}: {costs}")
    long = f"{box.name} {box.difference:+,.1f}" if scale.colour(box) else box.name
    width = scale.width(box)
    letters = int(width / _LETTER) - 1
    if letters >= len(box.name) or (not scale.is_high(box) and letters >= 3):
        hidden = "thin" if width < _PHONES_NAME else ""
        return _line(_cut(box.name, long, letters), hidden)
    if not scale.is_high(box) or width < _LINE:
        return ""
    hidden = "slim" if width < _NARROWER_LINE else "thin" if width < _PHONES_LINE else ""
    return _line(_cut(box.name, long, _TURNED), hidden, turned=True)


def _line(text: str, hidden: str = "", *, turned: bool = False) -> str:
    kind = f' class="{hidden}"' if hidden else ""
    place = 'x="5" y="-5" transform="rotate(90)"' if turned else 'x="4" y="15"'
    return f"<text {place}{kind}>{svg.text(text)}</text>"


def _cut(short: str, long: str, letters: int) -> str:
    if len(long) <= letters:
        return long
    return short if len(short) <= letters else f"{short[: letters - 1]}…"


def _description(box: Box, unit: str) -> str:
    """A box in numbers."""
    costs = f"{number(box.before)} → {number(box.after)} {unit}, {box.difference:+z,.2f}"
    itself = f", itself {box.own_difference:+z,.2f}" if box.inside else ""
    return f"{box.name}: {costs} ({box.change or 'new'}){itself}"
