# SPDX-License-Identifier: GPL-2.0-or-later
"""A run whose every word is an attack: in each format it is text, and nothing but text."""

from __future__ import annotations

import base64
import csv
import datetime
import hashlib
import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import examples
import kcidb_io
import pytest
from pages import page

from lab.base.text import visible
from lab.inputs.bounds import Bound
from lab.inputs.claims import KnownMiss
from lab.inputs.terms import Miss
from lab.measure.cost import Cost
from lab.report import ci, compare, escapes, exports, finish, flame, record_store, terminal
from lab.report.run_record import Column, CostDifference, MovedLine, RunRecord, TableRecord

TAG = "<img src=x onerror=alert(1)>\"'</script></title><script>alert(2)</script>"
LINK = "[click](javascript:alert(3)) ![i](http://evil/x.png) <details ontoggle=alert(4)>"
MARKS = "a|b `c` @torvalds #1 \\[x](y) ]: z"
CONTROL = "\x1b]52;c;ZXZpbA==\x07\x00\x9b31m\u202e\r\n::set-output name=a::b\n##[add-matcher]x"
EVIL = f"{TAG}{LINK}{MARKS}{CONTROL}"
FORMULA = "=cmd|' /C calc'!A0"


def hostile() -> RunRecord:
    """A run with attacks wherever the record takes text."""
    changes: dict[str, Any] = {
        **dict.fromkeys(("topology", "scheduler", "unit", "error", "machine"), EVIL),
        "swept": (EVIL,),
        "facts": {"release": EVIL, "queue/scheduler": EVIL},
    }
    cells = [
        examples.cell(arm, values, **changes, parameters={EVIL: value})
        for value in (EVIL, "2")
        for arm, values in ((EVIL, examples.BEFORE), (FORMULA, examples.AFTER))
    ]
    texts: dict[str, object] = dict.fromkeys(("unit", "because", "machine", "reason"), EVIL)
    figure = examples.figure(before=1.0, after=2.0)
    texts["published"] = figure.model_copy(update=dict.fromkeys(("unit", "machine"), EVIL))
    known = KnownMiss(measured=Bound(0, 1), date=datetime.date(2026, 1, 1), reason=EVIL)
    texts |= {"known_miss": known, "miss": Miss.MOVED}
    findings = [
        examples.finding(cells=places, arms=(EVIL, "after"), verdict=verdict).model_copy(
            update={**texts, "conditions": {EVIL: EVIL}}
        )
        for places, verdict in (((0, 1), "HOLDS"), ((2, 3), "INCONCLUSIVE"))
    ]
    claim = examples.claim(*findings).model_copy(
        update=dict.fromkeys(("name", "statement", "source", "topology", "scheduler"), EVIL)
    )
    series_record = examples.series(claim, error=EVIL).model_copy(
        update={
            **dict.fromkeys(("name", "title", "origin", "tree"), EVIL),
            "configuration": {"series": (EVIL,)},
        }
    )
    cost = CostDifference(
        claim=f"{EVIL}.{EVIL}",
        arms=(EVIL, EVIL),
        cells=(0, 1),
        functions=((EVIL, 1.0, 2.0),),
        totals=(1.0, 2.0),
        lines=((MovedLine(place=EVIL, transfers=1.0, by={EVIL: 1.0}),),),
    )
    return examples.run(
        series_record, cells=cells, title=EVIL, command=f"lab try {EVIL}", costs=(cost,)
    )


def tables() -> RunRecord:
    """A command that shows tables, of what others wrote."""
    table = TableRecord(
        title=EVIL,
        columns=(Column(title=EVIL), Column(title=FORMULA)),
        rows=((EVIL, FORMULA), ("-4.25", "+1,234.5"), ("-4.1 %", "-2.0 ±0.3 %"), ("-", "@x")),
        notes=(EVIL, "/close", "# heading", "> quoted"),
    )
    return examples.run(tables=(table,), title=EVIL)


RUNS = [hostile(), tables()]


def cost(boot: str) -> Cost:
    return Cost(1.0, {EVIL: float(len(boot))})


@pytest.mark.parametrize("run", RUNS)
def test_the_page_has_no_markup_but_its_own(run: RunRecord) -> None:
    known = [(1.0, TAG, 5.0), (2.0, "bbbbbbbb", 7.0)]
    shown = page(run, lambda boot, metric: known, cost)
    assert shown.tags.count("script") == 1
    assert "img" not in shown.tags
    assert not shown.handlers
    assert shown.text.count("onerror=alert(1)") >= 4
    assert "\x1b" not in shown.source
    assert "\u202e" not in shown.source


def test_the_page_lets_only_its_own_script_run() -> None:
    text = page(examples.paired_run()).source
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    wanted = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert f"script-src 'sha256-{wanted}'" in policy.replace("&#43;", "+")
    assert policy.startswith("default-src 'none'")
    assert text.index("Content-Security-Policy") < text.index("<style>")


