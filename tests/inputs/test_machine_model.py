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


def written(model: Path, *changes: tuple[str, str]) -> MachineModel:
    text = GOOD
    for before, after in changes:
        assert before in text
        text = text.replace(before, after, 1)
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
    model.write_text(GOOD + MEMORY)
    assert machine_model.get("own").options(16)[6:] == (
        *("awaits=1", "locked=6000", "stay=250", "read_stay=250", "ownership=1"),
        *("gaps=8700/14400/31000", "upgrade_gap=25000"),
        *("window=224", "cycle=400", "width=4", "load=5", "refill=16"),
    )


def test_a_line_that_was_read_stays_with_nobody_unless_the_model_says_so(model: Path) -> None:
    model.write_text(GOOD + MEMORY.replace("readers_keep_lines = true\n", ""))
    assert "read_stay=0" in machine_model.get("own").options(16)


def test_other_costs_are_those_that_have_a_name() -> None:
    names = ("transfers x2", "instructions x0.7")
    assert machine_model.scaled(names) == "2000:1000/1000:700"
    assert machine_model.scaled(()) == ""
    with pytest.raises(UsageError, match="no costs that are called 'transfers x3'"):
        machine_model.scaled(("transfers x3",))


def test_what_entering_the_kernel_costs_reaches_the_plugin(model: Path) -> None:
    model.write_text("interrupt_ns = 275\nsyscall_ns = 75.5\n" + GOOD)
    assert machine_model.get("own").options(16)[6:] == ("interrupt=275000", "syscall=75500")


def test_a_window_of_nothing_is_refused(model: Path) -> None:
    model.write_text(GOOD + MEMORY.replace("window = 224", "window = 0"))
    with pytest.raises(
        UsageError, match=r"(?s)greater than or equal to 1.*own\.toml:31: core\.window"
    ):
        machine_model.get("own")


def test_a_model_becomes_the_plugins_arguments(model: Path) -> None:
    machine = written(model)
    assert machine.usual_cpus == 16
    assert machine.options(16) == (
        "quantum=10",
        "insn=400",
        "pause=40000",
        "clock=8500",
        "levels=64:30:40:35/128:100:130.5:120",
        "stride=8",
    )
    assert machine.options(5)[-1] == "stride=25"


def test_a_machine_of_few_cpus_has_all_of_them_active(model: Path) -> None:
    few = (("cpus = 128\nactive = 16\n", "cpus = 8\n"), ("= 64", "= 4"), ("cpus = 128", "cpus = 8"))
    machine = written(model, *few)
    assert machine.usual_cpus == 8


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("clean_ns = 30", "clean_ns = -1", "level.0.clean_ns"),
        ("insn_ns = 0.4", "insn_ns = 0", "own.toml:4: insn_ns"),
        ("pause_ns = 40", "pause_cost = 40", "unknown key 'pause_cost'"),
        ("cpus = 64", "cpus = 128", "from the nearest CPUs to all CPUs"),
        ("[[level]]\ncpus = 128", "[[level]]\ncpus = 100", "from the nearest CPUs to all CPUs"),
        ("active = 16", "active = 65", f"no more than {MAX_CPUS} CPUs"),
        ("active = 16\n", "", f"no more than {MAX_CPUS} CPUs"),
    ],
)
def test_a_wrong_model_is_refused(model: Path, before: str, after: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        written(model, (before, after))
    assert complaint in str(caught.value)


@pytest.mark.parametrize(("name", "vcpus", "most"), [("haswell4", 5, 4), ("arm128", 65, 64)])
def test_more_vcpus_than_the_machine_has_are_refused(name: str, vcpus: int, most: int) -> None:
    with pytest.raises(UsageError, match=f"{vcpus} vCPUs") as caught:
        machine_model.get(name).options(vcpus)
    assert str(most) in caught.value.hint


def test_nothing_is_free_but_in_the_free_model() -> None:
    for name in toml.names(machine_model.FOLDER):
        costs = [
            cost
            for level in machine_model.get(name).level
            for cost in (level.clean_ns, level.dirty_ns, level.upgrade_ns)
        ]
        assert all(costs) == (name != "free16"), name


def test_a_farther_level_costs_more() -> None:
    for name in toml.names(machine_model.FOLDER):
        levels = machine_model.get(name).level
        for kind in ("clean_ns", "dirty_ns", "upgrade_ns"):
            costs = [getattr(level, kind) for level in levels]
            assert costs == sorted(costs), name
