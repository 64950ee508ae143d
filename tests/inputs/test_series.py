# SPDX-License-Identifier: GPL-2.0-or-later
"""What a series.toml may say, and what is said of one that is wrong."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.errors import UsageError
from lab.base.stats import Interval
from lab.base.toml import parse
from lab.inputs import claims, counters, series
from lab.inputs.bounds import Bound
from lab.inputs.series import Series

TEXT = """\
title = "a title"
origin = "somewhere"

[arms.single]
patches = "base"
hw_queues = 1

[claims.faster]
published = "40 % faster"
topology = "nullb"
scheduler = "bfq"
workload = "randread_burst"

[[claims.faster.expect]]
metric = "iops"
change = ">= +20%"
because = "half of it"

[[claims.faster.expect]]
metric = "stable_merges"
arm = "single"
value = "== 9"
because = "ten readers"
"""

# TEXT and two more claims: one with a table, and one that expects what that one expects.
TABLE = f"""\
{TEXT}
[claims.dbench]
published = "40 % less time"
topology = "raid64"
scheduler = "bfq"
workload = "dbench_xfs"

[[claims.dbench.expect]]
metric = "amean_ms"
change = "<= 0%"
because = "the direction"
parameters = {{ seconds = 8 }}
rows = [
    {{ parameters.clients = 1, published.change = "-8%" }},
    # A comment is no row.
    {{ parameters.clients = 2, published.change = "-25%", cpus = 8 }},  # nor is this

    {{ parameters.clients = 512, change = "-5% .. +5%", because = "a [busy] disk" }},
]

