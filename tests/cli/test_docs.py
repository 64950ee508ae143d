# SPDX-License-Identifier: GPL-2.0-or-later
"""What the documentation has people type is what the lab takes."""

from __future__ import annotations

import re
import textwrap
import tomllib
from pathlib import Path

import click
import pytest

from lab.base import toml
from lab.base.system import PROJECT
from lab.cli import main
from lab.cli.verb import Verb
from lab.commands.gate_config import Gate
from lab.inputs import series
from lab.inputs.counters import Counter
from lab.inputs.topology import Topology
from lab.inputs.workload import Workload
from lab.judge import well_formed

DOCS = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
# A command in code: in a line of an indented block, or between backticks.
_TYPED = re.compile(
    r"(?:^ {4,}(?:\S+/)?|`|; |\| )lab ([a-z][^`;|\n]*(?:\\\n[^`;|\n]*)*)", re.MULTILINE
)


# An indented block, with the empty lines in it.
_BLOCK = re.compile(r"(?:^ {4}.*\n(?:\n(?= {4}))?)+", re.MULTILINE)


def shown(page: str, *words: str) -> str:
    """The blocks of a page that have one of some words, as a file."""
    blocks = _BLOCK.findall((PROJECT / "docs" / page).read_text())
    return "\n".join(textwrap.dedent(block) for block in blocks if any(w in block for w in words))


def typed() -> list[tuple[str, str]]:
    """Every command with where it stands; the examples of the help, too."""
    commands = [(doc.name, words) for doc in DOCS for words in _TYPED.findall(doc.read_text())]
    return commands + [
        (f"lab {name}", verb.example.removeprefix("lab "))
        for name in main.COMMANDS
        if isinstance(verb := main.command(name), Verb)
    ]


def test_there_are_many() -> None:
    assert len(typed()) > 60
    assert {words.split()[0] for _, words in typed()} >= main.COMMANDS.keys() - {"schema"}


@pytest.mark.parametrize(("doc", "words"), typed(), ids=lambda text: text[:40].replace("_", "-"))
def test_every_command_and_option_that_is_named_is_there(doc: str, words: str) -> None:
    # What stands beside a command explains it.
    line = re.split(r"\s{2,}", words.replace("\\\n", " ").strip())[0]
    name, *rest = line.rstrip("\\").split()
    if name not in main.COMMANDS:
        pytest.skip("a sentence")
    command = main.command(name)
    if isinstance(command, click.Group) and rest:
        command = command.commands[rest.pop(0)]
    known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    known |= {"-h", "--help"}
    options = {word.partition("=")[0] for word in rest if word.startswith("--") and word != "--"}
    assert options <= known
    assert isinstance(command, click.Command)


def test_the_tutorials_series_is_well_formed(tmp_path: Path) -> None:
    folder = tmp_path / "my_change"
    folder.mkdir()
    (folder / "series.toml").write_text(shown("tutorial.md", "[claims.cheaper]", "[checks."))
    patch_series = series.get(str(folder))
    well_formed.check(patch_series)
    assert [*patch_series.all_claims] == ["cheaper", "contention"]


@pytest.mark.parametrize(
    ("page", "word", "model"),
    [
        ("extending.md", 'title = "NVMe', Topology),
        ("extending.md", "[parameters]", Workload),
        ("extending.md", "calls = [", Counter),
        ("gate.md", "[branches.", Gate),
    ],
)
def test_a_file_that_is_shown_can_be_read(page: str, word: str, model: type[toml.Model]) -> None:
    assert toml.parse(tomllib.loads(shown(page, word)), model, Path(page))
