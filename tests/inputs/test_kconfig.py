# SPDX-License-Identifier: GPL-2.0-or-later
"""Kconfig fragments: how they merge, and that no option gets lost unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import BuildError, UsageError
from lab.inputs import kconfig


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base.config").write_text(
        '# a comment\nCONFIG_SMP=y\n\nCONFIG_NR_CPUS=128\nCONFIG_CMDLINE="a=b c"\n'
    )
    (tmp_path / "small.config").write_text("# CONFIG_SMP is not set\nCONFIG_NR_CPUS=1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("names", "merged"),
    [
        (["base"], 'CONFIG_CMDLINE="a=b c"\nCONFIG_NR_CPUS=128\nCONFIG_SMP=y\n'),
        (
            ["base", "small"],
            'CONFIG_CMDLINE="a=b c"\nCONFIG_NR_CPUS=1\n# CONFIG_SMP is not set\n',
        ),
        (["small", "base"], 'CONFIG_CMDLINE="a=b c"\nCONFIG_NR_CPUS=128\nCONFIG_SMP=y\n'),
        ([], ""),
    ],
)
def test_a_later_fragment_overrides_an_earlier_one(
    folder: Path, names: list[str], merged: str
) -> None:
    assert kconfig.text(kconfig.merge(names, folder)) == merged


def test_the_order_of_lines_does_not_change_the_merged_text(folder: Path) -> None:
    lines = (folder / "base.config").read_text().splitlines()
    (folder / "turned.config").write_text("\n".join(reversed(lines)))
    base, turned = (kconfig.text(kconfig.merge([name], folder)) for name in ("base", "turned"))
    assert base == turned


def test_an_option_knows_the_line_that_won(folder: Path) -> None:
    merged = kconfig.merge(["base", "small"], folder)
    assert merged["CONFIG_NR_CPUS"].where == f"{folder}/small.config:2"
    assert merged["CONFIG_CMDLINE"].where == f"{folder}/base.config:5"


def test_set_to_n_and_not_set_are_the_same(folder: Path) -> None:
    (folder / "n.config").write_text("CONFIG_SMP=n\n")
    assert kconfig.text(kconfig.merge(["n"], folder)) == "# CONFIG_SMP is not set\n"


@pytest.mark.parametrize("garbage", ["SMP=y", "CONFIG_SMP", "CONFIG_SMP =y", "select SMP"])
def test_a_line_that_is_no_option_is_named(folder: Path, garbage: str) -> None:
    (folder / "bad.config").write_text(f"CONFIG_BLOCK=y\n{garbage}\n")
    with pytest.raises(UsageError) as caught:
        kconfig.merge(["bad"], folder)
    assert repr(garbage) in caught.value.what
    assert caught.value.where == f"{folder}/bad.config:2"


def test_an_unknown_fragment_gets_the_nearest_name(folder: Path) -> None:
    with pytest.raises(UsageError, match="'bsae'") as caught:
        kconfig.merge(["bsae"], folder)
    assert caught.value.hint == "did you mean 'base'? known: base, small"


DECLARED = {"CONFIG_SMP", "CONFIG_NR_CPUS", "CONFIG_CMDLINE"}
FULL = 'CONFIG_SMP=y\nCONFIG_NR_CPUS=128\nCONFIG_CMDLINE="a=b c"\n'


def test_a_configuration_that_kept_every_option_passes(folder: Path) -> None:
    kconfig.check_survivors(kconfig.merge(["base"], folder), FULL + "CONFIG_MORE=y\n", DECLARED)


def test_an_option_that_is_wanted_off_may_be_absent_or_unset(folder: Path) -> None:
    options = kconfig.merge(["small"], folder)
    for line in ("", "# CONFIG_SMP is not set\n"):
        kconfig.check_survivors(options, f"{line}CONFIG_NR_CPUS=1\n", DECLARED)


@pytest.mark.parametrize(
    ("fragment", "final", "declared", "line", "reason"),
    [
        ("base", FULL.replace("SMP=y", "SMP=m"), DECLARED, 2, "the configuration made it m"),
        ("base", FULL.replace("128", "8"), DECLARED, 4, "the configuration made it 8"),
        ("base", FULL.replace("a=b c", "a=b"), DECLARED, 5, 'the configuration made it "a=b"'),
        ("small", "CONFIG_SMP=y\nCONFIG_NR_CPUS=1\n", DECLARED, 1, "the configuration made it y"),
        ("base", FULL.replace("CONFIG_SMP=y", ""), DECLARED, 2, "a dependency is not met"),
        (
            "base",
            FULL.replace("CONFIG_SMP=y", ""),
            DECLARED - {"CONFIG_SMP"},
            2,
            "this kernel has no such option",
        ),
    ],
)
def test_a_lost_option_says_where_it_was_asked_for_and_why_it_went(
    folder: Path, fragment: str, final: str, declared: set[str], line: int, reason: str
) -> None:
    with pytest.raises(BuildError, match=r"^1 kernel option") as caught:
        kconfig.check_survivors(kconfig.merge([fragment], folder), final, declared)
    assert caught.value.where.startswith(f"{folder}/{fragment}.config:{line}: ")
    assert caught.value.where.endswith(f": {reason}")


def test_all_lost_options_are_told_at_once(folder: Path) -> None:
    with pytest.raises(BuildError, match=r"^3 kernel option") as caught:
        kconfig.check_survivors(kconfig.merge(["base"], folder), "", DECLARED)
    assert len(caught.value.where.splitlines()) == 3
