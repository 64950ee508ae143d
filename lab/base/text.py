# SPDX-License-Identifier: GPL-2.0-or-later
"""Text for terminals and messages: numbers, and what others wrote."""

from __future__ import annotations

import re

_NOTHING = "-"
# All that a terminal obeys in place of showing it: control characters but for the newline and the
# tab, other ends of lines, what turns the direction of writing, and halves of characters.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""Text that a guest, a patch or a compiler wrote, with what a terminal would obey shown as an
    escape such as ``\x1b``. Visible text comes out as it went in.
    """
    return _UNSEEN.sub(lambda found: ascii(found[0])[1:-1], text)


def number(value: float | None) -> str:
    """A value with about four significant digits, thousands separated."""
    if value is None:
        return _NOTHING
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 or not value else f"{value:.3g}"


def percent(change: float, *, exact: bool) -> str:
    """A change, a fraction, as a signed percentage: the one way in which the lab writes it.

    It has one digit after the point. An exact change of less than 10 % has two, for thresholds are
    a quarter of a per cent, and up to four as long as it would read as zero without being it. Zero
    has a plus.
    """
    if not exact or abs(change) >= 0.1:
        return f"{100 * change:+z,.1f} %"
    digits = next((n for n in (2, 3, 4) if round(100 * abs(change), n)), 2)
    return f"{100 * change:+z.{digits}f} %"
