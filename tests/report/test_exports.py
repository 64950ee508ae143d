# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run looks like elsewhere: commit messages, CI, spreadsheets, another run."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

import examples
import junitparser
import kcidb_io
import pytest

from lab.inputs.terms import Level, Verdict
from lab.report import arm_table, ci, compare, exports
from lab.report.run_record import CellRecord, FindingRecord, RunRecord, StepRecord

RUNS = [
    examples.paired_run(),
    examples.swept_run(),
    examples.matrix_run(4),
    examples.run(
        examples.series(error="patch 2 does not apply: a < b & \x1b[31m\x00", verdict="ERROR")
    ),
]
CELLS = examples.paired_run().cells


def judged(
    *findings: FindingRecord,
    verdict: str = "HOLDS",
    cells: Sequence[CellRecord] = CELLS,
    **changes: object,
) -> RunRecord:
    """A run of one claim with these findings."""
    series = examples.series(examples.claim(*findings, verdict=verdict))
    return examples.run(series, cells=cells, **changes)


@pytest.mark.parametrize("run", RUNS)
def test_a_commit_table_fits_a_commit_message(run: RunRecord) -> None:
    text = exports.commit(run)
    assert max(map(len, text.splitlines())) < 75
    assert text.endswith("\n")
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_a_commit_table_has_a_row_for_each_value_and_a_column_for_each_arm() -> None:
    lines = exports.commit(examples.swept_run()).splitlines()
    rows = [line.split() for line in lines if line.startswith("  ")]
    assert rows[0] == ["clients", "before", "sq", "after"]
    assert rows[1] == ["1", "40.00", "44.00", "(-10.00%)", "36.00", "(+10.00%)*"]
    assert rows[2] == ["8", "600.00", "360.00", "(+40.00%)*", "361.00", "(+39.83%)*"]
    assert rows[3] == ["512", "10000.00", "10100.00", "(-1.00%)", "10150.00", "(-1.50%)"]


def test_a_commit_table_marks_what_is_more_than_noise() -> None:
    clear = exports.commit(examples.paired_run())
    assert "(+39.92%)*" in clear
    cells = (examples.cell("before", (100.0, 110.0)), examples.cell("after", (111.0, 101.0)))
    two = examples.finding(((100.0, 110.0), (111.0, 101.0)))
    noisy = exports.commit(judged(two, cells=cells))
    assert ")*" not in noisy
    assert "* more than noise" in " ".join(noisy.split())


@pytest.mark.parametrize(
    ("metric", "improvement"),
    # What more of a counter is says its file.
    [("amean_ms", -0.5), ("iops", 0.5), ("stable_merges", 0.5), ("switches", -0.5)],
)
def test_better_is_positive_whatever_the_metric(metric: str, improvement: float) -> None:
    cells = (examples.cell("before", (2.0,)), examples.cell("after", (3.0,)))
    run = judged(examples.finding(((2.0,), (3.0,)), metric=metric, engine="exact"), cells=cells)
    (table,) = arm_table.of_series(run, run.series[0])
    value = table.rows[""]["after"]
    assert value.change == pytest.approx(0.5)
    assert table.signed(value.change) == pytest.approx(improvement)
    assert value.published == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("text", "change"),
    [("+40%", 0.4), ("-7.74 %", -0.0774), ("-8% .. +20%", None)],
)
def test_a_published_change_is_one_number_or_none(text: str, change: float | None) -> None:
    assert examples.figure(text).single_change == (
        None if change is None else pytest.approx(change)
    )


def test_csv_has_a_row_for_each_number() -> None:
    run = examples.paired_run()
    rows = list(csv.DictReader(io.StringIO(exports.csv_text(run))))
    assert len(rows) == 2 * 6 * 3
    iops_rows = [row for row in rows if row["metric"] == "iops" and row["arm"] == "after"]
    assert [float(row["value"]) for row in iops_rows] == list(examples.AFTER)
    assert {row["parameters"] for row in rows} == {"numjobs=10"}


@pytest.mark.parametrize("run", [*RUNS, examples.tables_run()])
def test_json_is_the_record(run: RunRecord) -> None:
    assert RunRecord.model_validate_json(exports.json_text(run)) == run


@pytest.mark.parametrize("run", RUNS)
def test_junit_is_read_by_a_strict_parser(run: RunRecord) -> None:
    text = ci.junit(run)
    suites = junitparser.JUnitXml.fromstring(text.encode())
    for suite in suites:
        stated = (suite.tests, suite.failures, suite.errors, suite.skipped)
        suite.update_statistics()  # type: ignore[no-untyped-call]
        assert (suite.tests, suite.failures, suite.errors, suite.skipped) == stated


