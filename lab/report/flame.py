# SPDX-License-Identifier: GPL-2.0-or-later
"""A flame graph of the difference between two profiles: static SVG, no script.

A box is as wide as what it costs after, its colour says what has changed, and its title, which a
browser shows where the pointer is, has the numbers. Widths are parts of the whole, so that it fits
a phone and a wide screen, and text keeps its size. Nothing is known of callers, so there are few
rows and many narrow functions: these are drawn high, with their names turned. Pure: profiles in,
text out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from lab.base.text import number, percent, visible
from lab.report import profiles
from lab.report.profiles import Costs, Profile, Stack
from lab.report.run_record import Run

_ROW = 22
_FUNCTION = 165  # the height of a function
# What is narrower is drawn together, unless it is one of what changed most; nobody sees what is
# narrower still.
_NARROW = 0.004
_HAIR = 0.001
_TELLING = 0.05
# Colours of changes: so many steps; the largest change of a function has the last, if it is so much
# of the whole, and so little of that has none.
_STEPS = 5
_STRONG = 0.01
_FAINT = 0.01
# A letter's share of a page, and a line's; what is narrower than a letter's or a line's room on a
# phone shows none there.
_LETTER = 0.0072
_LINE = 0.0155
_PHONE, _PHONES_LINE = 0.15, 0.045
# Letters of a name that is turned.
_TURNED = (_FUNCTION - 8) // 7
# What is left of a function that is all but gone; so many are named, for they have no width.
_GONE_BELOW = 0.01
_GONE = 5

# The same in the page and in a file of its own.
STYLE = """\
.flame { display:block; width:100% }
.flame text { font:12px system-ui, sans-serif; fill:var(--fg) }
.flame rect { fill:var(--line); fill-opacity:.55; stroke:var(--bg) }
.flame .more > rect { fill:var(--bad) } .flame .less > rect { fill:var(--a0) }
.flame .s1 > rect { fill-opacity:.14 } .flame .s2 > rect { fill-opacity:.23 }
.flame .s3 > rect { fill-opacity:.32 } .flame .s4 > rect { fill-opacity:.41 }
.flame .s5 > rect { fill-opacity:.5 }
@media (max-width:34rem) { .flame .thin { display:none } }
"""
_COLOURS = """\
:root { color-scheme:light dark; background:var(--bg);
  --bg:#fff; --fg:#1d2126; --line:#d9dee3; --bad:#b3261e; --a0:#3567c4 }
@media (prefers-color-scheme: dark) { :root {
  --bg:#14171a; --fg:#e4e8ec; --line:#343b42; --bad:#ff8a80; --a0:#82aaff } }
.title { font:14px system-ui, sans-serif; fill:var(--fg) }
"""


@dataclass(frozen=True)
class Box:
    """A part of what an I/O costs, before and after; what is in it, the widest first."""

    name: str
    before: float
    after: float
    inside: tuple[Box, ...] = ()

    @property
    def difference(self) -> float:
        """How much more it costs than before."""
        return self.after - self.before

    def leaves(self) -> Iterator[Box]:
        """The functions in it."""
        if not self.inside:
            yield self
        for own in self.inside:
            yield from own.leaves()


@dataclass(frozen=True)
class _Scale:
    """How boxes are drawn: what is as wide as the graph, the largest change of a function, the
    height of all.
    """

    whole: float
    largest: float
    height: int

    def told(self, box: Box) -> bool:
        """Whether a box is drawn by itself."""
        width = box.after / self.whole
        changed = abs(box.difference) >= _TELLING * self.largest > 0
        return width >= _NARROW or (changed and width >= _HAIR)

    def colour(self, box: Box) -> str:
        """The classes of a box: whether it costs more or less, and how much."""
        share = min(1.0, abs(box.difference) / max(self.largest, _STRONG * self.whole))
        if share <= _FAINT:
            return ""
        step = math.ceil(_STEPS * math.sqrt(share))
        return f"{'more' if box.difference > 0 else 'less'} s{step}"


def difference(before: Profile, after: Profile) -> str:
    """The graph of what two profiles cost; empty where nothing is left after."""
    return _graph(boxes(before, after), _unit(after))


def standalone(run: Run, costs: Costs, only: str = "") -> str:
    """All differences of a run below each other, as a file of its own; empty without any."""
    parts: list[str] = []
    top = 8
    for before, after in profiles.compared(run, costs, only).values():
        root = boxes(before, after)
        if graph := _graph(root, _unit(after)):
            for line in (
                f"{after.cell}: {_told(root, _unit(after), before.arm, after.arm)}",
                gone(root),
            ):
                if line:
                    parts.append(f'<text class="title" x="4" y="{top + 14}">{_text(line)}</text>')
                    top += 20
            parts.append(f'<svg y="{top}">{graph}</svg>')
            top += _height(root) + 16
    if not parts:
        return ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="100%" height="{top}">'
        f"<style>{STYLE}{_COLOURS}</style>{''.join(parts)}</svg>\n"
    )


def boxes(before: Profile, after: Profile) -> Box:
    """What two profiles have in them, as boxes in boxes."""
    every = dict.fromkeys((*after.stacks, *before.stacks))
    both = {s: (before.stacks.get(s, 0.0), after.stacks.get(s, 0.0)) for s in every}
    return _box("an I/O", both)


def gone(root: Box) -> str:
    """The functions that are hardly executed any more, and so have no width."""
    found = sorted(
        (b for b in root.leaves() if b.after <= _GONE_BELOW * b.before), key=lambda box: -box.before
    )
    telling = [box for box in found if box.before >= _HAIR * root.before]
    named = [f"{box.name} ({number(box.before)})" for box in telling[:_GONE]]
    more = [f"{len(telling) - _GONE} more"] if len(telling) > _GONE else []
    return f"All but gone: {', '.join(named + more)}." if named else ""


def _box(name: str, both: Mapping[Stack, tuple[float, float]]) -> Box:
    inner: dict[str, dict[Stack, tuple[float, float]]] = {}
    for stack, pair in both.items():
        if stack:
            inner.setdefault(stack[0], {})[stack[1:]] = pair
    inside = [_box(own, stacks) for own, stacks in inner.items()]
    inside.sort(key=lambda box: (-box.after, -box.before, box.name))
    before, after = (math.fsum(pair[side] for pair in both.values()) for side in (0, 1))
    return Box(name, before, after, tuple(inside))


def _graph(root: Box, unit: str) -> str:
    if root.after <= 0:
        return ""
    largest = max(abs(box.difference) for box in root.leaves())
    scale = _Scale(root.after, largest, _height(root))
    parts = "".join(_drawn(root, 0.0, 0, scale, unit))
    return (
        f'<svg class="flame" role="img" height="{scale.height}">'
        f"<title>{_text(f'Flame graph of {_told(root, unit)}')}</title>{parts}</svg>"
    )


def _drawn(box: Box, left: float, depth: int, scale: _Scale, unit: str) -> Iterator[str]:
    """A box, and below it what is in it; left is a part of the whole."""
    width, top = box.after / scale.whole, _ROW * depth
    height = _ROW if box.inside else scale.height - top
    label = _label(box, width) if depth else _heading(box, unit)
    yield (
        f'<svg class="{scale.colour(box)}" x="{100 * left:.3f}%" y="{top}"'
        f' width="{100 * width:.3f}%" height="{height}"><title>{_text(_told(box, unit))}</title>'
        f'<rect width="100%" height="100%"/>{label}</svg>'
    )
    for own in _together(box.inside, scale):
        yield from _drawn(own, left, depth + 1, scale, unit)
        left += own.after / scale.whole


def _together(inside: Sequence[Box], scale: _Scale) -> Iterator[Box]:
    """Boxes, and in place of those too narrow to be told one for them all."""
    yield from (box for box in inside if scale.told(box))
    rest = [box for box in inside if not scale.told(box) and box.after]
    if rest:
        sums = (math.fsum(box.before for box in rest), math.fsum(box.after for box in rest))
        yield Box(f"{len(rest)} smaller", *sums)


def _heading(box: Box, unit: str) -> str:
    return f'<text x="4" y="15">{_text(_told(box, unit))}</text>'


def _label(box: Box, width: float) -> str:
    """A box's name and its change, or what there is room for; a function's is turned if need be."""
    name = f"{box.name} {box.difference:+,.1f}" if abs(box.difference) >= 0.05 else box.name
    letters = int(width / _LETTER) - 1
    if letters >= len(box.name) or (box.inside and letters >= 3):
        hidden = ' class="thin"' if width < _PHONE else ""
        return f'<text x="4" y="15"{hidden}>{_text(_cut(box.name, name, letters))}</text>'
    if box.inside or width < _LINE:
        return ""
    hidden = ' class="thin"' if width < _PHONES_LINE else ""
    text = _text(_cut(box.name, name, _TURNED))
    return f'<text x="5" y="-5" transform="rotate(90)"{hidden}>{text}</text>'


def _cut(short: str, long: str, letters: int) -> str:
    if len(long) <= letters:
        return long
    return short if len(short) <= letters else f"{short[: letters - 1]}…"


def _told(box: Box, unit: str, *arms: str) -> str:
    """A box in numbers."""
    change = f" ({percent(box.difference / box.before, exact=True)})" if box.before else ""
    arrow = f"{number(box.before)} → {number(box.after)} {unit}"
    named = f"{' → '.join(arms)}, {arrow}" if arms else f"{box.name}: {arrow}"
    return f"{named}, {box.difference:+z,.2f}{change}"


def _height(box: Box) -> int:
    return _ROW + max(map(_height, box.inside)) if box.inside else _FUNCTION


def _unit(profile: Profile) -> str:
    return "ns" if profile.simulated else "instructions"


def _text(text: str) -> str:
    return escape(visible(text))
