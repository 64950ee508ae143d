# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel versions: the fragments ask each for what it has, so that all of them can be measured.

The fast test asks the records in tests/data, `make kernels` asks the kernels themselves and brings
the records up to date.
"""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import pytest

from lab.base.errors import BuildError, LabError
from lab.base.progress import Progress
from lab.build import kernel, patching, products, workbench
from lab.build.source import resolve
from lab.inputs import kconfig
from lab.inputs.series import Series

DATA = Path(__file__).parent / "data"
# Of the series that Debian has, those at whose ends an option comes or goes.
VERSIONS = ("5.10", "6.1", "6.12", "7.3")
STEPS: tuple[tuple[str, ...], ...] = (
    ("base", "block"),
    ("filesystems",),
    ("buffer_heads",),
    ("zoned",),
    ("ext4",),
    ("md",),
    ("debug",),
    ("source_lines",),
)
# The options of the lab's own drivers are in no kernel of others.
SERIES = tuple(n for n in Series.model_fields["kernel"].default if not kconfig.patches([n]))
DISTRIBUTION: tuple[tuple[str, ...], ...] = (
    ("base", "block", "filesystems", "distro"),
    ("base", "block", "filesystems", "distro", "icpe24"),
    (*SERIES, "debug"),
)
COMBINATIONS = (*accumulate(STEPS), *DISTRIBUTION)
# Of these combinations records hold what the kernel has.
RECORDED = (COMBINATIONS[len(STEPS) - 1], *DISTRIBUTION)

versions = pytest.mark.parametrize("version", VERSIONS)
combinations = pytest.mark.parametrize("fragments", COMBINATIONS, ids=" ".join)


def options(fragments: tuple[str, ...], version: str) -> dict[str, kconfig.Option]:
    major, minor = version.split(".")
    return kconfig.merge(fragments, (int(major), int(minor)))


def record(version: str, fragments: tuple[str, ...]) -> Path:
    name = fragments[-1] if fragments in DISTRIBUTION else "lab"
    return DATA / f"kconfig-{name}-{version}.txt"


def configured(tree: patching.Tree, fragments: tuple[str, ...], progress: Progress) -> str:
    """The .config of a tree, every option checked, and nothing built."""
    options, log = kconfig.merge(fragments, kernel._version(tree)), kernel._log("configure")
    with workbench.opened(tree, progress) as bench, bench.objects(fragments, progress) as how:
        kernel._configure(how, bench, options, log, progress)
        return products.text(how.objects, ".config")


@combinations
@versions
def test_a_kernel_has_what_the_fragments_ask_it_for(
    version: str, fragments: tuple[str, ...]
) -> None:
    path = record(version, fragments)
    had = path.read_text()
    try:
        kconfig.check_survivors(options(fragments, version), had, lambda: set(kconfig.values(had)))
    except BuildError as exc:
        pytest.fail(f"{path.name}: {exc}\nif a kernel has it: make kernels")


def test_no_fragment_is_left_out() -> None:
    every = {path.stem for path in kconfig.FRAGMENTS.glob("*.config")}
    tested = {name for combination in COMBINATIONS for name in combination}
    assert tested == {name for name in every if not kconfig.patches([name])}


@pytest.mark.kernels
@combinations
@versions
def test_a_real_kernel_has_what_the_fragments_ask_it_for(
    version: str, fragments: tuple[str, ...]
) -> None:
    progress = Progress()
    try:
        source = resolve(f"debian:{version}", progress)
    except LabError as exc:
        pytest.skip(exc.what)
    final = kconfig.values(configured(patching.patched(source, ()), fragments, progress))
    if fragments not in RECORDED:
        return
    names = sorted(options(fragments, version))
    lines = [f"{name}={final[name]}\n" for name in names if name in final]
    path, had = (
        record(version, fragments),
        f"# SPDX-License-Identifier: GPL-2.0-or-later\n{''.join(lines)}",
    )
    if not path.exists() or path.read_text() != had:
        path.write_text(had)
        pytest.fail(f"{path} was not what the kernel has, and now is: git diff")
