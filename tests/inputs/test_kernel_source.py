# SPDX-License-Identifier: GPL-2.0-or-later
"""Which kernel source is taken where the lab's files name Debian's."""

from __future__ import annotations

import pytest

from lab.base import apt, system
from lab.base.errors import UsageError
from lab.base.progress import Progress
from lab.build import source
from lab.inputs import profile, series

OWN = "release:6.12.94"


def test_another_source_takes_the_place_of_debians(monkeypatch: pytest.MonkeyPatch) -> None:
    written = (profile.get("quick"), series.get("bfq_burst_merge"))
    assert {definition.tree for definition in written} == {"debian:6.12"}
    monkeypatch.setenv(system.TREE, OWN)
    assert {profile.get("quick").tree, series.get("bfq_burst_merge").tree} == {OWN}
    assert series.get("bfq_burst_merge").folder == written[1].folder


def test_a_source_that_is_named_otherwise_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(system.TREE, OWN)
    assert system.kernel_source("git:linux@HEAD") == "git:linux@HEAD"


def test_who_is_not_on_debian_is_told_what_to_set(
    quiet: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "system_codename", lambda: None)
    with pytest.raises(UsageError, match="can be had on Debian only") as caught:
        source.resolve("debian:6.12", quiet)
    with pytest.raises(UsageError, match="can be had on Debian only"):
        source.require_possible("debian:6.12")
    source.require_possible(OWN)
    assert caught.value.hint.startswith(f"set {system.TREE}={OWN}")
