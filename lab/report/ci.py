# SPDX-License-Identifier: GPL-2.0-or-later
"""A run for machines that collect test results: JUnit XML, KCIDB's JSON, checks of b4."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from datetime import UTC, datetime

from lab.base.text import visible
from lab.inputs.terms import Verdict
from lab.report import tables, terminal, view
from lab.report.escapes import identifier, workflow_command, xml
from lab.report.run_record import ClaimRecord, RunRecord, SeriesRecord
from lab.report.view import ClaimView, FindingView

_KCIDB_VERSION = {"major": 5, "minor": 3}
# INCONCLUSIVE has no status: KCIDB takes that for a test that is not finished.
_KCIDB_STATUS = {
    Verdict.HOLDS: "PASS",
    Verdict.REFUTED: "FAIL",
    Verdict.ERROR: "ERROR",
    Verdict.SKIPPED: "SKIP",
}
_ORIGIN = "blocklab"
_ANNOTATED = {
    Verdict.REFUTED: "error",
    Verdict.ERROR: "error",
    Verdict.INCONCLUSIVE: "warning",
}
_JUNIT = {Verdict.REFUTED: "failure", Verdict.ERROR: "error"}


def junit(run: RunRecord) -> str:
    """JUnit XML: a suite for each series, a case for each claim.

    A refuted claim is a failure and one that could not be judged an error. Inconclusive and left
    out is skipped, with the reason: neither green nor red. Patches without a claim are a suite of
    their own, a case for each step that was measured, a failure where they break the kernel.
    """
    top = ET.Element("testsuites", name=_ORIGIN)
    for series_view in view.of_run(run):
        series = series_view.record
        suite = _suite(top, run, series.name)
        if series.error:
            case = _case(suite, series.name, "prepare")
            _child(case, "error", "the series could not be judged", series.error)
        for claim in series_view.claims:
            _claim(suite, run, series, claim)
        _count(suite)
    if run.steps:
        _steps(top, run)
    _count(top)
    ET.indent(top)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(top, "unicode") + "\n"


def kcidb(run: RunRecord) -> str:
    """KCIDB v5.3: a checkout and a build for each series, a test for each claim.

    The number of a test is what its deciding expectation measured on the patched side.
    """
    checkouts, builds, tests = [], [], []
    for series_view in view.of_run(run):
        series = series_view.record
        name = f"{_ORIGIN}:{run.id}-{identifier(series.name)}"
        common = {"id": name, "origin": _ORIGIN, "start_time": _time(run.started)}
        checkouts.append(
            {
                **common,
                "tree_name": xml(series.tree),
                "comment": xml(series.title),
                "valid": not series.error,
            }
        )
        builds.append(
            {
                **common,
                "checkout_id": name,
                "architecture": "x86_64",
                "comment": "base/ and series/ of the lab's kernel-patches",
                "status": "ERROR" if series.error else "PASS",
            }
        )
        tests += [_kcidb_test(run, series, claim, name) for claim in series_view.claims]
    document = {"version": _KCIDB_VERSION, "checkouts": checkouts, "builds": builds, "tests": tests}
    return json.dumps(document, indent=1) + "\n"


def b4(run: RunRecord) -> str:
    """What `b4 review` takes from the command of a check: JSON with a status and a summary.

    Inconclusive is a warning, and so is what patches without a claim were warned of.
    """
    verdicts = {series.verdict for series in run.series}
    refuted = verdicts & {Verdict.REFUTED, Verdict.ERROR} or any(s.broken for s in run.steps)
    doubtful = Verdict.INCONCLUSIVE in verdicts or any(step.warned for step in run.steps)
    said = [f"{series.name}: {series.verdict}" for series in run.series]
    said += [f"{step.title}: {step.broken or step.warned or 'measured'}" for step in run.steps]
    result = {
        "tool": _ORIGIN,
        "status": "fail" if refuted else "warn" if doubtful else "pass",
        "summary": visible("; ".join(said).partition("\n")[0]) or "nothing was measured",
        "details": terminal.text(run),
    }
    return json.dumps([result], indent=1) + "\n"


def notices(run: RunRecord) -> Iterator[str]:
    """What is red or open as commands of GitHub Actions, which shows them beside the job."""
    for series in run.series:
        if series.error:
            yield workflow_command("error", series.name, series.error)
        for claim in series.claims:
            kind, decisive = _ANNOTATED.get(claim.verdict), view.deciding(claim)
            if kind and decisive:
                said = (claim.verdict, view.of_finding(decisive).change, decisive.reason)
                title = f"{series.name} {claim.name}"
                yield workflow_command(kind, title, ", ".join(filter(None, said)))


def _suite(top: ET.Element, run: RunRecord, name: str) -> ET.Element:
    stamp = _time(run.started)[:19]
    return ET.SubElement(top, "testsuite", name=xml(name), timestamp=stamp)


def _case(suite: ET.Element, suite_name: str, name: str, seconds: float = 0.0) -> ET.Element:
    names = {"classname": xml(suite_name), "name": xml(name)}
    return ET.SubElement(suite, "testcase", {**names, "time": f"{seconds:.3f}"})


def _steps(top: ET.Element, run: RunRecord) -> None:
    """A suite of patches without a claim; what was measured of them goes with its first case."""
    suite = _suite(top, run, run.title)
    shown = "\n".join(map(tables.text, run.tables))
    seconds = sum(boot.seconds for cell in run.cells for boot in cell.boots)
    for step in run.steps:
        case = _case(suite, run.title, step.title, seconds)
        if step.broken:
            _child(case, "failure", step.broken.partition("\n")[0], step.broken)
        ET.SubElement(case, "system-out").text = xml("\n".join(filter(None, (step.warned, shown))))
        shown, seconds = "", 0.0
    _count(suite)


def _claim(suite: ET.Element, run: RunRecord, series: SeriesRecord, claim: ClaimView) -> None:
    record, decisive = claim.record, view.deciding(claim.record)
    case = _case(suite, series.name, record.name, _seconds(run, record))
    said = "\n".join(map(_said, claim.findings))
    message = f"{decisive.metric}: {decisive.reason}" if decisive else str(record.verdict)
    if record.verdict in _JUNIT:
        _child(case, _JUNIT[record.verdict], message, said)
    elif record.verdict is not Verdict.HOLDS:
        ET.SubElement(case, "skipped", message=xml(f"{record.verdict}: {message}"))
    ET.SubElement(case, "system-out").text = xml(f"{claim.statement}\n{said}")


def _child(case: ET.Element, tag: str, message: str, text: str) -> None:
    ET.SubElement(case, tag, message=xml(message), type=tag).text = xml(text)


def _count(element: ET.Element) -> None:
    """Set the totals that readers of JUnit expect."""
    cases = list(element.iter("testcase"))
    element.set("tests", str(len(cases)))
    for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        element.set(name, str(sum(case.find(tag) is not None for case in cases)))
    element.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")


def _kcidb_test(
    run: RunRecord, series: SeriesRecord, claim: ClaimView, build: str
) -> dict[str, object]:
    record, name = claim.record, identifier(claim.record.name)
    test: dict[str, object] = {
        "id": f"{build}-{name}",
        "build_id": build,
        "origin": _ORIGIN,
        "path": f"{_ORIGIN}.{identifier(series.name)}.{name}",
        "comment": xml(record.statement),
        "start_time": _time(run.started),
        "duration": _seconds(run, record),
        "misc": {"verdict": record.verdict, "findings": [xml(_said(f)) for f in claim.findings]},
    }
    if record.verdict in _KCIDB_STATUS:
        test["status"] = _KCIDB_STATUS[record.verdict]
    decisive = view.deciding(record)
    if decisive and decisive.measured:
        test["number"] = {"value": decisive.measured[-1], "unit": xml(decisive.unit)}
    return test


def _said(finding: FindingView) -> str:
    """A finding on one line."""
    seen = "; ".join(
        filter(None, (finding.measured and f"measured {finding.measured}", finding.reason))
    )
    start = f"{finding.record.verdict} {finding.evidence}: {finding.subject}"
    return f"{start}; expected {finding.expected}; {seen}"


def _seconds(run: RunRecord, claim: ClaimRecord) -> float:
    """How long the boots of a claim took; one that is shared counts for each."""
    places = {place for finding in claim.findings for place in finding.cells}
    return round(sum(boot.seconds for place in places for boot in run.cells[place].boots), 3)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
