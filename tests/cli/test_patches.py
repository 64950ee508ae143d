# SPDX-License-Identifier: GPL-2.0-or-later
"""Before anything is built it is said which patches will be, whose they are, and which are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from guests import FakeSession

from lab.base.errors import UsageError
from lab.build.patch_mail import Collected
from lab.cli import patches
from lab.cli.main import lab
from lab.inputs import profile


def test_what_will_be_applied_is_printed_and_does_nothing(tmp_path: Path) -> None:
    named, nameless = tmp_path / "0001-x.patch", tmp_path / "0002-y\x1b[2J.patch"
    named.write_text("From: A <a@example.org>\nSubject: x\n\nFrom: B \x07<b@example.org>\n\ny\n")
    nameless.write_text("--- a/x\n+++ b/x\n")
    session = FakeSession(profile.get("quick"))
    found = patches._told(Collected((named, nameless), ("\x1b]0;x\x07, by m@evil",)), session)
    assert found == (named, nameless)
    assert session.said.splitlines() == [
        "  1  0001-x.patch, by B \\x07<b@example.org>",
        "  2  0002-y\\x1b[2J.patch",
        "     left out: \\x1b]0;x\\x07, by m@evil",
    ]


def test_several_senders_end_it_before_anything_is_built(tmp_path: Path) -> None:
    one = "From x@y Thu Jan  1 00:00:00 1970\nFrom: {}\nSubject: [PATCH] x\n\n--- a/x\n+++ b/x\n"
    box = tmp_path / "box"
    box.write_text(one.format("a@b") + "\n" + one.format("c@d"))
    with pytest.raises(UsageError, match="several people: a@b, c@d"):
        lab.main(["try", str(box)], standalone_mode=False)
    with pytest.raises(UsageError, match="e@f sent no patch"):
        lab.main(["try", str(box), "--from", "e@f"], standalone_mode=False)
