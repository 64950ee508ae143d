# SPDX-License-Identifier: GPL-2.0-or-later
"""Profiles: how much of a matrix is run and for how long, one TOML file each in configs/profile."""

from __future__ import annotations

from pydantic import Field

from lab.base.system import data, kernel_source
from lab.base.toml import Model, load, named
from lab.inputs.seeds import SeedCount
from lab.inputs.workload import Value

FOLDER = data("configs") / "profile"


class Block(Model):
    """One block of a matrix: every combination of its topologies, schedulers and workloads."""

    topologies: tuple[str, ...] = Field(description="files of configs/guest")
    schedulers: tuple[str, ...] = Field(description="I/O schedulers")
    workloads: tuple[str, ...] = Field(description="files of workloads")


class Profile(Model):
    """How thorough a run is."""

    title: str = Field(description="the profile, in one line")
    skips: str = Field(default="", description="what this profile does not measure")
    kernel: tuple[str, ...] = Field(description="fragments of configs/kernel")
    tree: str = Field(default="debian:6.12", description="kernel source of the matrix")
    boots: int = Field(default=1, ge=1, description="boots of each cell")
    rounds: int = Field(default=16, ge=1, description="most rounds of a wall-clock comparison")
    seeds: SeedCount = Field(
        default=1, description="most seeds of a deterministic cell: 1, 3, 6, 12 or 24"
    )
    without: tuple[str, ...] = Field(
        default=(), description="fragments with which it builds no kernel"
    )
    series: tuple[str, ...] = Field(
        default=(), description="the series that lab run judges where none is named; default: all"
    )
    checks: bool = Field(default=True, description="boot for checks alone, too")
    alpha: float = Field(default=0.05, gt=0, lt=0.5, description="rate of wrong verdicts")
    matrix: tuple[Block, ...] = Field(description="blocks of cells for lab matrix")
    parameters: dict[str, dict[str, Value | tuple[Value, ...]]] = Field(
        default={}, description="by workload: parameters that override the workload's"
    )


def get(name: str) -> Profile:
    """The profile called name, on the kernel source that this system can have.

    Raises UsageError that names the nearest one.
    """
    profile = load(named(FOLDER, name, ".toml", "profile"), Profile)
    return profile.model_copy(update={"tree": kernel_source(profile.tree)})