@pytest.mark.parametrize("run", RUNS)
def test_kcidb_is_valid(run: RunRecord) -> None:
    document = json.loads(ci.kcidb(run))
    kcidb_io.schema.V5_3.validate(document)
    assert all(test["path"].startswith("blocklab.own.") for test in document["tests"])


@pytest.mark.parametrize(
    ("verdict", "tag", "status"),
    [
        (Verdict.HOLDS, None, "PASS"),
        (Verdict.REFUTED, "failure", "FAIL"),
        (Verdict.ERROR, "error", "ERROR"),
        (Verdict.SKIPPED, "skipped", "SKIP"),
        # For KCIDB a test without a status is not finished.
        (Verdict.INCONCLUSIVE, "skipped", None),
    ],
)
def test_every_verdict_is_told_apart(verdict: Verdict, tag: str | None, status: str | None) -> None:
    run = judged(examples.finding(verdict=verdict, reason="because <of> & that"), verdict=verdict)
    (case,) = ET.fromstring(ci.junit(run)).iter("testcase")
    messages = {child.tag: child.get("message") for child in case if child.tag != "system-out"}
    assert [*messages] == ([tag] if tag else [])
    assert all("because <of> & that" in str(message) for message in messages.values())
    document = json.loads(ci.kcidb(run))
    kcidb_io.schema.V5_3.validate(document)
    (test,) = document["tests"]
    assert test.get("status") == status
    assert test["misc"]["verdict"] == verdict
    assert test["misc"]["findings"][0].startswith(f"{verdict} wall clock (tcg): iops; expected")
    assert test["number"] == {"value": pytest.approx(28916.67), "unit": "host-clock IOPS"}


@pytest.mark.parametrize(("error", "status"), [("", "PASS"), ("it does not build", "ERROR")])
def test_kcidb_tells_whether_a_series_could_be_built(error: str, status: str) -> None:
    document = json.loads(ci.kcidb(examples.run(examples.series(error=error))))
    (build,), (checkout,) = document["builds"], document["checkouts"]
    assert (build["status"], checkout["valid"]) == (status, not error)


def test_equal_runs_compare_equal() -> None:
    run = examples.swept_run()
    text = compare.text(run, run)
    assert "all 2 verdicts are the same" in text
    assert text.count("exact values are equal") == 1
    # Two claims, three numbers of clients each, two arms.
    assert "12 of 12 exact values are equal to the last digit." in text


def test_findings_without_values_have_no_place_in_a_comparison() -> None:
    unmeasured = [
        examples.finding((), (), verdict=verdict)
        for verdict in ("skipped", "INCONCLUSIVE", "REFUTED", "ERROR")
    ]
    # Of a gate's cell whose patched kernel breaks only the first arm was measured.
    broken = examples.finding(((100.0,),), (0,), verdict="REFUTED", metric="runtime_s")
    run = judged(examples.finding(), *unmeasured, broken, verdict="ERROR")
    text = compare.text(run, run)
    assert "all 1 verdicts are the same" in text
    assert "20,667" in text
    assert "runtime_s" not in text


def test_more_seeds_of_a_kernel_are_no_other_value() -> None:
    few, more = ((100.0,), (90.0,)), ((100.0, 104.0, 108.0), (90.0, 91.0, 80.0))
    run, other_run = (judged(examples.finding(values, engine="exact")) for values in (few, more))
    assert "2 of 2 exact values are equal to the last digit." in compare.text(run, other_run)


def test_what_differs_between_runs_is_shown() -> None:
    worse = examples.finding((examples.BEFORE, examples.BEFORE), verdict="REFUTED")
    run = judged(examples.finding(), examples.finding(metric="amean_ms"))
    text = compare.text(run, judged(worse, verdict="REFUTED", id="other"))
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    assert "own.faster HOLDS REFUTED" in words
    assert "-28.5" in words
    assert "amean_ms" not in words  # measured in one of them only


