# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/reference.md, made from the code: `python -m tools.reference` (`make reference`).

Commands and options come from click, keys of TOML files from the models that read them, metrics
and exit codes from their tables. tests/tools/test_reference.py fails where the page is out of date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from lab.base import cache, process, progress, sandbox, system
from lab.base.errors import ExitCode
from lab.base.toml import Model
from lab.build import release
from lab.cli import main
from lab.commands.gate_config import Gate
from lab.guest import host_noise
from lab.inputs import counters
from lab.inputs.counters import Counter
from lab.inputs.machine_model import MachineModel
from lab.inputs.profile import Profile
from lab.inputs.series import Series
from lab.inputs.terms import Metric
from lab.inputs.topology import Topology
from lab.inputs.workload import Workload
from lab.measure import cost, dbench, fio, sim_counts
from lab.report import tables
from tools import man

PAGE = system.PROJECT / "docs" / "reference.md"
RENEW = "make reference"

_HEAD = f"""\
<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made from the code by `{RENEW}`; edit the code, not this page. -->
# Reference

For users who look for a command, an option, a TOML key, a metric, an exit code or an environment
variable. [tasks.md](tasks.md) has one command for each task.
"""
_FILES: tuple[tuple[str, type[Model]], ...] = (
    ("kernel-patches/NAME/series.toml", Series),
    ("configs/guest/NAME.toml", Topology),
    ("workloads/NAME.toml", Workload),
    ("configs/machine/NAME.toml", MachineModel),
    ("configs/counter/NAME.toml", Counter),
    ("configs/profile/NAME.toml", Profile),
    ("the gate's configuration", Gate),
)
_METRICS: tuple[tuple[str, Mapping[str, Metric]], ...] = (
    ("fio", fio.METRICS),
    ("dbench", dbench.METRICS),
    ("engine exact", cost.METRICS),
    ("engine sim", sim_counts.METRICS),
    ("host, beside every timed boot", host_noise.METRICS),
)
_EXIT_CODES = {
    "DONE": "the command is done; every claim holds, or is missed as recorded; the gate is green",
    "REFUTED": "a claim is refuted, a known miss is out of date, the gate is red, or `lab try` "
    "found a patch that is clearly worse",
    "USAGE": "wrong option, name or configuration file",
    "FAILED": "the lab, a build or a guest failed",
    "INCONCLUSIVE": "no claim is refuted and one is inconclusive; a branch or patch is undecided",
    "SKIP": "`lab bisect --here`: this commit cannot be judged",
    "NO_VERDICT": "`lab bisect --here`: this plus the exit code of the failure",
    "INTERRUPTED": "interrupted by Ctrl-C; 128 plus the number of any other signal",
    "CLOSED_PIPE": "the reader of the output ended",
}
_VARIABLES = {
    "LAB_CACHE": "folder for kernels and sources; default: `~/.cache/blocklab`",
    "LAB_RESULTS": "folder for boots and runs; default: `results` in the checkout",
    system.TREE: "kernel source to use where a file names Debian's",
    release.FOLDER: "folder with `linux-VERSION.tar.xz` for `release:`",
    release.MIRROR: "mirror of kernel.org for `release:`",
    sandbox.CHOICE: "the sandbox to use: `bwrap`, `landlock` or `none`",
    sandbox.TRUST: "1: run foreign code even where nothing confines it (`--trust`)",
    "LAB_FLEET": "address of the fleet's scheduler (`--fleet`)",
    "LAB_FLEET_KEYS": "folder with the fleet's keys (`--fleet-keys`)",
    process.VERBOSE: "1: print every boot and command (`--verbose`)",
    progress.QUIET: "1: print results only (`--quiet`)",
}
# An option that so many commands have stands in a table of its own.
_SHARED = 4
# A table that has so many keys in common with one above names only the others.
_ALIKE = 5
# A key's place in TOML: the header of its table, and whether that is an array of tables.
_Place = tuple[str, bool]


