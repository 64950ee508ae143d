# SPDX-License-Identifier: GPL-2.0-or-later
"""In which options two kernels differ: all that are set otherwise."""

from __future__ import annotations

from dataclasses import replace

import examples

from lab.build.config_diff import changed_options
from lab.build.kernel import Kernel


def configured(name: str, config: str) -> Kernel:
    """A kernel in the cache with this .config."""
    kernel = replace(examples.KERNEL, id=name)
    kernel.folder.mkdir(parents=True)
    (kernel.folder / "config").write_text(config)
    return kernel


def test_every_option_that_is_set_otherwise_is_told() -> None:
    before = configured("a", "CONFIG_A=y\nCONFIG_B=100\n# CONFIG_C is not set\nCONFIG_D=y\n")
    after = configured(
        "b", 'CONFIG_A=y\nCONFIG_B=250\nCONFIG_C=y\nCONFIG_NEW="x y"\n# CONFIG_OFF is not set\n'
    )
    assert changed_options(before, after) == (
        "CONFIG_B: 100 -> 250",
        "CONFIG_C: n -> y",
        "CONFIG_D: y -> n",
        'CONFIG_NEW: n -> "x y"',
    )
    assert changed_options(before, before) == ()
    assert changed_options(before, replace(after, id="gone")) == ()


def test_a_rust_compiler_that_only_one_build_saw_is_no_difference() -> None:
    before = configured("a", "CONFIG_A=y\nCONFIG_RUSTC_VERSION=109500\nCONFIG_RUSTC_HAS_X=y\n")
    after = configured("b", "CONFIG_A=y\nCONFIG_RUSTC_VERSION=0\n")
    assert changed_options(before, after) == ()