def test_two_machines_are_two_tables() -> None:
    cells, findings = [], []
    for place, machine in ((0, "arm128"), (2, "xeon16")):
        simulated: dict[str, Any] = {"engine": "sim", "machine": machine}
        cells.append(examples.cell("before", (100.0,), **simulated, cpus=16))
        cells.append(examples.cell("after", (150.0,), **simulated, cpus=16))
        values = ((100.0,), (150.0,))
        simulated["level"] = "simulated"
        findings.append(examples.finding(values, (place, place + 1), **simulated))
    text = exports.commit(judged(*findings, cells=cells))
    assert "(sim arm128, 16 vCPUs)" in text
    assert "(sim xeon16, 16 vCPUs)" in text


def test_patches_without_a_claim_are_a_suite_that_fails_where_they_break_the_kernel() -> None:
    steps = (
        StepRecord(title="0001-x.patch"),
        StepRecord(title="0002-y.patch", broken="panic: BUG\n  where: x"),
    )
    run = examples.tables_run().model_copy(update={"steps": steps})
    suites = junitparser.JUnitXml.fromstring(ci.junit(run).encode())
    assert (suites.tests, suites.failures) == (2, 1)
    cases = {case.name: case for suite in suites for case in suite}
    assert not cases["0001-x.patch"].result
    assert cases["0002-y.patch"].result[0].message == "panic: BUG"
    shown = cases["0001-x.patch"].system_out
    assert all(cell in shown for cell in run.tables[0].rows[0])


WARNED = StepRecord(title="x", warned="a splat")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"series": (examples.series(verdict="HOLDS"),)}, "pass"),
        ({"series": (examples.series(verdict="INCONCLUSIVE"),)}, "warn"),
        ({"series": (examples.series(verdict="REFUTED"),)}, "fail"),
        ({"steps": (StepRecord(title="x"),)}, "pass"),
        ({"steps": (StepRecord(title="x"), WARNED)}, "warn"),
        ({"steps": (WARNED, StepRecord(title="y", broken="a\x1bpanic"))}, "fail"),
    ],
)
def test_a_check_of_b4_is_as_bad_as_the_worst_of_it(change: dict[str, object], status: str) -> None:
    (check,) = json.loads(ci.b4(examples.run().model_copy(update=change)))
    assert (check["tool"], check["status"]) == ("blocklab", status)
    assert "\x1b" not in check["summary"]
    assert set(check) == {"tool", "status", "summary", "details"}


def test_what_is_red_or_open_is_annotated_and_gives_no_other_command() -> None:
    evil = "x\n::set-env name=A::b%0Ac\r\x1b[31m"
    run = examples.run(
        examples.series(
            examples.claim(examples.finding(verdict="REFUTED", reason=evil), verdict="REFUTED")
        ),
        examples.series(error=evil, verdict="ERROR"),
        examples.series(examples.claim(examples.finding(verdict="HOLDS"))),
    )
    lines = [*ci.notices(run)]
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("::error title=")
        assert "\n" not in line
        assert "\r" not in line


# --- published figures


SKIPPED: dict[str, Any] = {"verdict": "skipped", "values": (), "measured": ()}


def figures(*findings: FindingRecord) -> str:
    return exports.published(judged(*findings))


def test_each_figure_has_a_line_with_its_verdict() -> None:
    text = exports.published(examples.swept_run())
    lines = [line for line in text.splitlines() if line.startswith("| own")]
    assert len(lines) == 6
    (line,) = (line for line in lines if "-40.73 %" in line)
    assert "-39.8 %" in line
    assert "clients=8" in line


def test_a_figure_that_another_engine_judged_is_not_shown_as_left_out() -> None:
    held = examples.finding(level=Level.SIMULATED, engine="sim", machine="xeon16")
    lines = figures(held, examples.finding(**SKIPPED)).splitlines()
    assert sum(line.startswith("| own") for line in lines) == 1
    assert lines[-1] == "1 of 1 published figures are decided: 1 HOLDS."


def test_a_figure_that_nothing_judged_is_shown_and_counted() -> None:
    text = figures(examples.finding(**SKIPPED), examples.finding(verdict="REFUTED"))
    assert "1 of 1 published" in text  # the same figure, judged
    left_out = examples.finding(
        **SKIPPED, published=examples.figure("+80%"), reason="the profile leaves it out"
    )
    text = figures(left_out, examples.finding(verdict="INCONCLUSIVE"))
    assert "the profile leaves it out" in text
    assert "0 of 2 published figures are decided: 1 skipped, 1 INCONCLUSIVE." in text


def test_a_run_without_published_figures_says_so() -> None:
    assert figures(examples.finding(published=None)) == (
        "no expectation of this run carries a published figure\n"
    )
