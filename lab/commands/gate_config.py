# SPDX-License-Identifier: GPL-2.0-or-later
"""The gate's configuration: which branches, which cells, and how much is a regression."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from lab.base.errors import UsageError
from lab.base.toml import Model, load
from lab.inputs import workload
from lab.inputs.bounds import Bound

# Half of the regression that must not pass, and more than what another layout of equal code makes
# of the block layer (docs/notes/2026-11-verdicts.md).
USUAL_THRESHOLD = "0.25%"
# Of wall-clock time: less would need more rounds than a night has.
USUAL_TIME = "5%"
LAST_GOOD = "last good"
MERGE_BASE = "merge-base:"
FIRST_GOOD = "first good"


class Branch(Model):
    """A branch that the gate judges."""

    source: str = Field(description="git:PATH@BRANCH")
    baseline: str = Field(
        default=LAST_GOOD,
        description="'last good', 'merge-base:REVISION', or a source such as git:PATH@v6.12",
    )
    long_term_baseline: str = Field(
        default=FIRST_GOOD,
        description="a second baseline, which does not move: a source, or 'first good' (the first "
        "good state, or the last accepted one); '': none",
    )


class Gate(Model):
    """The gate's configuration: what is measured and when it is red."""

    profile: str = Field(default="quick", description="a file of configs/profile")
    config: tuple[str, ...] = Field(
        default=(), description="kernel fragments beside the profile's, such as distro"
    )
    topologies: tuple[str, ...] = Field(default=(), description="default: the profile's")
    schedulers: tuple[str, ...] = Field(default=(), description="default: the profile's")
    workloads: tuple[str, ...] = Field(default=(), description="default: the profile's")
    fio: tuple[str, ...] = Field(
        default=(), description="fio command lines, or job files as text; each is a workload"
    )
    threshold: str = Field(
        default=USUAL_THRESHOLD,
        description="increase of the block layer's instructions per I/O above which a cell is red",
    )
    wall_clock: tuple[str, ...] = Field(
        default=(),
        description="cells TOPOLOGY/SCHEDULER/WORKLOAD to time by the host's clock",
    )
    wall_clock_threshold: str = Field(
        default=USUAL_TIME, description="slowdown above which a wall_clock cell is red"
    )
    branches: dict[str, Branch] = Field(min_length=1, description="branches by name")


def fraction(text: str) -> float:
    """A threshold such as '0.25%' as a fraction, not negative.

    Raises UsageError for anything else.
    """
    try:
        limit = Bound.parse(f"<= {text}").of("%", text).interval.high
    except ValueError as exc:
        raise UsageError(f"not a threshold: {text!r}", hint="write for example '0.25%'") from exc
    if limit < 0:
        raise UsageError(f"a threshold is not negative: {text!r}", hint="write for example '0.25%'")
    return limit


def read(path: Path) -> Gate:
    """The gate's configuration. Raises UsageError for what is wrong in it."""
    config = load(path, Gate)
    fio_workloads = tuple(
        workload.give(text, f"{path}: fio.{place}") for place, text in enumerate(config.fio)
    )
    config = config.model_copy(update={"workloads": (*config.workloads, *fio_workloads)})
    for text in (config.threshold, config.wall_clock_threshold):
        fraction(text)
    return config
