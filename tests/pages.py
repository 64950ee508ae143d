# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages as a browser, a screen reader and a keyboard meet them."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from lab.report import html
from lab.report.profiles import Costs
from lab.report.run_record import RunRecord

_VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """What is in a page; fails on a tag that is closed out of order.

    faults is what a screen reader or a keyboard would stumble over, handlers what runs a script or
    loads something.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.faults: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self._header: str | None = None
        self.feed(text)
        assert not self._open

    @property
    def words(self) -> str:
        """All text on one line."""
        return " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append(tag)
        if tag not in _VOID:
            self._open.append(tag)
        self.ids += [attributes["id"] or ""] if "id" in attributes else []
        self.links += [attributes[name] or "" for name in ("href", "src") if name in attributes]
        self.handlers += [name for name in attributes if name.startswith("on") or name == "src"]
        scrolls = attributes.get("class") == "scroll"
        if (scrolls or tag == "pre") and attributes.get("tabindex") != "0":
            self.faults.append(f"{tag} scrolls and has no tabindex")
        if scrolls and not attributes.get("aria-label"):
            self.faults.append("what scrolls has no name")
        if tag == "th":
            self._header = ""

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag == "th":
            if not (self._header or "").strip():
                self.faults.append("a header of a table is empty")
            self._header = None

    def handle_data(self, data: str) -> None:
        if self._header is not None:
            self._header += data
        if self._open and self._open[-1] not in ("style", "script"):
            self.text += f" {data}"


def page(
    run: RunRecord,
    history: html.History = lambda boot, metric: (),
    costs: Costs = lambda boot: None,
) -> Page:
    """The page of a run."""
    results = Path("/results")
    target = results / "runs" / run.id / "report.html"
    return Page(html.html(run, results, target, history, costs))
