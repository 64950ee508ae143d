# SPDX-License-Identifier: GPL-2.0-or-later
"""Small SVG plots that take their colours from the page's style sheet, light or dark.

Written here and not drawn by a plotting library, because they must stay small by the thousand,
scale to a phone and follow the reader's colours. Pure: numbers in, text out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from lab.base.stats import Interval
from lab.base.text import visible

_WIDTH, _HEIGHT = 460, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 16, 30
# The same of a trend, of which a page has hundreds.
_NARROW, _LOW, _TREND_LEFT, _TREND_RIGHT, _TREND_TOP, _TREND_BOTTOM = 340, 120, 46, 6, 8, 20
# However little a trend changes, its axis shows so much of that to both sides.
_LEAST = 0.0015
# A strip reaches from a sixteenth to sixteen times as much; these ratios are marked.
_REACH = 16.0
_MARKED = (0.1, 0.5, 1, 2, 10)

Scale = Callable[[float], float]


def text(words: str) -> str:
    """Words of anybody as text in SVG and HTML."""
    return escape(visible(words))


def points(values: Sequence[float], top: float) -> str:
    """One line of points, one a boot, on a scale from 0 to top; small enough for a table cell."""
    places = (96 * max(0.0, min(1.0, value / top)) + 2 if top > 0 else 2 for value in values)
    path = "".join(f"M{place:.1f} 4h0" for place in places)
    return f'<svg class="pts" viewBox="0 0 100 8" aria-hidden="true"><path d="{path}"/></svg>'


def strip(
    published: Iterable[float], measured: float | None, interval: Sequence[float | None]
) -> str:
    """The published change (a bar; two for a range), the measured one (a dot) and its interval (a
    line), all as fractions; small enough for a table cell.

    The scale is that of strip_ticks; what lies beyond is drawn at its end.
    """
    parts = ['<path class="one" d="M50 0v20"/>']
    ends = [f"{_strip(1 + end):.1f}" for end in interval if end is not None]
    if len(ends) == 2:
        parts.append(f'<path class="range" d="M{ends[0]} 10H{ends[1]}"/>')
    parts += [f'<path class="told" d="M{_strip(1 + change):.1f} 3v14"/>' for change in published]
    if measured is not None:
        parts.append(f'<path class="seen" d="M{_strip(1 + measured):.1f} 10h0"/>')
    return (
        '<svg class="strip" viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )


def strip_ticks() -> list[tuple[str, float]]:
    """The marks of the scale of strips, which is logarithmic: text, and place in per cent."""
    return [(f"{100 * ratio - 100:+.0f} %", _strip(ratio)) for ratio in _MARKED]


def strips(values: Mapping[str, Sequence[float]], unit: str) -> str:
    """A line of points for each arm, one a boot, with a mark at the mean; the scale begins at 0."""
    top = max((max(arm_values) for arm_values in values.values() if arm_values), default=0.0)
    if top <= 0:
        return ""
    height, left, right = 26 * len(values) + 24, _LEFT + 26, _WIDTH - 8
    x = _scale(0, top, left + 4, right - 4)
    parts = []
    for row, (arm, arm_values) in enumerate(values.items()):
        y = 26 * row + 14
        parts.append(_text(left - 8, y + 4, arm, "end"))
        parts.append(_line("grid", left, right, y, y))
        parts += [_point(f"a{row % 4}", x(value), y) for value in arm_values]
        if arm_values:
            mean = math.fsum(arm_values) / len(arm_values)
            parts.append(f'<path class="mean" d="M{x(mean):.1f} {y - 9}v18"/>')
    parts.append(_text(left, height - 4, "0"))
    parts.append(_text(right, height - 4, f"{_short(top)} {unit}", "end"))
    return _svg(_WIDTH, height, f"one point a boot: {', '.join(values)}", parts)


def change(rounds: Sequence[float], interval: Interval | None, bound: Interval) -> str:
    """The change of each round, the interval of the mean, and what was expected (shaded).

    All are fractions; the line is no change.
    """
    known = [end for limits in (interval, bound) if limits for end in (limits.low, limits.high)]
    ends = [0.0, *rounds, *(end for end in known if math.isfinite(end) and end > -1)]
    margin = 0.08 * (max(ends) - min(ends)) or 0.01
    low, high = min(ends) - margin, max(ends) + margin

    def x(value: float) -> float:
        return 8 + (_WIDTH - 16) * (max(low, min(high, value)) - low) / (high - low)

    left, width = x(bound.low), max(2, x(bound.high) - x(bound.low))
    parts = [
        f'<rect class="bound" x="{left:.1f}" y="2" width="{width:.1f}" height="46"/>',
        _line("zero", x(0), x(0), 2, 48),
    ]
    if interval:
        left, right = x(interval.low), x(interval.high)
        ends_path = f"M{left:.1f} 36H{right:.1f}M{left:.1f} 30v12M{right:.1f} 30v12"
        parts.append(f'<path class="ci" d="{ends_path}"/>')
    parts += [_point("a1", x(value), 16) for value in rounds]
    for value in sorted({low + margin, 0.0, high - margin}):
        anchor = "middle" if 40 < x(value) < _WIDTH - 40 else ("start" if x(value) < 99 else "end")
        if value == 0 or abs(x(value) - x(0)) > 60:
            parts.append(_text(x(value), 62, f"{100 * value:+.0f} %", anchor))
    return _svg(_WIDTH, 68, "change of each round, its interval, and the expected range", parts)


def lines(
    labels: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    title: str,
    *,
    dashed: Sequence[str] = (),
    marks: Sequence[int] = (),
    log: bool = False,
    percent: bool = False,
) -> str:
    """Values over categories, a line for each series with a point at each value.

    None leaves a gap; dashed series are drawn so; marks are the numbers of categories at which a
    vertical line stands. With log the scale is logarithmic.
    """
    values = [value for curve in series.values() for value in curve if value is not None]
    if not values or (log and min(values) <= 0):
        return ""
    scale = math.log10 if log else float
    ends = [scale(value) for value in values] + ([] if log else [0.0])
    low, high = _apart(min(ends), max(ends))
    bottom = _HEIGHT - _BOTTOM

    def y(value: float) -> float:
        return bottom - (bottom - _TOP) * (scale(value) - low) / (high - low)

    def shown(tick: float) -> str:
        return f"{100 * tick:+z.0f} %".replace("+0 %", "0 %") if percent else _short(tick)

    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(labels))
    places = [_LEFT + step * (number + 0.5) for number in range(len(labels))]
    parts = []
    for tick in _ticks(low, high):
        value = 10**tick if log else tick
        style = "zero" if tick == 0 and not log else "grid"
        parts.append(_line(style, _LEFT, _WIDTH - _RIGHT, y(value), y(value)))
        parts.append(_text(_LEFT - 6, y(value) + 4, shown(value), "end"))
    for x, label in zip(places, labels, strict=True):
        parts.append(_text(x, bottom + 18, label, "middle"))
    parts += [f'<path class="mean" d="M{places[mark]:.1f} {_TOP}V{bottom}"/>' for mark in marks]
    styles = _styles(series, dashed)
    for name, curve in series.items():
        parts.append(f'<path class="line {styles[name]}" d="{_path(places, curve, y)}"/>')
        if name not in dashed:
            known = zip(places, curve, strict=True)
            parts += [_point(styles[name], x, y(value)) for x, value in known if value is not None]
    legend = "".join(
        f'<span class="key {style}">{text(name)}</span>' for name, style in styles.items()
    )
    return f'<div class="legend">{legend}</div>{_svg(_WIDTH, _HEIGHT, title, parts)}'


def trend(
    values: Sequence[float | None],
    steps: Mapping[int, float],
    ends: tuple[str, str],
    title: str,
) -> str:
    """The change from the first value in per cent, night by night; None leaves a gap.

    steps are changes by the night at which a vertical line stands; ends are the first and the last
    day. Empty where the first value is nothing.
    """
    first = next((value for value in values if value is not None), 0.0)
    if first <= 0:
        return ""
    changes = [None if value is None else value / first - 1 for value in values]
    known = [change for change in changes if change is not None]
    middle, half = (min(known) + max(known)) / 2, 0.55 * (max(known) - min(known))
    low, high = middle - max(_LEAST, half), middle + max(_LEAST, half)
    right, bottom = _NARROW - _TREND_RIGHT, _LOW - _TREND_BOTTOM
    x = _scale(0, max(1, len(changes) - 1), _TREND_LEFT, right)
    y = _scale(high, low, _TREND_TOP, bottom)
    parts = []
    for tick in _ticks(low, high, 5):
        parts.append(_line("grid" if tick else "zero", _TREND_LEFT, right, y(tick), y(tick)))
        shown = f"{100 * tick:+.1f} %" if tick else "0 %"
        parts.append(_text(_TREND_LEFT - 4, y(tick) + 4, shown, "end"))
    for night, size in steps.items():
        style, place = "step up" if size > 0 else "step down", x(night - 0.5)
        parts.append(_line(style, place, place, _TREND_TOP, bottom))
    places = [x(night) for night in range(len(changes))]
    parts.append(f'<path class="line" d="{_path(places, changes, y)}"/>')
    parts.append(_text(_TREND_LEFT, _LOW - 4, ends[0]))
    parts.append(_text(right, _LOW - 4, ends[1], "end"))
    return _svg(_NARROW, _LOW, title, parts)


def _scale(low: float, high: float, start: float, end: float) -> Scale:
    """Where a value lies between start and end, if low is drawn at start and high at end."""
    return lambda value: start + (end - start) * (value - low) / (high - low)


def _styles(series: Iterable[str], dashed: Sequence[str]) -> dict[str, str]:
    """The classes of curves; "mq" and "mq (published)" have one colour."""
    solid = [name.split(" (")[0] for name in series if name not in dashed]
    styles = {}
    for name in series:
        stem = name.split(" (")[0]
        number = solid.index(stem) if stem in solid else len(solid)
        styles[name] = f"a{number % 4}" + (" dash" if name in dashed else "")
    return styles


def _strip(ratio: float) -> float:
    place = math.log(max(ratio, 1e-9)) / math.log(_REACH)
    return 50 + 46 * max(-1.0, min(1.0, place))


def _path(places: Sequence[float], values: Sequence[float | None], y: Scale) -> str:
    """A line through what is known; a value that is not leaves a gap."""
    path, pen = "", "M"
    for x, value in zip(places, values, strict=True):
        path += f"{pen}{x:.1f} {y(value):.1f}" if value is not None else ""
        pen = "L" if value is not None else "M"
    return path


def _apart(low: float, high: float) -> tuple[float, float]:
    """The ends of an axis. What is hardly apart is drawn as equal: it has no round numbers."""
    return (low - 0.5, high + 0.5) if high - low < 1e-9 else (low, high)


def _ticks(low: float, high: float, steps: int = 4) -> list[float]:
    """Round numbers from low to high, so many steps at most."""
    rough = (high - low) / steps
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{step * number:.12g}") for number in range(first, last + 1)]


def _short(value: float) -> str:
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * size or (abs(value) >= size and suffix != "k"):
            return f"{value / size:.4g}{suffix}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _line(style: str, x1: float, x2: float, y1: float, y2: float) -> str:
    return f'<line class="{style}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _point(style: str, x: float, y: float) -> str:
    return f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text(words)}</text>'


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg class="plot" role="img" viewBox="0 0 {width} {height}">'
        f"<title>{text(title)}</title>{''.join(parts)}</svg>"
    )
