# SPDX-License-Identifier: GPL-2.0-or-later
"""The form of a command's help: one line that can be pasted comes first."""

from __future__ import annotations

from typing import Any

import click


class Verb(click.Command):
    """A command whose help begins with an example."""

    def __init__(self, *args: Any, example: str, **kwargs: Any) -> None:
        """A command of click's, and a command line that calls it."""
        super().__init__(*args, **kwargs)
        self.example = example

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example, then the help as click has it."""
        with formatter.section("Example"):
            formatter.write(f"{' ' * formatter.current_indent}{self.example}\n")
        formatter.write("\n")
        super().format_help(ctx, formatter)


class VerbGroup(Verb, click.Group):
    """A group of commands whose help begins with an example, as does that of its commands."""

    command_class = Verb
