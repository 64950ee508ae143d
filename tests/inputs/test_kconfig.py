# SPDX-License-Identifier: GPL-2.0-or-later
"""Kconfig fragments: how they merge, and that no option gets lost unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import BuildError, UsageError
from lab.inputs import kconfig

ANY = (6, 12)


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
        (["base", "small"], 'CONFIG_CMDLINE="a=b c"\nCONFIG_NR_CPUS=1\n# CONFIG_SMP is not set\n'),
        (["small", "base"], 'CONFIG_CMDLINE="a=b c"\nCONFIG_NR_CPUS=128\nCONFIG_SMP=y\n'),
        ([], ""),
    ],
)
def test_a_later_fragment_overrides_an_earlier_one(
    folder: Path, names: list[str], merged: str
) -> None:
    assert kconfig.text(kconfig.merge(names, ANY, folder)) == merged


def test_the_order_of_lines_does_not_change_the_merged_text(folder: Path) -> None:
    lines = (folder / "base.config").read_text().splitlines()
    (folder / "turned.config").write_text("\n".join(reversed(lines)))
    base, turned = (kconfig.text(kconfig.merge([name], ANY, folder)) for name in ("base", "turned"))
    assert base == turned


def test_an_option_knows_the_line_that_won(folder: Path) -> None:
    merged = kconfig.merge(["base", "small"], ANY, folder)
    assert merged["CONFIG_NR_CPUS"].where == f"{folder}/small.config:2"
    assert merged["CONFIG_CMDLINE"].where == f"{folder}/base.config:5"


def test_set_to_n_and_not_set_are_the_same(folder: Path) -> None:
    (folder / "n.config").write_text("CONFIG_SMP=n\n")
    assert kconfig.text(kconfig.merge(["n"], ANY, folder)) == "# CONFIG_SMP is not set\n"


@pytest.mark.parametrize(
    "garbage",
    [
        *("SMP=y", "CONFIG_SMP", "CONFIG_SMP =y", "select SMP", "CONFIG_SMP=y why"),
        *("CONFIG_SMP=y # until 7.0", "CONFIG_SMP=y # since 7", "CONFIG_SMP=y #"),
        *("CONFIG_SMP=y # before 7.0 since 6.4", "# CONFIG_SMP is not set # in 7.0"),
    ],
)
def test_a_line_that_is_no_option_is_named(folder: Path, garbage: str) -> None:
    (folder / "bad.config").write_text(f"CONFIG_BLOCK=y\n{garbage}\n")
    with pytest.raises(UsageError) as caught:
        kconfig.merge(["bad"], ANY, folder)
    assert repr(garbage) in caught.value.what
    assert caught.value.where == f"{folder}/bad.config:2"


@pytest.mark.parametrize(
    ("kernel", "merged"),
    [
        ((5, 10), "CONFIG_A=y\nCONFIG_D=4\n"),
        ((6, 3), "CONFIG_A=y\nCONFIG_D=4\n"),
        ((6, 4), "CONFIG_B=y\nCONFIG_D=8\n"),
        ((6, 12), "CONFIG_B=y\n# CONFIG_C is not set\nCONFIG_D=8\n"),
        ((6, 19), "CONFIG_B=y\n# CONFIG_C is not set\nCONFIG_D=8\n"),
        ((7, 0), "# CONFIG_C is not set\nCONFIG_D=8\n"),
    ],
)
def test_a_line_is_for_the_versions_that_it_names(
    tmp_path: Path, kernel: tuple[int, int], merged: str
) -> None:
    (tmp_path / "some.config").write_text(
        "CONFIG_A=y  # before 6.4\n"
        "CONFIG_B=y  # since 6.4 before 7.0\n"
        "# CONFIG_C is not set  # since 6.12\n"
        "CONFIG_D=4 # before 6.4\nCONFIG_D=8 # since 6.4\n"
    )
    assert kconfig.text(kconfig.merge(["some"], kernel, tmp_path)) == merged


def test_a_string_may_hold_what_looks_like_versions(tmp_path: Path) -> None:
    line = 'CONFIG_CMDLINE="a # since 7.0"\n'
    (tmp_path / "some.config").write_text(line)
    assert kconfig.text(kconfig.merge(["some"], ANY, tmp_path)) == line
    assert kconfig.values(line) == {"CONFIG_CMDLINE": '"a # since 7.0"'}


@pytest.mark.parametrize(
    ("makefile", "version"),
    [
        ("VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\nEXTRAVERSION =\n", (6, 12)),
        ("# SPDX\nVERSION = 7\nPATCHLEVEL = 0\nSUBLEVEL = 0\nEXTRAVERSION = -rc1\n", (7, 0)),
    ],
)
def test_the_version_is_the_makefiles(makefile: str, version: tuple[int, int]) -> None:
    assert kconfig.version(makefile) == version


def test_a_makefile_without_a_version_is_refused() -> None:
    with pytest.raises(BuildError, match="does not tell its version"):
        kconfig.version("VERSION = 6\n")


def test_an_unknown_fragment_gets_the_nearest_name(folder: Path) -> None:
    with pytest.raises(UsageError, match="'bsae'") as caught:
        kconfig.merge(["bsae"], ANY, folder)
    assert caught.value.hint == "did you mean 'base'? known: base, small"


DECLARED = {"CONFIG_SMP", "CONFIG_NR_CPUS", "CONFIG_CMDLINE"}
FULL = 'CONFIG_SMP=y\nCONFIG_NR_CPUS=128\nCONFIG_CMDLINE="a=b c"\n'


@pytest.mark.parametrize(
    ("fragment", "final"),
    [
        ("base", FULL + "CONFIG_MORE=y\n"),
        # What is wanted off may be absent or unset.
        ("small", "CONFIG_NR_CPUS=1\n"),
        ("small", "# CONFIG_SMP is not set\nCONFIG_NR_CPUS=1\n"),
    ],
)
def test_a_configuration_that_kept_every_option_passes(
    folder: Path, fragment: str, final: str
) -> None:
    kconfig.check_survivors(kconfig.merge([fragment], ANY, folder), final, lambda: DECLARED)


@pytest.mark.parametrize(
    ("fragment", "final", "declared", "line", "reason"),
    [
        ("base", FULL.replace("SMP=y", "SMP=m"), DECLARED, 2, "the configuration made it m"),
        ("base", FULL.replace("128", "8"), DECLARED, 4, "the configuration made it 8"),
        ("base", FULL.replace("a=b c", "a=b"), DECLARED, 5, 'the configuration made it "a=b"'),
        ("small", "CONFIG_SMP=y\nCONFIG_NR_CPUS=1\n", DECLARED, 1, "the configuration made it y"),
        ("base", FULL.replace("CONFIG_SMP=y", ""), DECLARED, 2, "a dependency is not met"),
        ("base", FULL.replace("CONFIG_SMP=y", ""), set(), 2, "this kernel has no such option"),
    ],
)
def test_a_lost_option_says_where_it_was_asked_for_and_why_it_went(
    folder: Path, fragment: str, final: str, declared: set[str], line: int, reason: str
) -> None:
    with pytest.raises(BuildError, match=r"^1 kernel option") as caught:
        kconfig.check_survivors(kconfig.merge([fragment], ANY, folder), final, lambda: declared)
    assert caught.value.where.startswith(f"{folder}/{fragment}.config:{line}: ")
    assert caught.value.where.endswith(f": {reason}")


def test_all_lost_options_are_told_at_once(folder: Path) -> None:
    with pytest.raises(BuildError, match=r"^3 kernel option") as caught:
        kconfig.check_survivors(kconfig.merge(["base"], ANY, folder), "", lambda: DECLARED)
    assert len(caught.value.where.splitlines()) == 3


def test_a_fragment_brings_the_patches_of_its_driver_in_order(tmp_path: Path) -> None:
    for name in ("disk/0002-b", "disk/0001-a", "card/0001-c"):
        path = tmp_path / f"{name}.patch"
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    patches = kconfig.patches(["base", "card", "disk"], tmp_path)
    assert [path.name for path in patches] == ["0001-c.patch", "0001-a.patch", "0002-b.patch"]


def test_the_disk_with_an_arm_is_a_driver_of_the_lab() -> None:
    (patch,) = kconfig.patches(["base", "block", "armdisk"])
    assert "drivers/scsi/armdisk.c" in patch.read_text()