def page() -> str:
    """The whole page."""
    parts = [_HEAD, *_commands(), *_files(), *_metrics(), *_exit_codes(), *_variables()]
    return "\n".join(parts)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    cells = [[*head], *([_cell(text) for text in row] for row in rows)]
    return "\n".join((*tables.markdown_rows(cells), ""))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# --- commands


def _commands() -> Iterator[str]:
    yield "## Commands\n"
    yield "`lab COMMAND -h` prints the same, and more of each command.\n"
    commands = dict(_all_commands())
    users: dict[tuple[str, str], list[str]] = {}
    for name, command in commands.items():
        for option in _options(command):
            users.setdefault(option, []).append(name)
    shared = {option: names for option, names in users.items() if len(names) >= _SHARED}
    yield "### Options of several commands\n"
    rows = ((*option, ", ".join(names)) for option, names in sorted(shared.items()))
    yield _table(("option", "meaning", "commands"), rows)
    for name, command in commands.items():
        arguments = man.usage(name, command).removeprefix("[OPTIONS]")
        yield f"### lab {name}{arguments}\n"
        yield f"{_first_paragraph(command.help or '')}\n"
        if rest := [option for option in _options(command) if option not in shared]:
            yield _table(("option", "meaning"), rest)


def _all_commands() -> Iterator[tuple[str, click.Command]]:
    for name in main.COMMANDS:
        command = main.command(name)
        if isinstance(command, click.Group):
            yield from ((f"{name} {word}", part) for word, part in command.commands.items())
        else:
            yield name, command


def _options(command: click.Command) -> list[tuple[str, str]]:
    """The options of a command with their help, but for --help itself."""
    return [
        (f"`{name}`", text) for name, text in man.options(command).items() if "--help" not in name
    ]


