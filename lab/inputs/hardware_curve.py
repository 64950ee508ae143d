# SPDX-License-Identifier: GPL-2.0-or-later
"""What was measured of the block layer on real machines: one TOML file a machine.

They lie in configs/validation and have the name of the machine's model. Only `lab validate` reads
them: no number of a model comes from there.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from lab.base.system import data
from lab.base.toml import Model, load, named, names
from lab.inputs.terms import Engine
from lab.inputs.workload import Value

FOLDER = data("configs") / "validation"


class HardwareCurve(Model):
    """A workload on a machine: a value of each scheduler for each value of one parameter."""

    title: str = Field(description="the hardware and the job, in one line")
    source: str = Field(description="where the values were published")
    tree: str = Field(default="", description="kernel source; default: the profile's")
    config: tuple[str, ...] = Field(
        default=(), description="kernel fragments beside the profile's, as on that machine"
    )
    topology: str = Field(description="a file of configs/guest, or a device line")
    workload: str = Field(description="a file of workloads")
    parameters: dict[str, Value] = Field(default={}, description="parameters of the workload")
    by: str = Field(description="the parameter that is varied")
    engine: Literal["sim", "exact"] = Field(description="what is compared with the hardware")
    metric: str = Field(description="metric of the workload, or kernel_insns_per_io")
    cpus: int = Field(ge=1, description="vCPUs")
    values: dict[str, dict[str, float]] = Field(
        description="by scheduler, then by value of the parameter"
    )
    functions: dict[str, dict[str, dict[str, float]]] = Field(
        default={},
        description="ns of an I/O in kernel functions, by scheduler, function, and parameter",
    )

    @model_validator(mode="after")
    def _has_numbers(self) -> Self:
        for scheduler, values in self.values.items():
            for label, value in values.items():
                if not label.isdigit() or value <= 0:
                    raise ValueError(f"{scheduler}: {label} = {value} is no positive measurement")
        return self

    @property
    def compared_engine(self) -> Engine:
        """The engine that is compared with the hardware."""
        return Engine(self.engine)


class MeasuredMachine(Model):
    """What was measured on one machine."""

    curve: tuple[HardwareCurve, ...] = Field(min_length=1, description="the curves")


def known() -> list[str]:
    """The machine models of machines on which curves were measured."""
    return names(FOLDER)


def get(machine: str) -> tuple[HardwareCurve, ...]:
    """The curves of a machine; UsageError names the nearest one, or what its file has wrong."""
    return load(named(FOLDER, machine, ".toml", "measured machine"), MeasuredMachine).curve
