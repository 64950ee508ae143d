# SPDX-License-Identifier: GPL-2.0-or-later
"""Manual pages, made from the commands themselves: `python -m tools.man FOLDER` (`make man`)."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from lab import __version__
from lab.cli import main
from lab.cli.verb import Verb

# A line that begins with one of these is a request to roff.
_CONTROL = re.compile(r"^(?=[.'])", re.MULTILINE)


def pages() -> dict[str, str]:
    """All manual pages by the name of their file: lab.1 and one for each command."""
    commands = {name: main.command(name) for name in main.COMMANDS}
    pages_of_commands = {
        f"lab-{name}.1": "\n".join(_page(f"lab {name}", command))
        for name, command in commands.items()
    }
    seen = [f".TP\n.BR lab-{name} (1)\n{_text(text)}" for name, (_, text) in main.COMMANDS.items()]
    return {
        "lab.1": "\n".join([*_page("lab", main.lab), ".SH COMMANDS", *seen, ""]),
        **pages_of_commands,
    }


def usage(name: str, command: click.Command) -> str:
    """The arguments of a command, as --help shows them behind its name."""
    return " ".join(command.collect_usage_pieces(click.Context(command, info_name=name)))


def options(command: click.Command) -> dict[str, str]:
    """Every option of a command with its help, --help last."""
    context = click.Context(command)
    params = (param for param in command.get_params(context) if isinstance(param, click.Option))
    return dict(filter(None, (param.get_help_record(context) for param in params)))


def _page(name: str, command: click.Command) -> Iterator[str]:
    """A command's page: its synopsis, its help, its options."""
    title, _, rest = (command.help or "").partition("\n\n")
    yield f'.TH "{name.replace(" ", "-").upper()}" 1 "" "lab {__version__}" "Block-layer lab"'
    yield f".SH NAME\n{name.replace(' ', '-')} \\- {_text(title).rstrip('.')}"
    yield f".SH SYNOPSIS\n.B {name}\n{_text(usage(name, command))}"
    yield f".SH DESCRIPTION\n{_text(title)}"
    for paragraph in rest.split("\n\n"):
        yield f".PP\n{_text(paragraph)}"
    for word, part in command.commands.items() if isinstance(command, click.Group) else ():
        words = _text(usage(word, part))
        yield f".TP\n.B {name} {word} {words}\n{_text(part.help or '')}"
    if isinstance(command, Verb):
        yield f".SH EXAMPLE\n{_text(command.example)}"
    yield ".SH OPTIONS"
    for option, said in options(command).items():
        yield f".TP\n.B {_text(option)}\n{_text(said)}"
    yield ""


def _text(text: str) -> str:
    """Text on one line, of which roff makes nothing but text."""
    line = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return _CONTROL.sub(r"\\&", line)


def write(folder: Path) -> None:
    """Write all pages into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in pages().items():
        (folder / name).write_text(content)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