def _first_paragraph(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


# --- TOML files


def _files() -> Iterator[str]:
    yield "## TOML files\n"
    yield (
        "The lab refuses an unknown key. `lab schema` prints the same as JSON Schema, but for "
        "machine models.\n"
    )
    for where, model in _FILES:
        yield f"### {where}\n"
        yield from key_tables(model.model_json_schema())


def key_tables(schema: dict[str, Any]) -> Iterator[str]:
    """A table of keys for each table of a TOML file, the outermost first."""
    definitions = schema.get("$defs", {})
    waiting: list[tuple[_Place, dict[str, Any]]] = [(("", False), schema)]
    met: set[str] = set()
    above: dict[str, dict[str, tuple[str, ...]]] = {}
    while waiting:
        place, table = waiting.pop(0)
        rows: dict[str, tuple[str, ...]] = {
            key: (
                f"`{key}`",
                _type(value, definitions),
                _default(table, key),
                value.get("description", ""),
            )
            for key, value in table["properties"].items()
        }
        title = _header(place)
        if title:
            yield f"`{title}`: {_first_paragraph(table.get('description', ''))}\n"
        like, shared = _most_alike(rows, above)
        if like is not None:
            missing = [f"`{key}`" for key in above[like] if key not in rows]
            but = f" except {', '.join(missing)}" if missing else ""
            more = ", and these:" if shared < rows.keys() else "."
            yield f"It has the keys of `{like}`{but}{more}\n"
        if rest := [row for key, row in rows.items() if key not in shared]:
            yield _table(("key", "type", "default", "meaning"), rest)
        above[title] = rows
        for key, value in table["properties"].items():
            for inner, suffix, many in _tables_in(value, definitions):
                if inner not in met:
                    met.add(inner)
                    path = ".".join(filter(None, (place[0], key + suffix)))
                    waiting.append(((path, many), definitions[inner]))


def _most_alike(
    rows: Mapping[str, tuple[str, ...]], above: Mapping[str, Mapping[str, tuple[str, ...]]]
) -> tuple[str | None, frozenset[str]]:
    """The table above with which rows has most in common, and those keys; None for too few."""
    likest: tuple[str | None, frozenset[str]] = None, frozenset()
    for title, earlier in above.items():
        same = frozenset(key for key, row in rows.items() if earlier.get(key) == row)
        if len(same) >= _ALIKE and len(same) > len(likest[1]):
            likest = title, same
    return likest


def _header(place: _Place) -> str:
    path, many = place
    return f"[[{path}]]" if many else f"[{path}]" if path else ""


def _tables_in(
    schema: Mapping[str, Any], definitions: Mapping[str, Any]
) -> Iterator[tuple[str, str, bool]]:
    """The models in a key's value: name, what follows the key in a header, whether an array."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        if "properties" in definitions[name]:
            yield name, "", False
    for option in schema.get("anyOf", ()):
        yield from _tables_in(option, definitions)
    if schema.get("type") == "array":
        for name, suffix, _ in _tables_in(schema.get("items", {}), definitions):
            yield name, suffix, True
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        for name, suffix, many in _tables_in(more, definitions):
            yield name, f".NAME{suffix}", many


def _type(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """The type of a key's value, with its limits."""
    if reference := schema.get("$ref"):
        return _type(definitions[reference.rpartition("/")[2]], definitions)
    if values := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return ", ".join(json.dumps(value) for value in values)
    if options := schema.get("anyOf"):
        types = dict.fromkeys(_type(option, definitions) for option in options)
        types.pop("null", None)
        if "number" in types:
            types.pop("integer", None)
        return " or ".join(types)
    kind = str(schema["type"])
    if pair := schema.get("prefixItems"):
        return f"list of {len(pair)} {_plural(_type(pair[0], definitions))}"
    if kind == "array":
        return f"list of {_plural(_type(schema['items'], definitions))}"
    if kind == "object":
        more = schema.get("additionalProperties")
        inner = _type(more, definitions) if isinstance(more, dict) else ""
        return f"table of {_plural(inner)}" if inner and inner != "table" else "table"
    return _limited(kind, schema)


def _plural(kind: str) -> str:
    return re.sub(r"\b(string|integer|number|table|list)\b(?! of)", r"\1s", kind)


def _limited(kind: str, schema: Mapping[str, Any]) -> str:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    least = f"{'above' if 'exclusiveMinimum' in schema else 'from'} {low:g}" if low else ""
    most = f"{'below' if 'exclusiveMaximum' in schema else 'to'} {high:g}" if high else ""
    return " ".join(filter(None, (kind, least, most)))


def _default(table: Mapping[str, Any], key: str) -> str:
    """What a key is without being written; empty where that is nothing, zero or false."""
    if key in table.get("required", ()):
        return "required"
    value = table["properties"][key].get("default")
    return f"`{json.dumps(value)}`" if value and not isinstance(value, dict) else ""


# --- metrics, exit codes, environment


def _metrics() -> Iterator[str]:
    yield "## Metrics\n"
    yield (
        "An expectation names a metric or a counter. fio's latencies are completion latencies, of "
        "the direction with more I/O.\n"
    )
    rows = [
        (f"`{name}`", metric.unit, metric.better, source)
        for source, metrics in _METRICS
        for name, metric in metrics.items()
    ]
    yield _table(("metric", "unit", "better", "source"), rows)
    yield "### Counters\n"
    shipped = ((name, counters.get(name)) for name in counters.known())
    yield _table(
        ("counter", "unit", "better", "what it counts"),
        ((f"`{name}`", counter.unit, counter.better, counter.title) for name, counter in shipped),
    )


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes\n"
    rows = ((str(int(ExitCode[name])), text) for name, text in _EXIT_CODES.items())
    yield _table(("code", "meaning"), rows)


def _variables() -> Iterator[str]:
    yield "## Environment variables\n"
    rows = ((f"`{name}`", text) for name, text in sorted(_VARIABLES.items()))
    yield _table(("variable", "meaning"), rows)


def write() -> None:
    """Write the page into the checkout."""
    cache.write_atomically(PAGE, page())


if __name__ == "__main__":
    write()
