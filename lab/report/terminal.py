# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run found as plain text within 80 columns, out of its record alone."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from lab.base.plain_table import PlainTable
from lab.base.text import visible
from lab.inputs.terms import Verdict
from lab.report import finding, matrix_text, tables
from lab.report.run_record import ClaimRecord, FindingRecord, RunRecord, SeriesRecord

_WIDTH = 80
_INDENT = " " * 6
# The words in front of a finding's lines, and the column in which what they say begins.
_LABEL = len("published ")


def text(run: RunRecord) -> str:
    """What the run's command prints: its tables, its verdicts, or its matrix of cells.

    Verdicts are every series with its claims and expectations, then one line a claim.
    """
    if run.tables:
        return visible("\n".join(map(tables.text, run.tables)))
    if run.series:
        return visible("\n".join([*map(series, run.series), summary(run)]))
    return visible(matrix_text.text(run))


def summary(run: RunRecord) -> str:
    """One line a claim."""
    table = PlainTable("Verdicts")
    for title in ("series", "claim", "verdict"):
        table.column(title)
    for one in run.series:
        if one.error:
            table.row(one.name, "-", one.verdict)
        for found in one.claims:
            table.row(one.name, found.name, finding.verdict(found))
    lines = [table.text()]
    findings = [found for one in run.series for own in one.claims for found in own.findings]
    if any(found.p is not None for found in findings):
        percents = (100 * (1 - run.alpha), 100 * run.alpha)
        lines += _wrapped(
            f"Wall clock: rounds of boots in turn, {percents[0]:g} % intervals; "
            f"p is the chance of the verdict if it were wrong, at most {percents[1]:g} % after any "
            "number of rounds; one that refutes is times the number of the claim's wall-clock "
            "expectations. "
            f"{_rejections(findings)}"
        )
    if run.skips and any(found.verdict is Verdict.SKIPPED for found in findings):
        lines += _wrapped(f"Skipped by the profile: {run.skips}")
    return "\n".join(lines) + "\n"


def series(one: SeriesRecord) -> str:
    """The claims of one series."""
    lines = [f"{one.name}: {one.verdict}", *_wrapped(one.title, "  "), *_wrapped(one.origin, "  ")]
    if differs := finding.configuration(one):
        lines += _wrapped(differs, "  ")
    if one.error:
        lines += ["", *(part for own in one.error.splitlines() for part in _wrapped(own, "  "))]
    for own in one.claims:
        lines += ["", *claim(own)]
    if one.claims:
        lines += ["", *_wrapped(f"To reproduce one: lab run {one.name} --claim NAME", "  ")]
    return "\n".join(lines) + "\n"


def claim(own: ClaimRecord) -> list[str]:
    """One claim: what was published, then each expectation with what was measured."""
    lines = [f"  {own.name}: {finding.verdict(own)}"]
    lines += _wrapped(f"{finding.whose(own)}: {own.statement}", "    ")
    lines += _wrapped(own.setup or f"{own.topology}, {own.scheduler}, {own.workload}", "    ")
    if own.job:
        lines += _wrapped(f"{own.job}  ({own.workload} on {own.topology})", "    ")
    for found in own.findings:
        lines += _finding(found)
    return lines


def _finding(found: FindingRecord) -> Iterator[str]:
    told = finding.parts(found)
    title = f"{told.verdict:<12} {told.evidence}: {told.subject}"
    yield from _wrapped(title, "    - ", hanging=6)
    for label, said in (
        ("published", told.published),
        ("known", told.known_miss),
        ("expected", f"{told.expected}: {told.because}"),
        ("measured", told.measured),
        ("because", told.reason),
    ):
        if said:
            yield from _wrapped(f"{label:<9} {said}", _INDENT, hanging=len(_INDENT) + _LABEL)


def _rejections(findings: Sequence[FindingRecord]) -> str:
    """How many rounds were rejected; those that answer several expectations count once."""
    rejected = {found.group: found.rejected for found in findings if found.timed}
    return f"Rounds rejected because the host disturbed them: {sum(rejected.values())}."


def _wrapped(text: str, indent: str = "", hanging: int | None = None) -> list[str]:
    """Lines that fit; those after the first begin at the column hanging, else as the first."""
    rest = indent if hanging is None else " " * hanging
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=rest)
