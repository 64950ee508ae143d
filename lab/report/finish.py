# SPDX-License-Identifier: GPL-2.0-or-later
"""How every run ends: its record is written, its page is made, and what to print is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.base import cache
from lab.measure.boot_store import BootStore
from lab.report import ci, exports, flame, html, mail, profiles, record_store, terminal
from lab.report.profiles import Costs
from lab.report.run_record import RunRecord

# The formats of a run that are text, by name.
FORMATS: dict[str, Callable[[RunRecord], str]] = {
    "commit": exports.commit,
    "markdown": exports.markdown,
    "published": exports.published,
    "mail": mail.reply,
    "csv": exports.csv_text,
    "json": exports.json_text,
    "junit": ci.junit,
    "kcidb": ci.kcidb,
    "b4": ci.b4,
}
# Of what an I/O costs by function, which is not in the record: of all cells, or of those with a
# text in their name. Empty where nothing was counted.
PROFILES: dict[str, Callable[[RunRecord, Costs, str], str]] = {
    "folded": profiles.folded,
    "speedscope": profiles.speedscope,
    "svg": flame.standalone,
}
# GitHub takes a job's summary up to 1 MiB.
_SUMMARY_BYTES = 1_000_000


@dataclass(frozen=True)
class Finished:
    """A run that is written down: its folder, its page, and what it found as text."""

    folder: Path
    page: Path
    raw: Path
    text: str

    @property
    def places(self) -> str:
        """Where to read on, a line for each place."""
        return f"Report: {self.page}\nRecord: {self.folder}\nRaw files: {self.raw}"

    def ending(self, phases: str = "") -> str:
        """All that a command prints at its end; phases is what each phase took."""
        took = f"\nTime: {phases}" if phases else ""
        return f"\n{self.text}{took}\n{self.places}"


def finish(run: RunRecord, store: BootStore, *, for_ci: bool = False) -> Finished:
    """Write the record of a run and its page; for_ci also ``junit.xml`` and ``summary.md``.

    What is printed comes out of the record: of series one screen, of which ``lab show`` has the
    details; what a command wants to show besides verdicts and cells are the run's tables.
    """
    folder = record_store.save(run, store.folder)
    if for_ci:
        cache.write_atomically(folder / "junit.xml", ci.junit(run))
        cache.write_atomically(folder / "summary.md", short(exports.markdown(run), folder))
    page = write_page(run, store)
    text = terminal.screen(run) if run.series and not run.tables else terminal.text(run)
    return Finished(folder, page, store.folder / "boots", text)


def write_page(run: RunRecord, store: BootStore, output: Path | None = None) -> Path:
    """Write the page of a run, into its folder unless told otherwise, and return where it is."""
    target = (output or store.folder / "runs" / run.id / "report.html").absolute()
    page = html.html(run, store.folder.absolute(), target, store.history, store.cost)
    cache.write_atomically(target, page)
    return target


def short(text: str, folder: Path) -> str:
    """Markdown that fits into a CI summary; the rest is in the page."""
    content = text.encode()
    if len(content) <= _SUMMARY_BYTES:
        return text
    kept = content[:_SUMMARY_BYTES].decode(errors="ignore").rpartition("\n")[0]
    return f"{kept}\n\nThis is not all: {folder / 'report.html'}\n"
