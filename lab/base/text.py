# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers as plain text, and text of strangers that can do nothing."""

from __future__ import annotations

import re

# Control characters but for newline and tab, what turns the direction of writing around or takes no
# room, other ends of lines, and halves of characters, which nobody can print.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
# What CI services take out of a log as commands to them: GitHub what is behind "::" where a line
# begins, others what is behind "##[" or "##vso[" anywhere.
_COMMAND = re.compile(r"^[^\S\n]*:(?=:)|#(?=#\w*\[)", re.MULTILINE)


def visible(text: str) -> str:
    r"""Text for a terminal or a log, whoever wrote it: all of it is seen, and it does nothing.

    Control characters but for newline and tab are written as escapes such as ``\x1b``, and so is
    the first character of what a CI service would take for a command. Visible text comes out as it
    went in.
    """
    shown = _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)
    return _COMMAND.sub(lambda match: f"{match[0][:-1]}\\x{ord(match[0][-1]):02x}", shown)


def number(value: float | None) -> str:
    """A value with about four significant digits, thousands separated."""
    if value is None:
        return "-"
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
