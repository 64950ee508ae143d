# SPDX-License-Identifier: GPL-2.0-or-later
"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

tree = click.option(
    "--tree", "spec", metavar="SOURCE", help="debian:VERSION, git:PATH@REV or tar:PATH."
)
patches = click.option(
    "--patch",
    "patches",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A patch to apply first; may be given several times, in order.",
)
fragments = click.option(
    "--kernel",
    "fragments",
    multiple=True,
    metavar="FRAGMENT",
    help="A file of configs/kernel, without its suffix; may be given several times.",
)
profile = click.option(
    "--profile",
    "profile_name",
    default="quick",
    show_default=True,
    help="A file of configs/profile.",
)
