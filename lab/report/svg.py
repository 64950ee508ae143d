# SPDX-License-Identifier: GPL-2.0-or-later
"""Small SVG plots that take their colours from the page's style sheet, light or dark.

Written here and not drawn by a plotting library, because they must stay small by the thousand,
scale to a phone and follow the reader's colours. Pure: numbers in, text out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

from lab.base.stats import Interval
from lab.base.text import visible

_WIDTH = 460
_LEFT, _RIGHT = 52, 12
_INNER = _WIDTH - _LEFT - _RIGHT


def points(values: Sequence[float], top: float) -> str:
    """One line of points, one a boot, on a scale from 0 to top; small enough for a table cell."""
    places = (96 * max(0.0, min(1.0, value / top)) + 2 if top > 0 else 2 for value in values)
    path = "".join(f"M{place:.1f} 4h0" for place in places)
    return f'<svg class="pts" viewBox="0 0 100 8" aria-hidden="true"><path d="{path}"/></svg>'


def published_and_measured(
    published: Sequence[float], measured: float | None, interval: Sequence[float], reach: float
) -> str:
    """A strip with the published change (a bar; two for a range), the measured one (a dot) and its
    interval (a line); small enough for a table cell.

    All are ratios of after to before. The scale is logarithmic, from 1 / reach to reach; what lies
    beyond is drawn at its end.
    """

    def x(ratio: float) -> float:
        place = math.log(max(ratio, 1e-9)) / math.log(reach)
        return 50 + 46 * max(-1.0, min(1.0, place))

    parts = ['<path class="one" d="M50 0v20"/>']
    if len(interval) == 2:
        parts.append(f'<path class="range" d="M{x(interval[0]):.1f} 10H{x(interval[1]):.1f}"/>')
    parts += [f'<path class="told" d="M{x(ratio):.1f} 3v14"/>' for ratio in published]
    if measured is not None:
        parts.append(f'<path class="seen" d="M{x(measured):.1f} 10h0"/>')
    return (
        '<svg class="strip" viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )


def strips(values: Mapping[str, Sequence[float]], unit: str) -> str:
    """A line of points for each arm, one a boot, with a mark at the mean; the scale begins at 0."""
    top = max((max(own) for own in values.values() if own), default=0.0)
    if top <= 0:
        return ""
    height = 26 * len(values) + 24
    parts = []
    for row, (arm, own) in enumerate(values.items()):
        y = 26 * row + 14
        parts.append(_text(_LEFT + 18, y + 4, arm, "end"))
        parts.append(f'<line class="grid" x1="{_LEFT + 26}" x2="{_WIDTH - 8}" y1="{y}" y2="{y}"/>')
        for value in own:
            parts.append(
                f'<circle class="a{row % 4}" cx="{_strip_x(value, top):.1f}" cy="{y}" r="4"/>'
            )
        if own:
            x = _strip_x(math.fsum(own) / len(own), top)
            parts.append(f'<path class="mean" d="M{x:.1f} {y - 9}v18"/>')
    parts.append(_text(_LEFT + 26, height - 4, "0"))
    parts.append(_text(_WIDTH - 8, height - 4, f"{_short(top)} {unit}", "end"))
    return _svg(height, f"one point a boot: {', '.join(values)}", parts)


def change(rounds: Sequence[float], interval: Interval | None, bound: Interval) -> str:
    """The change of each round, the interval of the mean, and what was expected (shaded).

    All are fractions; the line is no change.
    """
    ends = [0.0, *rounds, *_finite(interval), *_finite(bound)]
    low, high = min(ends), max(ends)
    margin = 0.08 * (high - low) or 0.01
    low, high = low - margin, high + margin

    def x(value: float) -> float:
        return 8 + (_WIDTH - 16) * (max(low, min(high, value)) - low) / (high - low)

    shade = x(bound.low), x(bound.high)
    parts = [
        f'<rect class="bound" x="{shade[0]:.1f}" y="2" width="{max(2, shade[1] - shade[0]):.1f}"'
        ' height="46"/>',
        f'<line class="zero" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="2" y2="48"/>',
    ]
    if interval:
        left, right = x(interval.low), x(interval.high)
        parts.append(f'<path class="ci" d="M{left:.1f} 36H{right:.1f}M{left:.1f} 30v12"/>')
        parts.append(f'<path class="ci" d="M{right:.1f} 30v12"/>')
    parts += [f'<circle class="a1" cx="{x(value):.1f}" cy="16" r="4"/>' for value in rounds]
    for value in sorted({low + margin, 0.0, high - margin}):
        anchor = "middle" if 40 < x(value) < _WIDTH - 40 else ("start" if x(value) < 99 else "end")
        if value == 0 or abs(x(value) - x(0)) > 60:
            parts.append(_text(x(value), 62, f"{100 * value:+.0f} %", anchor))
    return _svg(68, "change of each round, its interval, and the expected range", parts)


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
    values = [value for own in series.values() for value in own if value is not None]
    if not values or (log and min(values) <= 0):
        return ""
    scale = math.log10 if log else float
    ends = [scale(value) for value in values] + ([] if log else [0.0])
    low, high = _apart(min(ends), max(ends))
    height, bottom = 240, 210

    def y(value: float) -> float:
        return bottom - (bottom - 16) * (scale(value) - low) / (high - low)

    step = _INNER / max(1, len(labels))
    places = [_LEFT + step * (number + 0.5) for number in range(len(labels))]
    parts = []
    for tick in _ticks(low, high):
        value = 10**tick if log else tick
        shown = f"{100 * value:+z.0f} %".replace("+0 %", "0 %") if percent else _short(value)
        style = "zero" if tick == 0 and not log else "grid"
        parts.append(
            f'<line class="{style}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value):.1f}"'
            f' y2="{y(value):.1f}"/>'
        )
        parts.append(_text(_LEFT - 6, y(value) + 4, shown, "end"))
    parts += [
        _text(x, bottom + 18, label, "middle") for x, label in zip(places, labels, strict=True)
    ]
    parts += [f'<path class="mean" d="M{places[mark]:.1f} 16V{bottom}"/>' for mark in marks]
    solid = [_stem(name) for name in series if name not in dashed]
    styles = {
        name: f"a{(solid.index(_stem(name)) if _stem(name) in solid else len(solid)) % 4}"
        + (" dash" if name in dashed else "")
        for name in series
    }
    for name, curve in series.items():
        parts.append(_line(places, curve, y, styles[name]))
        for x, known in zip(places, curve, strict=True):
            if known is not None and name not in dashed:
                parts.append(
                    f'<circle class="{styles[name]}" cx="{x:.1f}" cy="{y(known):.1f}" r="4"/>'
                )
    legend = "".join(
        f'<span class="key {style}">{_escaped(name)}</span>' for name, style in styles.items()
    )
    return f'<div class="legend">{legend}</div>{_svg(height, title, parts)}'


def _stem(name: str) -> str:
    """A series without its qualification: "mq" of "mq (published)"; both have one colour."""
    return name.split(" (")[0]


def _line(
    places: Sequence[float],
    values: Sequence[float | None],
    y: Callable[[float], float],
    style: str,
) -> str:
    path, pen = "", "M"
    for x, value in zip(places, values, strict=True):
        path += f"{pen}{x:.1f} {y(value):.1f}" if value is not None else ""
        pen = "L" if value is not None else "M"
    return f'<path class="line {style}" d="{path}"/>'


def _apart(low: float, high: float) -> tuple[float, float]:
    """The ends of an axis. What is hardly apart is drawn as equal: it has no round numbers."""
    return (low - 0.5, high + 0.5) if high - low < 1e-9 else (low, high)


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers from low to high."""
    rough = (high - low) / 4
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{step * number:.12g}") for number in range(first, last + 1)]


def _strip_x(value: float, top: float) -> float:
    return _LEFT + 30 + (_WIDTH - _LEFT - 42) * value / top


def _finite(interval: Interval | None) -> list[float]:
    ends = (interval.low, interval.high) if interval else ()
    return [end for end in ends if math.isfinite(end) and end > -1]


def _short(value: float) -> str:
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * size or (abs(value) >= size and suffix != "k"):
            return f"{value / size:.4g}{suffix}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    return escape(visible(text))


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg class="plot" role="img" viewBox="0 0 {_WIDTH} {height:.0f}">'
        f"<title>{_escaped(title)}</title>{''.join(parts)}</svg>"
    )
