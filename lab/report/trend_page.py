# SPDX-License-Identifier: GPL-2.0-or-later
"""The trends of branches as one static page, for a web server or a mail: no script, no network."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from html import escape

import jinja2
from markupsafe import Markup

from lab.base.text import number, percent, visible
from lab.report import trend
from lab.report.trend import BranchTrend, CellTrend

_TEMPLATE = "trend.html.j2"
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 340, 120, 46, 6, 8, 20
# However little a cell changes, the axis shows so much of it to both sides, and lines at steps of
# these, of which there are at most so many.
_LEAST = 0.0015
_GRID = tuple(digit * 10.0**power for power in range(-3, 3) for digit in (1, 2, 5))
_MOST_LINES = 5


def html(branches: Sequence[BranchTrend], least: float) -> str:
    """The page; least is the smallest step that was looked for, a fraction."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lab.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters |= {
        "change": lambda change: percent(change, exact=True),
        "number": number,
        "suspects": trend.suspects,
        "latest": _latest,
        "halves": _halves,
    }
    return environment.get_template(_TEMPLATE).render(
        branches=branches,
        least=f"{100 * least:g} %",
        now=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        bisection=trend.bisection,
        plot=lambda branch, cell: Markup(plot(branch, cell)),
    )


def plot(branch: BranchTrend, cell: CellTrend) -> str:
    """A cell over the nights as an SVG: its change from the first level in per cent, its steps."""
    known = [value for value in cell.values if value is not None]
    if not known or known[0] <= 0:
        return ""
    first = known[0]
    changes = [None if value is None else value / first - 1 for value in cell.values]
    low, high = min(c for c in changes if c is not None), max(c for c in changes if c is not None)
    middle = (low + high) / 2
    half = max(_LEAST, (high - low) / 2 * 1.1)
    low, high = middle - half, middle + half
    inner, bottom = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _BOTTOM

    def x(night: float) -> float:
        return _LEFT + inner * night / max(1, len(changes) - 1)

    def y(change: float) -> float:
        return _TOP + (bottom - _TOP) * (high - change) / (high - low)

    parts = []
    for tick in _ticks(low, high):
        style = "zero" if abs(tick) < 1e-9 else "grid"
        at = f"{y(tick):.1f}"
        parts.append(
            f'<line class="{style}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>'
            f'<text x="{_LEFT - 4}" y="{y(tick) + 4:.1f}" text-anchor="end">{_label(tick)}</text>'
        )
    for jump in cell.jumps:
        place = f"{x(jump.night - 0.5):.1f}"
        kind = "up" if jump.change > 0 else "down"
        parts.append(
            f'<line class="step {kind}" x1="{place}" x2="{place}" y1="{_TOP}" y2="{bottom}"/>'
        )
    parts.append(f'<path class="line" d="{_path(changes, x, y)}"/>')
    days = branch.nights[0].day, branch.nights[-1].day
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 4}">{days[0]}</text>')
    parts.append(
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 4}" text-anchor="end">{days[1]}</text>'
    )
    told = ", ".join(
        f"{percent(jump.change, exact=True)} on {branch.nights[jump.night].day}"
        for jump in cell.jumps
    )
    title = escape(visible(f"{cell.name}, {len(known)} nights: {told or 'no step'}"))
    view = f"0 0 {_WIDTH} {_HEIGHT}"
    return f'<svg viewBox="{view}" role="img" aria-label="{title}">{"".join(parts)}</svg>'


def _path(
    changes: Sequence[float | None], x: Callable[[float], float], y: Callable[[float], float]
) -> str:
    """A line through the nights; a night without a value is a gap."""
    words, pen = [], "M"
    for night, change in enumerate(changes):
        if change is None:
            pen = "M"
            continue
        words.append(f"{pen}{x(night):.1f} {y(change):.1f}")
        pen = "L"
    return "".join(words)


def _ticks(low: float, high: float) -> list[float]:
    """Round changes between two, a tenth of a per cent apart at least."""
    apart = next((g for g in _GRID if (high - low) / g <= _MOST_LINES), _GRID[-1])
    first = math.ceil(low / apart)
    return [apart * count for count in range(first, math.floor(high / apart) + 1)]


def _label(tick: float) -> str:
    return f"{100 * tick:+z.1f} %".replace("+0.0 %", "0 %")


def _latest(cell: CellTrend) -> float | None:
    return next((value for value in reversed(cell.values) if value is not None), None)


def _halves(branch: BranchTrend) -> list[tuple[str, list[CellTrend], bool]]:
    """The cells with steps, and the others, which are closed where there are some of the first."""
    stepped = [cell for cell in branch.cells if cell.jumps]
    others = [cell for cell in branch.cells if not cell.jumps]
    return [
        (f"{len(stepped)} cell(s) with a step", stepped, True),
        (f"{len(others)} cell(s) without a step", others, not stepped),
    ]
