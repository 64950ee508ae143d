# SPDX-License-Identifier: GPL-2.0-or-later
"""Which code makes numbers of a boot's raw files, as a hash for the keys of these numbers.

Results that two versions of the lab share hold no number that either computes differently: what
the changed code measured before is measured again. Comments and docstrings change nothing.
"""

from __future__ import annotations

import ast
from functools import cache as once
from pathlib import Path

from lab.base import cache
from lab.inputs.terms import Engine

_PACKAGE = Path(__file__).resolve().parents[1]
_COUNTED = (
    "measure/insn_counts",
    "measure/call_counts",
    "measure/call_log",
    "measure/call_tree",
    "measure/cost",
    "measure/plugin_output",
)
_SIMULATED = (*_COUNTED, "measure/sim_counts")
_TIMED = ("guest/host_noise",)


def identity(tool: str, engine: Engine) -> str:
    """A hash of the modules that make numbers of a tool's raw files under an engine."""
    deterministic = _SIMULATED if engine.simulated else _COUNTED
    by_engine = deterministic if engine.deterministic else _TIMED
    modules = ("measure/sampling", f"measure/{tool}", *by_engine)
    return cache.key([(name, _code(_PACKAGE / f"{name}.py")) for name in modules])


@once
def _code(path: Path) -> str:
    """What a module does, without comments and docstrings."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(tree)
