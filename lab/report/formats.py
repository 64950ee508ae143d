# SPDX-License-Identifier: GPL-2.0-or-later
"""The formats of a run that are text, by name."""

from __future__ import annotations

from collections.abc import Callable

from lab.report import ci, exports, flame, mail, profiles, published
from lab.report.profiles import Costs
from lab.report.run_record import RunRecord

FORMATS: dict[str, Callable[[RunRecord], str]] = {
    "commit": exports.commit,
    "markdown": exports.markdown,
    "published": published.published,
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
