# SPDX-License-Identifier: GPL-2.0-or-later
"""Text of strangers in formats that others read: it stays text there.

Names, titles, reasons and what a guest said may come from a patch, a kernel or a claim that nobody
has looked at. HTML is escaped by the page's template.
"""

from __future__ import annotations

import re

from lab.base.text import visible

# In Markdown: code, columns, HTML, images and links; a backslash would undo the next escape.
_MARKUP = re.compile(r"[\\`|]|<(?=[A-Za-z/!?])|\](?=[(\[:])")
# What GitHub and GitLab make a notification of, or a line in somebody's issue.
_REFERENCE = re.compile(r"[@#](?=\w)")
# A paragraph that begins so is a heading, a quotation, a list, or a command to GitLab.
_BLOCK = re.compile(r"[#>+*=~:/-]")
# A number, perhaps with a unit that is no formula: what a spreadsheet may calculate with.
_NUMBER = re.compile(r"[-+]?[\d\s.,%±+eE-]*")
# Characters that XML 1.0 has no way to write.
_NOT_XML = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def markdown(text: str) -> str:
    """Text within a line of GitHub-flavoured Markdown, also in a table."""
    shown = _MARKUP.sub(r"\\\g<0>", " ".join(visible(text).split()))
    return _REFERENCE.sub(r"\g<0>&#8203;", shown)


def markdown_line(text: str) -> str:
    """Text that is a line of Markdown by itself."""
    shown = markdown(text)
    return f"\\{shown}" if _BLOCK.match(shown) else shown


def markdown_code(text: str) -> str:
    """Text as code within a line of Markdown, also in a table."""
    shown = " ".join(visible(text).split()).replace("`", "'").replace("|", "\\|")
    return f"`{shown}`"


def csv_cell(value: object) -> object:
    """A value in a table for spreadsheets: text that would be a formula gets a quote before it,
    numbers stay numbers.
    """
    if not isinstance(value, str):
        return value
    shown = visible(value)
    formula = shown.startswith("\t") or shown.lstrip().startswith(("=", "+", "-", "@"))
    return f"'{shown}" if formula and not _NUMBER.fullmatch(shown) else shown


def xml(text: str) -> str:
    """Text that XML can hold."""
    return _NOT_XML.sub("\ufffd", text)


def workflow_command(kind: str, title: str, text: str) -> str:
    """A command of GitHub Actions that shows a text, and nothing more than that one."""
    shown = [
        visible(part).replace("%", "%25").replace("\n", "%0A").replace("\r", "%0D")
        for part in (title, text)
    ]
    return f"::{kind} title={shown[0].replace(':', '%3A').replace(',', '%2C')}::{shown[1]}"


def identifier(text: str) -> str:
    """A part of a name of letters, digits, dots, dashes and underscores."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)
