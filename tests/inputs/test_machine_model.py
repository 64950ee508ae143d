# SPDX-License-Identifier: GPL-2.0-or-later
"""Machine models: what is wrong is refused by file, line and key; what is right reaches QEMU."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base import toml
from lab.base.errors import UsageError
from lab.inputs import machine_model
from lab.inputs.machine_model import MAX_CPUS, MachineModel

GOOD = """\
title = "two sockets"
cpus = 128
active = 16
insn_ns = 0.4
pause_ns = 40
clock_ns = 8.5

[[level]]
cpus = 64
clean_ns = 30
dirty_ns = 40
upgrade_ns = 35

[[level]]
cpus = 128
clean_ns = 100
dirty_ns = 130.5
upgrade_ns = 120
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine model called own, to be written."""
    monkeypatch.setattr(machine_model, "FOLDER", tmp_path)
    return tmp_path / "own.toml"


def read(model: Path, text: str) -> MachineModel:
    model.write_text(text)
    return machine_model.get("own")


MEMORY = """
[memory]
locked_ns = 6
stay = 0.25
reads_take_ownership = true
readers_keep_lines = true
load_gap_ns = 8.7
store_gap_ns = 14.4
locked_gap_ns = 31
upgrade_gap_ns = 25

[core]
window = 224
cycle_ns = 0.4
width = 4
load_cycles = 5
refill_cycles = 16
"""


def test_what_becomes_of_contended_lines_and_the_core_reach_the_plugin(model: Path) -> None:
    assert read(model, GOOD + MEMORY).options(16)[6:] == (
        *("awaits=1", "locked=6000", "stay=250", "read_stay=250", "ownership=1"),
        *("gaps=8700/14400/31000", "upgrade_gap=25000"),
        *("window=224", "cycle=400", "width=4", "load=5", "refill=16"),
    )


def test_a_line_that_was_read_stays_with_nobody_unless_the_model_says_so(model: Path) -> None:
    text = GOOD + MEMORY.replace("readers_keep_lines = true\n", "")
    assert "read_stay=0" in read(model, text).options(16)


def test_other_costs_are_those_that_have_a_name() -> None:
    names = ("transfers x2", "instructions x0.7")
    assert machine_model.scaled(names) == "2000:1000/1000:700"
    assert machine_model.scaled(()) == ""
    with pytest.raises(UsageError, match="no costs that are called 'transfers x3'"):
        machine_model.scaled(("transfers x3",))


def test_what_entering_the_kernel_costs_reaches_the_plugin(model: Path) -> None:
    machine = read(model, "interrupt_ns = 275\nsyscall_ns = 75.5\n" + GOOD)
    assert machine.options(16)[6:] == ("interrupt=275000", "syscall=75500")


IDLE = """
[[idle]]
residency_us = 2
exit_us = 2

[[idle]]
residency_us = 600
exit_us = 133.5
"""


def test_idle_states_reach_the_plugin_in_nanoseconds(model: Path) -> None:
    assert read(model, GOOD + IDLE).options(16)[6:] == ("idle=2000:2000/600000:133500",)


def test_a_model_becomes_the_plugins_arguments(model: Path) -> None:
    machine = read(model, GOOD)
    assert machine.usual_cpus == 16
    assert machine.options(16) == (
        "quantum=0",
        "insn=400",
        "pause=40000",
        "clock=8500",
        "levels=64:30:40:35/128:100:130.5:120",
        "stride=8",
    )
    assert machine.options(5)[-1] == "stride=25"


def test_a_machine_of_few_cpus_has_all_of_them_active(model: Path) -> None:
    few = GOOD.replace("active = 16\n", "").replace("cpus = 128", "cpus = 8")
    assert read(model, few.replace("cpus = 64", "cpus = 4")).usual_cpus == 8


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("clean_ns = 30", "clean_ns = -1", "level.0.clean_ns"),
        ("insn_ns = 0.4", "insn_ns = 0", "own.toml:4: insn_ns"),
        ("insn_ns = 0.4", "insn_ns = 0.0004", "own.toml:4: insn_ns"),
        ("pause_ns = 40", "pause_cost = 40", "unknown key 'pause_cost'"),
        ("cpus = 64", "cpus = 128", "from the nearest CPUs to all CPUs"),
        ("[[level]]\ncpus = 128", "[[level]]\ncpus = 100", "from the nearest CPUs to all CPUs"),
        ("active = 16", "active = 65", f"no more than {MAX_CPUS} CPUs"),
        ("active = 16\n", "", f"no more than {MAX_CPUS} CPUs"),
        ("window = 224", "window = 0", "own.toml:31: core.window"),
        ("residency_us = 600", "residency_us = 2", "from the shallowest to the deepest"),
        ("exit_us = 133.5", "exit_us = -1", "idle.1.exit_us"),
    ],
)
def test_a_wrong_model_is_refused(model: Path, before: str, after: str, complaint: str) -> None:
    text = GOOD + MEMORY + IDLE
    assert before in text
    with pytest.raises(UsageError) as caught:
        read(model, text.replace(before, after, 1))
    assert complaint in str(caught.value)


@pytest.mark.parametrize(("name", "vcpus", "most"), [("haswell4", 9, 8), ("arm128", 65, 64)])
def test_more_vcpus_than_the_machine_has_are_refused(name: str, vcpus: int, most: int) -> None:
    with pytest.raises(UsageError, match=f"{vcpus} vCPUs") as caught:
        machine_model.get(name).options(vcpus)
    assert str(most) in caught.value.hint


@pytest.mark.parametrize("name", toml.names(machine_model.FOLDER))
def test_a_farther_level_costs_more_and_nothing_is_free_but_in_the_free_model(name: str) -> None:
    levels = [level.costs_ns for level in machine_model.get(name).level]
    for costs in zip(*levels, strict=True):
        assert list(costs) == sorted(costs)
    assert all(map(all, levels)) == (name != "free16")