@pytest.mark.parametrize(
    "run", [*RUNS, examples.paired_run(), examples.swept_run(), examples.matrix_run(4)]
)
def test_markdown_has_no_links_no_html_calls_nobody_and_keeps_its_columns(run: RunRecord) -> None:
    for text in (exports.markdown(run), exports.published(run)):
        code = re.sub(r"`[^`\n]*`", "", text.replace("\\`", ""))
        assert not re.search(r"(?<!\\)(?:\\\\)*\]\(", code)
        assert not re.search(r"(?<!\\)<[A-Za-z/!]", code)
        assert not re.search(r"[@#]\w", code.replace("&#8203;", " "))
        assert "\x1b" not in text
        columns = None
        for line in text.splitlines():
            if not line.startswith("|"):
                columns = None
                continue
            cells = line.replace("\\\\", "").replace("\\|", "").count("|")
            assert columns in (None, cells)
            columns = cells


@pytest.mark.parametrize("line", ["/close", "# x", "> x", "- x", "::x", "    x"])
def test_a_line_of_markdown_begins_nothing(line: str) -> None:
    assert re.match(r"\\[/#>\\-]|x", escapes.markdown_line(line))


@pytest.mark.parametrize("run", RUNS)
def test_no_cell_of_a_spreadsheet_is_a_formula_and_numbers_are_numbers(
    run: RunRecord,
) -> None:
    rows = list(csv.reader(io.StringIO(exports.csv_text(run))))
    assert len(rows) > 3
    for cell in (cell for row in rows for cell in row):
        if cell.startswith(("=", "@", "\t", "\r", "+", "-")):
            assert not re.search(r"[A-Za-z(|!]", cell)
    for value in ("-4.25", "+1,234.5", "-4.1 %", "-"):
        assert escapes.csv_cell(value) == value
    assert escapes.csv_cell(-4.25) == -4.25
    assert escapes.csv_cell("-1+cmd|x") == "'-1+cmd|x"
    assert escapes.csv_cell("\t=1") == "'\t=1"


@pytest.mark.parametrize("run", RUNS)
def test_profiles_have_no_names_but_text(run: RunRecord) -> None:
    for text in (finish.PROFILES[name](run, cost, "") for name in finish.PROFILES):
        assert "\x1b" not in text
        assert "\u202e" not in text
    if drawn := flame.standalone(run, cost):
        tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(drawn).iter()}
        assert tags == {"svg", "style", "title", "rect", "text"}


def test_xml_is_read_by_a_strict_parser() -> None:
    top = ET.fromstring(ci.junit(hostile()))
    assert {case.get("name") for case in top.iter("testcase")} > {"prepare"}


def test_kcidb_takes_it() -> None:
    document = json.loads(ci.kcidb(hostile()))
    kcidb_io.schema.V5_3.validate(document)
    assert all(re.fullmatch(r"[\w.-]+", test["path"]) for test in document["tests"])


@pytest.mark.parametrize("run", RUNS)
def test_a_terminal_and_a_log_show_it_and_do_nothing(run: RunRecord) -> None:
    for text in (terminal.text(run), compare.text(run, run), exports.commit(run)):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
        assert not re.search(r"^\s*::|##\[", text, re.MULTILINE)
    assert "\\x1b]52;c" in terminal.text(run).replace("\n", "").replace(" ", "")


def test_all_that_is_not_seen_is_made_visible() -> None:
    assert visible("a\tb\nc") == "a\tb\nc"
    assert visible("\x1b[31m\x07\x00\r\x9b\x7f") == r"\x1b[31m\x07\x00\r\x9b\x7f"
    assert visible("a\u202eb\u2066\udc80") == r"a\u202eb\u2066\udc80"
    assert visible("größer als 1 µs, 20 %: a::b #1") == "größer als 1 µs, 20 %: a::b #1"
    assert visible("x\n  ::set-output x\n##[error]##vso[y]") == (
        "x\n  \\x3a:set-output x\n\\x23#[error]\\x23#vso[y]"
    )
    assert visible(visible(EVIL)) == visible(EVIL)
    visible("\n" * 1_000_000 + "#" * 1_000_000 + " " * 1_000_000)


def test_a_record_without_what_is_new_is_read(tmp_path: Path) -> None:
    folder = record_store.save(examples.paired_run(), tmp_path)
    record = json.loads((folder / "run.json").read_text())
    del record["series"][0]["configuration"]
    (folder / "run.json").write_text(json.dumps(record))
    assert record_store.load(folder).series[0].configuration == {}


def test_a_changed_configuration_is_told_everywhere() -> None:
    run = examples.paired_run()
    changed = tuple(f"CONFIG_N{number}: n -> y" for number in range(20))
    series_record = run.series[0].model_copy(update={"configuration": {"series": changed}})
    run = run.model_copy(update={"series": (series_record,)})
    for text in (terminal.text(run), exports.markdown(run), page(run).source):
        words = " ".join(text.split())
        assert "the kernel's configuration differs, too (series): CONFIG_N0" in words.replace(
            "&#39;", "'"
        )
        assert "CONFIG_N11: n" in words
        assert "and 8 more" in words
