# SPDX-License-Identifier: GPL-2.0-or-later
"""Whose code is built and booted, and what may be where nothing confines it.

What is confined runs, whoever wrote it. Without a sandbox only the lab's own patches on packaged
sources do, and what the user says that he trusts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lab.base import sandbox
from lab.base.sandbox import HOW_TO_CONFINE, Mode
from lab.build import patching, source

UNCONFINED = f"warning: nothing confines builds and guests on this machine; {HOW_TO_CONFINE}"


def require(spec: str, patches: Sequence[Path] = ()) -> None:
    """Raise UsageError when a source, or patches to it, are foreign and would run unconfined. A
    source without a name is the one that the lab takes by itself.
    """
    if spec and not source.is_packaged(spec):
        sandbox.require_for(f"the source {spec}")
    if foreign := next(filter(patching.is_foreign, patches), None):
        sandbox.require_for(f"the patch {foreign.name}")


def unconfined() -> bool:
    """Whether nothing confines what is built and booted."""
    return sandbox.mode() is Mode.NONE
