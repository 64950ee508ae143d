# SPDX-License-Identifier: GPL-2.0-or-later
"""Patch series and what they claim: one folder each in kernel-patches, its series.toml strict."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, PrivateAttr, StringConstraints, field_validator, model_validator

from lab.base.errors import UsageError, nearest
from lab.base.system import data, kernel_source
from lab.base.toml import Model, load
from lab.inputs import kconfig
from lab.inputs.claims import Check, Claim, PublishedClaim, wrong
from lab.inputs.names import Name, TopologyName, Word

FOLDER = data("kernel-patches")
PatchLevel = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
BASE, SERIES = "base", "series"
USUAL_TREE = "debian:6.12"


class Arm(Model):
    """One side of a comparison: how much of the series is applied, on which hardware."""

    patches: PatchLevel = Field(
        description="base: only base/ is applied; series, or any other folder: base/, then that"
    )
    topology: TopologyName = Field(default="", description="another topology than the claim's")
    scheduler: Name = Field(default="", description="another I/O scheduler than the claim's")
    hw_queues: int = Field(default=0, ge=0, le=128, description="another number of hardware queues")
    kernel_parameters: tuple[Word, ...] = Field(
        default=(), description="kernel parameters of this arm alone"
    )


_ARMS = {"before": Arm(patches=BASE), "after": Arm(patches=SERIES)}


class Series(Model):
    """A patch series under judgement."""

    title: str = Field(description="what the series does, in one line")
    origin: str = Field(description="who posted it where, or the commit")
    tree: str = Field(default=USUAL_TREE, description="the kernel source it applies to")
    kernel: tuple[Name, ...] = Field(
        default=("base", "block", "filesystems", "buffer_heads", "armdisk", "distro"),
        description="fragments of configs/kernel",
    )
    arms: dict[Name, Arm] = Field(default={}, description="more arms than before and after")
    schedulers: tuple[Name, ...] = Field(default=(), description="I/O schedulers that it adds")
    claims: dict[Name, PublishedClaim] = Field(default={}, description="what was published")
    checks: dict[Name, Check] = Field(default={}, description="what the lab itself expects")
    _folder: Path = PrivateAttr()

    @field_validator("arms")
    @classmethod
    def _keeps_its_own(cls, arms: dict[str, Arm]) -> dict[str, Arm]:
        if reserved := sorted(arms.keys() & _ARMS.keys()):
            raise ValueError(
                f"the arm {reserved[0]} is what it is: without the patches, or with them"
            )
        return arms

    @model_validator(mode="after")
    def _claims_something(self) -> Self:
        if not self.all_claims:
            raise ValueError("a series has a claim or a check")
        if both := sorted(self.claims.keys() & self.checks.keys()):
            raise wrong("a claim has the same name", "checks", both[0])
        for title, claim in self.claims.items():
            if claim.problem and claim.problem not in self.claims:
                hint = nearest(claim.problem, self.claims)
                raise wrong(
                    f"no claim is called {claim.problem!r}; {hint}", "claims", title, "problem"
                )
        return self

    @field_validator("claims", "checks", mode="before")
    @classmethod
    def _expect_the_same(cls, written: Any) -> Any:
        """Give a claim that names another one as what it expects that one's expectations."""
        if not isinstance(written, dict):
            return written
        claims: dict[str, Any] = {}
        for title, claim in written.items():
            same = claim.get("expect") if isinstance(claim, dict) else None
            if not isinstance(same, str):
                claims[title] = claim
            elif same in claims:
                # A claim above that is wrong itself is told first.
                right = isinstance(claims[same], dict)
                claims[title] = {**claim, "expect": claims[same].get("expect", ()) if right else ()}
            else:
                hint = nearest(same, claims)
                raise wrong(f"nothing above is called {same!r}; {hint}", title, "expect")
        return claims

    @property
    def all_claims(self) -> Mapping[str, Claim]:
        """The published claims and then the lab's checks, by name."""
        return {**self.claims, **self.checks}

    @property
    def folder(self) -> Path:
        """Where its series.toml and its patches lie."""
        return self._folder

    @property
    def file(self) -> Path:
        """Its series.toml."""
        return self.folder / "series.toml"

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.name

    def patches(self, level: PatchLevel) -> tuple[Path, ...]:
        """The patch files of a level in order: base alone, or base and then another folder."""
        folders = (self.folder / part for part in dict.fromkeys((BASE, level)))
        return tuple(path for folder in folders for path in sorted(folder.glob("*.patch")))

    @property
    def levels(self) -> tuple[PatchLevel, ...]:
        """What is applied in some arm: base, series, and the folders of rivals."""
        return tuple(dict.fromkeys(arm.patches for arm in self.all_arms.values()))

    def configured(self, fragments: Sequence[str]) -> Series:
        """The series on kernels that have these fragments, too; with small, without distro."""
        return self.model_copy(update={"kernel": kconfig.added(self.kernel, fragments)})

    @property
    def all_arms(self) -> Mapping[str, Arm]:
        """The arms by name, before and after among them."""
        return {**_ARMS, **self.arms}


def get(name: str) -> Series:
    """The series called name, or the one in the folder name when that is a path; on the kernel
    source that this system can have.

    Raises UsageError for an unknown name or a wrong key.
    """
    path = file(name)
    written = load(path, Series)
    series = written.model_copy(update={"tree": kernel_source(written.tree)})
    series._folder = Path(os.path.normpath(path.parent.absolute()))
    return series


def reverse(judged: Series) -> Series:
    """The series with its patches where they were not and gone where they were: a control.

    A claim that holds of the series must be refuted of this one. An arm on other hardware is a
    reference arm: it shows what that hardware gives, not what the patches do, and keeps its own;
    so does one of other patches.
    """
    turned: dict[PatchLevel, PatchLevel] = {BASE: SERIES, SERIES: BASE}

    def level(arm: Arm) -> PatchLevel:
        is_reference = arm.topology or arm.scheduler or arm.hw_queues
        return arm.patches if is_reference else turned.get(arm.patches, arm.patches)

    return _with_patches(judged, level)


def without_known_misses(judged: Series) -> Series:
    """The series as if nothing were recorded of it: for a control, or another kernel source."""

    def cleared(claim: Claim) -> Claim:
        expect = (each.model_copy(update={"known_miss": None}) for each in claim.expect)
        return claim.model_copy(update={"expect": tuple(expect)})

    claims = {name: cleared(claim) for name, claim in judged.claims.items()}
    checks = {name: cleared(check) for name, check in judged.checks.items()}
    return judged.model_copy(update={"claims": claims, "checks": checks})


def no_op(judged: Series) -> Series:
    """The series without its patches, base/ in all arms: a control, nothing of it may hold."""
    return _with_patches(judged, lambda arm: BASE)


def _with_patches(judged: Series, level: Callable[[Arm], PatchLevel]) -> Series:
    arms = {
        name: arm.model_copy(update={"patches": level(arm)})
        for name, arm in judged.all_arms.items()
    }
    return judged.model_copy(update={"arms": arms})


def file(name: str) -> Path:
    """Where the series.toml of a series lies: a name of kernel-patches, or the path of a folder.

    Raises UsageError naming the nearest series.
    """
    path = (Path(name) if os.sep in name else FOLDER / name) / "series.toml"
    if not path.is_file():
        raise UsageError(
            f"no series is called {name!r}", where=str(FOLDER), hint=nearest(name, known())
        )
    return path


def known() -> list[str]:
    """The names of all series, sorted."""
    return sorted(path.parent.name for path in FOLDER.glob("*/series.toml"))
