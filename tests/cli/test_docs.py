# SPDX-License-Identifier: GPL-2.0-or-later
"""What the documentation has people type is what the lab takes."""

from __future__ import annotations

import re

import click
import pytest

from lab.base.system import PROJECT
from lab.cli import main

DOCS = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
# A command in code: in a line of an indented block, or between backticks.
_TYPED = re.compile(
    r"(?:^ {4,}(?:\S+/)?|`|; |\| )lab ([a-z][^`;|\n]*(?:\\\n[^`;|\n]*)*)", re.MULTILINE
)


def typed() -> list[tuple[str, str]]:
    """Every command with where it stands."""
    return [(doc.name, found) for doc in DOCS for found in _TYPED.findall(doc.read_text())]


def test_there_are_many() -> None:
    assert len(typed()) > 60
    assert {words.split()[0] for _, words in typed()} >= main.COMMANDS.keys() - {"schema"}


@pytest.mark.parametrize(("doc", "words"), typed(), ids=lambda one: one[:40].replace("_", "-"))
def test_every_command_and_option_that_is_named_is_there(doc: str, words: str) -> None:
    # What stands beside a command explains it.
    line = re.split(r"\s{2,}", words.replace("\\\n", " ").strip())[0]
    name, *rest = line.rstrip("\\").split()
    if name not in main.COMMANDS:
        pytest.skip("a sentence")
    own = main.command(name)
    if isinstance(own, click.Group) and rest:
        own = own.commands[rest.pop(0)]
    known = {option for one in own.params for option in (*one.opts, *one.secondary_opts)}
    known |= {"-h", "--help"}
    asked = {word.partition("=")[0] for word in rest if word.startswith("--") and word != "--"}
    assert asked <= known
    assert isinstance(own, click.Command)
