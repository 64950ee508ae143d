# SPDX-License-Identifier: GPL-2.0-or-later
"""A run for machines that collect test results: JUnit XML, KCIDB's JSON, checks of b4."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from datetime import UTC, datetime

from lab.base.text import visible
from lab.inputs.terms import Verdict
from lab.report import finding, tables, terminal
from lab.report.escapes import identifier, workflow_command, xml
from lab.report.run_record import ClaimRecord, FindingRecord, RunRecord, SeriesRecord

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


def junit(run: RunRecord) -> str:
    """JUnit XML: a suite for each series, a case for each claim.

    A refuted claim is a failure and one that could not be judged an error. Inconclusive and left
    out is skipped, with the reason: neither green nor red. Patches without a claim are a suite of
    their own, a case for each step that was measured, a failure where they break the kernel.
    """
    top = ET.Element("testsuites", name="blocklab")
    for series in run.series:
        suite = ET.SubElement(top, "testsuite", name=xml(series.name))
        suite.set("timestamp", _time(run.started)[:19])
        if series.error:
            case = ET.SubElement(
                suite, "testcase", classname=xml(series.name), name="prepare", time="0"
            )
            _child(case, "error", "the series could not be judged", series.error)
        for claim in series.claims:
            _case(suite, run, series, claim)
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
    for series in run.series:
        name = f"{_ORIGIN}:{run.id}-{identifier(series.name)}"
        checkouts.append(
            {
                "id": name,
                "origin": _ORIGIN,
                "tree_name": xml(series.tree),
                "comment": xml(series.title),
                "start_time": _time(run.started),
                "valid": not series.error,
            }
        )
        builds.append(
            {
                "id": name,
                "checkout_id": name,
                "origin": _ORIGIN,
                "architecture": "x86_64",
                "start_time": _time(run.started),
                "comment": "base/ and series/ of the lab's kernel-patches",
                "status": "ERROR" if series.error else "PASS",
            }
        )
        tests += [_kcidb_test(run, series, claim, name) for claim in series.claims]
    document = {"version": _KCIDB_VERSION, "checkouts": checkouts, "builds": builds, "tests": tests}
    return json.dumps(document, indent=1) + "\n"


def b4(run: RunRecord) -> str:
    """What `b4 review` takes from the command of a check: JSON with a status and a summary.

    Inconclusive is a warning, and so is what patches without a claim were warned of.
    """
    refuted = [one.name for one in run.series if one.verdict in (Verdict.REFUTED, Verdict.ERROR)]
    refuted += [step.title for step in run.steps if step.broken]
    doubtful = [one.name for one in run.series if one.verdict is Verdict.INCONCLUSIVE]
    doubtful += [step.title for step in run.steps if step.warned]
    status = "fail" if refuted else "warn" if doubtful else "pass"
    verdicts = [f"{one.name}: {one.verdict}" for one in run.series]
    verdicts += [f"{step.title}: {step.broken or step.warned or 'measured'}" for step in run.steps]
    found = {
        "tool": _ORIGIN,
        "status": status,
        "summary": visible("; ".join(verdicts).partition("\n")[0]) or "nothing was measured",
        "details": terminal.text(run),
    }
    return json.dumps([found], indent=1) + "\n"


def notices(run: RunRecord) -> Iterator[str]:
    """What is red or open as commands of GitHub Actions, which shows them beside the job."""
    for series in run.series:
        if series.error:
            yield workflow_command("error", series.name, series.error)
        for claim in series.claims:
            kind = _ANNOTATED.get(claim.verdict)
            decisive = finding.deciding(claim)
            if kind and decisive:
                said = finding.parts(decisive)
                told = ", ".join(filter(None, (claim.verdict, said.change, decisive.reason)))
                yield workflow_command(kind, f"{series.name} {claim.name}", told)


def _steps(top: ET.Element, run: RunRecord) -> None:
    """A suite of patches without a claim; what was measured of them goes with its first case."""
    suite = ET.SubElement(top, "testsuite", name=xml(run.title))
    suite.set("timestamp", _time(run.started)[:19])
    told = "\n".join(map(tables.text, run.tables))
    for step in run.steps:
        names = {"classname": xml(run.title), "name": xml(step.title), "time": "0"}
        case = ET.SubElement(suite, "testcase", names)
        if step.broken:
            _child(case, "failure", step.broken.partition("\n")[0], step.broken)
        ET.SubElement(case, "system-out").text = xml("\n".join(filter(None, (step.warned, told))))
        told = ""
    suite[0].set("time", f"{sum(b.seconds for cell in run.cells for b in cell.boots):.3f}")
    _count(suite)


def _case(suite: ET.Element, run: RunRecord, series: SeriesRecord, claim: ClaimRecord) -> None:
    seconds = _seconds(run, claim)
    names = {"classname": xml(series.name), "name": xml(claim.name)}
    case = ET.SubElement(suite, "testcase", names)
    case.set("time", f"{seconds:.3f}")
    told = "\n".join(map(_told, claim.findings))
    decisive = finding.deciding(claim)
    message = f"{decisive.metric}: {decisive.reason}" if decisive else str(claim.verdict)
    if claim.verdict is Verdict.REFUTED:
        _child(case, "failure", message, told)
    elif claim.verdict is Verdict.ERROR:
        _child(case, "error", message, told)
    elif claim.verdict is not Verdict.HOLDS:
        ET.SubElement(case, "skipped", message=xml(f"{claim.verdict}: {message}"))
    ET.SubElement(case, "system-out").text = xml(
        f"{finding.whose(claim)}: {claim.statement}\n{told}"
    )


def _child(case: ET.Element, tag: str, message: str, text: str) -> None:
    child = ET.SubElement(case, tag, message=xml(message), type=tag)
    child.text = xml(text)


def _count(element: ET.Element) -> None:
    """Set the totals that readers of JUnit expect."""
    cases = list(element.iter("testcase"))
    element.set("tests", str(len(cases)))
    for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        element.set(name, str(sum(case.find(tag) is not None for case in cases)))
    element.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")


def _kcidb_test(
    run: RunRecord, series: SeriesRecord, claim: ClaimRecord, build: str
) -> dict[str, object]:
    test: dict[str, object] = {
        "id": f"{build}-{identifier(claim.name)}",
        "build_id": build,
        "origin": _ORIGIN,
        "path": f"blocklab.{identifier(series.name)}.{identifier(claim.name)}",
        "comment": xml(claim.statement),
        "start_time": _time(run.started),
        "duration": _seconds(run, claim),
        "misc": {"verdict": claim.verdict, "findings": [xml(_told(f)) for f in claim.findings]},
    }
    if claim.verdict in _KCIDB_STATUS:
        test["status"] = _KCIDB_STATUS[claim.verdict]
    decisive = finding.deciding(claim)
    if decisive and decisive.measured:
        test["number"] = {"value": decisive.measured[-1], "unit": xml(decisive.unit)}
    return test


def _told(found: FindingRecord) -> str:
    told = finding.parts(found)
    seen = "; ".join(filter(None, (told.measured and f"measured {told.measured}", told.reason)))
    return f"{told.verdict} {told.evidence}: {told.subject}; expected {told.expected}; {seen}"


def _seconds(run: RunRecord, claim: ClaimRecord) -> float:
    """How long the boots of a claim took; one that is shared counts for each."""
    places = {place for found in claim.findings for place in found.cells}
    return round(sum(boot.seconds for place in places for boot in run.cells[place].boots), 3)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
