# SPDX-License-Identifier: GPL-2.0-or-later
"""A run as a mail to those who posted the patches: what was measured, on what, how to repeat it."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from email.header import Header
from email.utils import parseaddr

from lab.base.errors import UsageError
from lab.base.text import visible
from lab.inputs.terms import Engine, Verdict
from lab.report import exports, tables, view
from lab.report.run_record import Mail, RunRecord
from lab.report.view import ClaimView, SeriesView

# What a terminal of 80 columns shows after being quoted some times.
WIDTH = 72
_ENGINES = {
    Engine.EXACT: "a TCG plugin counts instructions: an I/O costs the same number of them in "
    "every run, so what differs comes from the code.",
    Engine.SIM: "Time is simulated: instructions, and cache lines that move between CPUs, have the "
    "price that a machine model gives them. It is no measurement of a real machine.",
    Engine.TCG: "Timed by the host's clock in an emulated guest (TCG), in pairs of boots in turn.",
    Engine.KVM: "Timed by the host's clock in a guest (KVM), in pairs of boots in turn.",
}
_NO_TRAILER = (Verdict.REFUTED, Verdict.ERROR)
_IDENTITY = re.compile(r"[^\s<>][^<>]* <[^<>\s@]+@[^<>\s@]+>")


def reply(run: RunRecord, tested_by: str = "") -> str:
    """A reply to the mail that the patches of a run came in, in lines of 72 characters.

    Without such a mail it is the text alone. tested_by, ``Name <address>``, becomes a trailer.
    Raises UsageError for one that is no identity, and where the patches do not deserve it.
    """
    headers = [*_headers(run.mail), ""] if run.mail else []
    body = "\n\n".join(filter(None, _paragraphs(run)))
    trailer = f"\n\nTested-by: {_trailer(run, tested_by)}" if tested_by else ""
    return visible("\n".join([*headers, f"{body}{trailer}"])) + "\n"


def _headers(mail: Mail) -> Iterator[str]:
    title = mail.subject if re.match(r"re:", mail.subject, re.IGNORECASE) else f"Re: {mail.subject}"
    yield _header("To", mail.sender)
    recipients = dict.fromkeys((*mail.to, *mail.cc))
    recipients.pop(mail.sender, None)
    if recipients:
        yield "Cc: " + ",\n    ".join(recipients)
    yield _header("Subject", title)
    yield f"In-Reply-To: {mail.message_id}"
    yield "References: " + "\n    ".join(dict.fromkeys((*mail.references, mail.message_id)))


def _header(name: str, text: str) -> str:
    """A header that is written as the standard wants it, whatever letters are in it."""
    shown = Header(_line(text), header_name=name, maxlinelen=WIDTH)
    return f"{name}: {shown.encode(linesep=chr(10))}"


def _line(text: str) -> str:
    """A stranger's text on one line."""
    return " ".join(visible(text).split())


def _paragraphs(run: RunRecord) -> Iterator[str]:
    if run.mail:
        name, address = parseaddr(run.mail.sender)
        said = _wrapped(_line(f"On {run.mail.date}, {name or address} wrote:"))
        yield f"{said}\n> {_line(run.mail.subject)}"
    yield _wrapped(_what(run))
    engines = dict.fromkeys(cell.engine for cell in run.cells)
    yield _wrapped(" ".join(_ENGINES[engine] for engine in engines))
    for series_view in view.of_run(run):
        yield from _series(series_view)
    if run.series:
        yield exports.commit(run, WIDTH).rstrip("\n")
    for table in run.tables:
        yield _unframed(tables.text(table, WIDTH))
    yield f"To repeat it:\n\n{_command(run)}"


def _what(run: RunRecord) -> str:
    """What was measured on what, as one writes it to a list."""
    releases = dict.fromkeys(cell.facts.get("release", "") for cell in run.cells)
    kernels = " and ".join(filter(None, releases)) or "a kernel"
    trees = ", ".join(dict.fromkeys(filter(None, (series.tree for series in run.series))))
    machines = {
        f"{cell.topology} ({view.counted(cell.cpus, 'vCPU')}, "
        f"{view.counted(cell.hw_queues, 'hardware queue')})"
        for cell in run.cells
    }
    where = f" on {', '.join(sorted(machines))}" if machines else ""
    return (
        f"I ran this on Linux {kernels}{f' ({trees})' if trees else ''}, without and with the "
        f"patches{where}, in {run.host.facts.qemu}."
    )


def _series(series_view: SeriesView) -> Iterator[str]:
    yield _wrapped(series_view.configuration)
    yield "\n".join(map(_wrapped, series_view.record.error.splitlines()))
    for claim in series_view.claims:
        yield "\n".join(_claim(claim))


def _claim(claim: ClaimView) -> Iterator[str]:
    record = claim.record
    yield _wrapped(f"{record.name} ({record.topology}, {record.scheduler}, {record.workload}):")
    yield _wrapped(f"{claim.verdict}. {claim.statement}", "  ")
    for finding in claim.findings:
        why = f": {finding.reason}" if finding.reason and finding.measured else ""
        said = f"{finding.measured or finding.reason} ({finding.record.verdict}{why})"
        yield _wrapped(f"- {finding.subject}: {said}", "  ", "    ")


def _unframed(text: str) -> str:
    """A table in plain letters: mail programs and eyes of long training want no frames."""
    kept = [line.replace("─", "-").rstrip() for line in text.splitlines()]
    return "\n".join(kept).strip("\n")


def _command(run: RunRecord) -> str:
    """The command that was run, in lines that a shell joins; patches by their Message-ID."""
    try:
        words = shlex.split(run.command)
    except ValueError:  # a record that somebody else wrote
        words = [run.command]
    if run.mail and run.mail.source in words:
        words[words.index(run.mail.source)] = f"lore:{run.mail.message_id.strip('<>')}"
    lines = [""]
    for word in map(shlex.quote, words):
        if len(lines[-1]) + len(word) > WIDTH - 6 and lines[-1]:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return " \\\n    ".join([f"  {lines[0]}", *lines[1:]])


def _trailer(run: RunRecord, identity: str) -> str:
    """Who tested, where the patches did what they claim, or at least broke nothing."""
    if not _IDENTITY.fullmatch(identity) or not identity.isprintable():
        raise UsageError(f"not an identity: {identity!r}", hint="write 'Name <name@example.org>'")
    if not run.series and not run.steps:
        raise UsageError("this run tested no patches", hint="lab try, lab run")
    if bad := [series.name for series in run.series if series.verdict in _NO_TRAILER]:
        raise UsageError(f"no Tested-by for what is not as claimed: {', '.join(bad)}")
    if broken := [step.title for step in run.steps if step.broken]:
        raise UsageError(f"no Tested-by for what breaks the kernel: {', '.join(broken)}")
    return identity


def _wrapped(text: str, indent: str = "", rest: str = "") -> str:
    """Lines that fit; those after the first are indented by rest, else as the first."""
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=rest or indent)
