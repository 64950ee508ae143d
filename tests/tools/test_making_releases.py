# SPDX-License-Identifier: GPL-2.0-or-later
"""What a release is made of: its changelog, and what there is no release of."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import __version__
from lab.base.errors import LabError
from lab.base.system import PROJECT
from lab.setup import NEEDS
from tools import release

CHANGES = f"""# Changes

Not of a version:

- never

## {__version__} (unreleased)

What is in it:

- A point of
  two lines.
- Another `one`.

## 0.0.1

- old
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "debian").mkdir()
    (tmp_path / "debian/control").write_text("Source: x\nMaintainer: A B <a@b.example.org>\n")
    (tmp_path / "CHANGES.md").write_text(CHANGES)
    return tmp_path


def test_debians_changelog_is_the_versions_entry(source: Path) -> None:
    assert release.changelog(source, 0) == (
        f"blocklab ({__version__}) unstable; urgency=medium\n\n"
        "  * A point of two lines.\n  * Another `one`.\n\n"
        " -- A B <a@b.example.org>  Thu, 01 Jan 1970 00:00:00 -0000\n"
    )


def test_a_version_without_an_entry_is_refused(source: Path) -> None:
    (source / "CHANGES.md").write_text(CHANGES.replace(__version__, "9.9"))
    with pytest.raises(LabError, match="no entry"):
        release.changelog(source, 0)


def test_the_package_depends_on_all_that_set_up_installs() -> None:
    control = (PROJECT / "debian/control").read_text()
    depends = {line.split()[0].strip(",") for line in control.splitlines() if line[:1] == " "}
    everywhere = {"diffutils", "findutils", "gzip", "perl", "util-linux"}
    for_checks = {"shellcheck"}
    assert {need.package for need in NEEDS} - everywhere - for_checks <= depends


def test_a_tag_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="git rev-parse"):
        release.make("v99.0", tmp_path, image=False)
