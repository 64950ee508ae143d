# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/reference.md is what the code says."""

from __future__ import annotations

from lab.base.errors import ExitCode
from lab.cli import main
from lab.inputs import counters
from tools import reference


def test_the_committed_page_is_up_to_date() -> None:
    assert reference.PAGE.read_text() == reference.page(), f"run: {reference.RENEW}"


def test_every_command_counter_and_exit_code_is_on_the_page() -> None:
    page = reference.page()
    names = {heading for heading in page.split("\n") if heading.startswith("### lab ")}
    assert {name.split()[2] for name in names} == set(main.COMMANDS)
    assert all(f"| `{name}` |" in page for name in counters.known())
    assert all(f"\n| {int(code)} | " in page for code in ExitCode)


def test_a_key_has_its_type_its_limits_and_its_default() -> None:
    schema = {
        "properties": {
            "cpus": {"type": "integer", "minimum": 1, "maximum": 64, "default": 4},
            "name": {"type": "string", "description": "a | b"},
            "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
        },
        "required": ["name"],
        "$defs": {"Row": {"type": "object", "properties": {"x": {"type": "number"}}}},
    }
    text = "\n".join(reference.key_tables(schema))
    assert "| `cpus` | integer from 1 to 64 | `4` |  |" in text
    assert "| `name` | string | required | a \\| b |" in text
    assert "`[[rows]]`" in text
    assert "| `x` | number |  |  |" in text