[claims.other]
published = "the same"
topology = "raid64"
scheduler = "mq-deadline"
workload = "dbench_xfs"
expect = "dbench"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a series called own, of which all files are right."""
    monkeypatch.setattr(series, "FOLDER", tmp_path)
    series_folder = tmp_path / "own"
    for part in ("base", "series"):
        (series_folder / part).mkdir(parents=True)
    (series_folder / "series.toml").write_text(TEXT)
    return series_folder


def read(folder: Path, text: str) -> Series:
    (folder / "series.toml").write_text(text)
    return series.get("own")


def refused(folder: Path, text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        read(folder, text)
    return caught.value


def test_a_right_file_is_read(folder: Path) -> None:
    patch_series = series.get("own")
    first, second = patch_series.claims["faster"].expect
    assert first.bound == Bound(0.2, None, "%")
    assert second.bound == Bound(9, 9)
    assert patch_series.claims["faster"].compare == ("before", "after")
    assert patch_series.tree == "debian:6.12"


@pytest.mark.parametrize(
    ("fragments", "kernel"),
    [
        ((), ("base", "distro")),
        (("distro", "debug"), ("base", "distro", "debug")),
        (("small",), ("base",)),
        (("debug", "small"), ("base", "debug")),
    ],
)
def test_a_user_adds_fragments_or_takes_the_distributions_options_out(
    folder: Path, fragments: tuple[str, ...], kernel: tuple[str, ...]
) -> None:
    patch_series = series.get("own").model_copy(update={"kernel": ("base", "distro")})
    assert patch_series.configured(fragments).kernel == kernel


def test_before_and_after_are_arms_of_every_series(folder: Path) -> None:
    arms = series.get("own").all_arms
    assert {name: arm.patches for name, arm in arms.items()} == {
        "before": "base",
        "after": "series",
        "single": "base",
    }
    assert arms["single"].hw_queues == 1


@pytest.mark.parametrize("name", ["before", "after"])
def test_without_and_with_the_patches_are_what_they_are(folder: Path, name: str) -> None:
    error = refused(folder, f'{TEXT}[arms.{name}]\npatches = "base"\nhw_queues = 4\n')
    assert f"the arm {name} is what it is" in str(error)


def test_half_of_published_is_the_bound_and_the_reason(folder: Path) -> None:
    half = TEXT.replace('">= +20%"\nbecause = "half of it"', '"half of published"\n{}')
    first = read(folder, half.format('published.change = "+40%"')).claims["faster"].expect[0]
    assert (str(first.bound), first.because[:4]) == (">= +18.4%", "half")
    ranged = refused(folder, half.format('published.change = "+10% .. +40%"'))
    assert "or one change" in str(ranged)
    unchanged = read(folder, TEXT.replace(">= +20%", "no change")).claims["faster"].expect[0]
    assert str(unchanged.bound) == "-5% .. +5%"


def test_a_row_of_a_table_is_an_expectation_with_the_tables_other_keys(folder: Path) -> None:
    expectations = read(folder, TABLE).claims["dbench"].expect
    assert {expectation.metric for expectation in expectations} == {"amean_ms"}
    assert [expectation.parameters for expectation in expectations] == [
        {"seconds": 8, "clients": 1},
        {"seconds": 8, "clients": 2},
        {"seconds": 8, "clients": 512},
    ]
    published = [expectation.published for expectation in expectations]
    assert [figure and figure.changes for figure in published] == [(-0.08,), (-0.25,), None]
    assert [expectation.cpus for expectation in expectations] == [0, 8, 0]
    _, second, third = expectations
    assert (second.bound, second.because) == (Bound(None, 0, "%"), "the direction")
    assert (third.bound, third.because) == (Bound(-0.05, 0.05, "%"), "a [busy] disk")


def test_tables_and_expectations_keep_the_order_in_which_they_are_written(folder: Path) -> None:
    alone = '[[claims.dbench.expect]]\nmetric = "iops"\nvalue = "== 1"\nbecause = "b"\n'
    text = TABLE.replace("[[claims.dbench.expect]]", f"{alone}[[claims.dbench.expect]]")
    patch_series = read(folder, text.replace("[claims.other]", f"{alone}[claims.other]"))
    expectations = patch_series.claims["dbench"].expect
    clients = [expectation.parameters.get("clients") for expectation in expectations]
    assert clients == [None, 1, 2, 512, None]


def test_a_claim_may_expect_what_another_one_expects(folder: Path) -> None:
    claims_by_name = read(folder, TABLE).claims
    assert claims_by_name["other"].expect == claims_by_name["dbench"].expect
    assert claims_by_name["other"].scheduler == "mq-deadline"


KEYS = {
    "change": st.sampled_from(["<= 0%", ">= +20%", "-5% .. +5%"]),
    "because": st.text("ab {}[]#=\"'", min_size=1),
    "published": st.fixed_dictionaries(
        {"machine": st.text("ab {}[]#=\"'"), "after": st.integers(1, 9)}
    ),
    "engine": st.lists(st.sampled_from(["exact", "tcg", "kvm"]), max_size=2),
    "cpus": st.integers(0, 64),
    "compare": st.lists(st.sampled_from(["before", "after", "single"]), min_size=2, max_size=2),
    "needs_cpus": st.integers(0, 64),
}


def toml(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{name} = {toml(inner)}' for name, inner in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


def expects(*blocks: Mapping[str, object]) -> tuple[claims.Expectation, ...]:
    """What a claim with these blocks expects."""
    text = TEXT.partition("[[")[0] + "".join(
        "[[claims.faster.expect]]\n" + "".join(f"{k} = {toml(v)}\n" for k, v in block.items())
        for block in blocks
    )
    return parse(tomllib.loads(text), Series, Path("x"), text).claims["faster"].expect


@given(
    st.fixed_dictionaries(KEYS),
    st.dictionaries(st.sampled_from(["seconds", "bs"]), st.integers(0, 9)),
    st.lists(st.fixed_dictionaries({}, optional=KEYS), min_size=1, max_size=5),
)
def test_a_table_is_equal_to_its_rows_written_out(
    common: dict[str, object], parameters: dict[str, object], rows: list[dict[str, object]]
) -> None:
    common["metric"] = "iops"
    row_parameters = [{"clients": number, "bs": number} for number in range(len(rows))]
    table = {**common, "parameters": parameters}
    table["rows"] = [
        {**row, "parameters": only} for row, only in zip(rows, row_parameters, strict=True)
    ]
    written_out = [
        {**common, **row, "parameters": {**parameters, **only}}
        for row, only in zip(rows, row_parameters, strict=True)
    ]
    assert expects(table) == expects(*written_out)


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "hint"),
    [
        ('title = "a', 'titel = "a', 1, "titel", "did you mean 'title'"),
        ("hw_queues", "hw_queue", 6, "arms.single.hw_queue", "did you mean 'hw_queues'"),
        ("hw_queues = 1", "hw_queues = 1000", 6, "arms.single.hw_queues", "less than or equal"),
        ('"base"', '"../base"', 5, "arms.single.patches", "should match pattern"),
        ("topology", "topolgy", 10, "claims.faster.topolgy", "did you mean 'topology'"),
        ("change =", "chnage =", 16, "faster.expect.0.chnage", "did you mean 'change'"),
        ('">= +20%"', '"20%"', 16, "faster.expect.0.change", "not a bound: '20%'"),
        ('">= +20%"', '">= 20"', 16, "faster.expect.0.change", "a change is in percent"),
        ('"== 9"', '"== 9%"', 22, "faster.expect.1.value", "a value is not"),
        ('value = "== 9"', "", 19, "faster.expect.1", "either change or value"),
        (
            'value = "== 9"',
            'value = "== 9"\nchange = "== 9%"',
            19,
            "faster.expect.1",
            "either change or value",
        ),
        ('value = "== 9"', 'change = "== 9%"', 19, "faster.expect.1", "arm goes with value"),
        ('arm = "single"', "cpus = 65", 21, "faster.expect.1.cpus", "less than or equal"),
        ('arm = "single"', 'cpus = "2"', 21, "faster.expect.1.cpus", "integer"),
        ('arm = "single"', 'engine = ["tgc"]', 21, "faster.expect.1.engine.0", "'tcg'"),
        ('">= +20%"', '"half of published"', 14, "faster.expect.0", "half of published needs"),
        ('arm = "single"', 'compare = ["before"]', 21, "expect.1.compare.1", "required"),
        ("rows =", "rwos =", 36, "expect.0.rwos", "did you mean 'rows'"),
        ('because = "the', 'becuase = "the', 34, "expect.0.becuase", "did you mean 'because'"),
        (
            'published.change = "-8%"',
            'publshed.change = "-8%"',
            37,
            "rows.0.publshed",
            "'published'",
        ),
        ("cpus = 8", "cpu = 8", 39, "rows.1.cpu", "did you mean 'cpus'"),
        ("cpus = 8", "cpus = 65", 39, "rows.1.cpus", "less than or equal"),
        ("cpus = 8", "rows = []", 39, "rows.1.rows", "unknown key 'rows'"),
        ("parameters.clients = 2", "clients = 2", 39, "rows.1.clients", "unknown key 'clients'"),
        ('"-5% .. +5%"', '"5%"', 41, "rows.2.change", "not a bound: '5%'"),
        ('"-5% .. +5%"', '"-5 .. +5"', 41, "rows.2.change", "a change is in percent"),
        ('"-5% .. +5%"', '"+5% .. -5%"', 41, "rows.2.change", "the larger one"),
        ('change = "<= 0%"', 'change = "<= 0"', 33, "expect.0.change", "a change is in percent"),
        ('change = "<= 0%"\n', "\n", 37, "expect.0.rows.0", "either change or value"),
        ("cpus = 8", 'value = "== 9"', 39, "expect.0.rows.1", "either change or value"),
        ("cpus = 8", 'arm = "single"', 39, "expect.0.rows.1", "arm goes with value"),
        ('metric = "amean_ms"\n', "\n", 37, "expect.0.rows.0.metric", "required"),
        ('because = "the direction"\n', "\n", 37, "expect.0.rows.0", "has because"),
        ("clients = 512", "clients = 1", 41, "expect.0.rows.2", "the same number as rows.0"),
        ("rows = [", "rows = 3 #", 0, "", "not valid TOML"),
        ('expect = "dbench"', 'expect = "dbensh"', 49, "claims.other.expect", "'dbench'"),
        ('expect = "dbench"', 'expect = "other"', 49, "claims.other.expect", "nothing above"),
        ('expect = "dbench"', "expect = 3", 49, "claims.other.expect", "valid tuple"),
    ],
)
def test_a_wrong_file_is_an_error_with_file_line_and_key(
    folder: Path, old: str, new: str, line: int, key: str, hint: str
) -> None:
    assert old in TABLE
    error = refused(folder, TABLE.replace(old, new, 1))
    assert hint in str(error)
    place = f"{folder}/series.toml"
    assert error.where.startswith(f"{place}:{line}: " if line else place)
    assert error.where.endswith(key)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ("rows = []", "at least 1 item"),
        ("rows = 3", "valid tuple"),
        ("rows = [1]", "valid dictionary"),
        ('rows = [[1, "-8 %"]]', "valid dictionary"),
        ("rows = [{}, {}]", "bounds the same number as rows.0"),
        (
            'rows = [{}, { published.change = "+1%", because = "y", change = "<= 1%" }]',
            "the same number",
        ),
    ],
)
def test_rows_are_tables_that_differ(folder: Path, rows: str, why: str) -> None:
    head, _, tail = TABLE.partition("rows = [\n")
    error = refused(folder, head + rows + tail.partition("]\n\n")[2].join(["\n\n", ""]))
    assert why in str(error)
    assert "claims.dbench.expect.0.rows" in error.where


def test_two_bounds_on_one_number_are_no_repetition() -> None:
    rows = [{"change": "<= 0%"}, {"value": ">= 3"}, {"change": "<= 0%", "cpus": 2}]
    assert len(expects({"metric": "iops", "because": "b", "rows": rows})) == 3


@pytest.mark.parametrize(
    ("key", "right"),
    [("because", True), ("needs_cpus", True), ("publshed", False), ("rows", False)],
)
def test_the_schema_describes_tables(key: str, right: bool) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(_schema())
    written: dict[str, Any] = tomllib.loads(TABLE)
    assert validator.is_valid(written)
    row = written["claims"]["dbench"]["expect"][0]["rows"][0]
    row[key] = 8 if key == "needs_cpus" else "x"
    assert validator.is_valid(written) is right


@cache
def _schema() -> dict[str, Any]:
    return Series.model_json_schema()


@pytest.mark.slow
@pytest.mark.parametrize("name", series.known())
def test_the_schema_accepts_every_series(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    written = tomllib.loads(series.file(name).read_text())
    # Editors validate TOML's dates as the text that they are.
    plain = json.loads(json.dumps(written, default=str))
    jsonschema.validate(plain, _schema())


@pytest.mark.parametrize(
    ("end", "last", "why", "where"),
    [
        ("[claims.faster]", "[claims]\n", "a series has a claim or a check", ""),
        ("[[", "", "required", "claims.faster.expect"),
        ("[[", "expect = []\n", "at least 1 item", "claims.faster.expect"),
    ],
)
def test_a_series_claims_something_and_a_claim_expects_something(
    folder: Path, end: str, last: str, why: str, where: str
) -> None:
    error = refused(folder, TEXT.partition(end)[0] + last)
    assert why in str(error)
    assert error.where.endswith(f": {where}")


@pytest.mark.parametrize("text", ["title = ", "[claims", "\x00"])
def test_what_is_no_toml_is_an_error_with_the_file(folder: Path, text: str) -> None:
    error = refused(folder, text)
    assert "not valid TOML" in error.what
    assert str(folder / "series.toml") in error.where


def test_an_unknown_series_gets_the_nearest_one(folder: Path) -> None:
    (folder.parent / "no_series").mkdir()
    assert series.known() == ["own"]
    with pytest.raises(UsageError, match="did you mean 'own'"):
        series.get("onw")


def arms(patch_series: Series) -> dict[str, tuple[str, int]]:
    return {name: (arm.patches, arm.hw_queues) for name, arm in patch_series.all_arms.items()}


@pytest.mark.parametrize(
    ("control", "before", "after"),
    [(series.reverse, "series", "base"), (series.no_op, "base", "base")],
)
def test_a_control_has_other_patches_and_all_else_of_the_series(
    folder: Path, control: Callable[[Series], Series], before: str, after: str
) -> None:
    controlled = control(series.get("own"))
    # "single" is a reference arm: other hardware.
    assert arms(controlled) == {"before": (before, 0), "after": (after, 0), "single": ("base", 1)}
    assert controlled.claims == series.get("own").claims
    assert (controlled.name, controlled.folder) == ("own", folder)


def test_reversed_twice_is_the_series_again(folder: Path) -> None:
    patch_series = series.get("own")
    assert arms(series.reverse(series.reverse(patch_series))) == arms(patch_series)


def test_patches_apply_by_number_base_before_series(folder: Path) -> None:
    base = [folder / f"base/{name}.patch" for name in ("0001-x", "0002-y")]
    patches = [folder / f"series/{name}.patch" for name in ("0001-z", "0002-b", "0010-c")]
    for path in (folder / "series/README.md", *reversed(base + patches)):
        path.write_text("")
    assert list(series.get("own").patches("base")) == base
    assert list(series.get("own").patches("series")) == base + patches


def test_a_rival_stands_on_the_base_and_not_on_the_series(folder: Path) -> None:
    for name in ("base/0001-x.patch", "series/0001-a.patch", "rival/0001-r.patch"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    patch_series = read(folder, f'{TEXT}[arms.other]\npatches = "rival"\n')
    assert patch_series.levels == ("base", "series", "rival")
    assert [path.name for path in patch_series.patches("rival")] == ["0001-x.patch", "0001-r.patch"]
    assert arms(series.reverse(patch_series))["other"] == ("rival", 0)
    assert arms(series.no_op(patch_series))["other"] == ("base", 0)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("[arms.single]", '[arms."<img src=x onerror=alert(1)>"]', "arms.<img"),
        ("[arms.single]", '[arms."=cmd"]', "arms.=cmd"),
        ("[arms.single]", '[arms.""]', "arms."),
        ('"nullb"', '"../../x"', "claims.faster.topology"),
        ('"nullb"', '"a/b"', "claims.faster.topology"),
        ('"bfq"', '"bfq\\n[x]"', "claims.faster.scheduler"),
        ('"randread_burst"', '"\\u001b[2J"', "claims.faster.workload"),
        ('"iops"', f'"{"m" * 65}"', "faster.expect.0.metric"),
        ('metric = "iops"', 'metric = "iops"\nmachine = "../m"', "faster.expect.0.machine"),
        ('metric = "iops"', 'metric = "iops"\nparameters."a b" = 1', "expect.0.parameters.a b"),
        ('arm = "single"', 'arm = "@team"', "faster.expect.1.arm"),
        ("hw_queues = 1", 'kernel_parameters = ["a;$(id)"]', "arms.single.kernel_parameters.0"),
        ("[arms.single]", 'kernel = ["../../evil"]\n[arms.single]', "kernel.0"),
        ("[claims.faster]", '[claims."a\\u0001b"]', r"claims.a\x01b"),
    ],
)
def test_what_is_named_is_a_name(folder: Path, old: str, new: str, key: str) -> None:
    error = refused(folder, TEXT.replace(old, new))
    assert re.search(" is no (name|parameter|topology): ", str(error))
    assert key in error.where


def test_a_series_needs_no_base(folder: Path) -> None:
    (folder / "base").rmdir()
    (folder / "series/0001-a.patch").write_text("")
    assert series.get("own").patches("base") == ()
    assert [path.name for path in series.get("own").patches("series")] == ["0001-a.patch"]


@pytest.mark.parametrize(
    ("start", "path"),
    [
        *(("", path) for path in ("{0}", "{0}/", "./mine", "mine/", "mine/../mine", "./mine/.")),
        *(("mine", "./"), ("mine/base", "../")),
    ],
)
def test_a_series_at_a_path_has_the_name_of_its_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, start: str, path: str
) -> None:
    mine = folder.rename(folder.with_name("mine"))
    monkeypatch.setattr(series, "FOLDER", folder / "nothing")
    monkeypatch.chdir(mine.parent / start)
    patch_series = series.get(path.format(mine))
    monkeypatch.chdir("/")
    assert (patch_series.name, patch_series.folder) == ("mine", mine)
    assert patch_series.file == mine / "series.toml"


@pytest.mark.parametrize("key", ["name", "folder", "_folder", "file"])
def test_name_and_folder_are_not_written_in_the_file(folder: Path, key: str) -> None:
    error = refused(folder, f'{key} = "x"\n{TEXT}')
    assert f"unknown key {key!r}" in str(error)
    assert not {"name", "folder", "_folder"} & Series.model_json_schema()["properties"].keys()
    assert not {"name", "folder", "_folder"} & Series.model_fields.keys()


def test_a_wrong_claim_is_told_before_one_that_expects_the_same(folder: Path) -> None:
    head, _, tail = TABLE.partition("[[claims.dbench.expect]]")
    error = refused(folder, head + "[claims.other]" + tail.partition("[claims.other]")[2])
    assert error.where.endswith(": claims.dbench.expect")
    assert "required" in str(error)


@pytest.mark.parametrize("name", series.known())
def test_no_bound_is_looser_than_the_written_rule(name: str) -> None:
    """docs/verdicts.md, "Bounds": half of the published gain as a logarithm, or 5 %."""
    for claim in series.get(name).claims.values():
        for expected in claim.expect:
            if not expected.change or not expected.published:
                continue
            nearest = min(expected.published.changes, key=abs)
            exact, twice = ((1 + nearest) ** power - 1 for power in (0.5, 2))
            half = min(exact, round(exact, 2), key=abs)  # written by hand it is whole per cents
            twice = round(twice, 2)
            allowed = [Interval(half, math.inf) if half > 0 else Interval(-math.inf, half)]
            allowed.append(Interval(min(half, twice), max(half, twice)))
            if abs(nearest) < 0.05:
                allowed.append(Interval(-0.05, 0.05))
            assert any(map(expected.bound.interval.within, allowed)), (name, expected)


@pytest.mark.parametrize("name", series.known())
def test_a_direction_that_is_simulated_wants_five_per_cent(name: str) -> None:
    for claim in series.get(name).all_claims.values():
        for expected in claim.expect:
            if not expected.machine or expected.metric in counters.known() or expected.published:
                continue
            assert (expected.bound.min, expected.bound.max) in ((0.05, None), (None, -0.05))
