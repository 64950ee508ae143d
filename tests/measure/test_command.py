# SPDX-License-Identifier: GPL-2.0-or-later
"""Cells of a user's command: the agent's orders, and the numbers."""

from __future__ import annotations

from pathlib import Path

import guests as fakes
import pytest
from guests import cell

from lab.guest.orders import Orders
from lab.guest.qemu_command import Machine
from lab.inputs import workload
from lab.inputs.terms import Engine
from lab.measure import command, fio_cell
from lab.measure.cell_orders import orders_of
from lab.measure.cost import Cost
from lab.measure.job import hardware


def ordered(text: str, setup: str = "") -> Orders:
    name, _ = workload.give_command(text, setup)
    return orders_for("nullb", name)


def orders_for(topology: str, name: str) -> Orders:
    of = cell(topology, work=name, engine=Engine.EXACT)
    machine = Machine(
        fakes.kernel("kernel-id", "code"), fakes.ROOT, hardware(of), Engine.EXACT, Path("/folder")
    )
    return orders_of(of, machine, workload.get(name))


def test_a_command_runs_once() -> None:
    orders = ordered("sync")
    assert orders.steps[-2:] == ("phase workload", "command once")
    assert orders.files["command"] == "sync\n"
    assert orders.outputs >= {"once.log"}


def test_a_command_with_an_amount_runs_with_two_after_a_warm_up() -> None:
    orders = ordered("seq $N")
    assert orders.steps[-3:] == ("command few", "command few", "command many")
    assert (orders.files["few.amount"], orders.files["many.amount"]) == ("100", "1100")


def test_what_is_set_up_is_not_measured() -> None:
    orders = ordered("sync", "mkfs.xfs $DISK")
    assert orders.steps.index("prepared") < orders.steps.index("phase workload")
    assert orders.files["setup"] == "mkfs.xfs $DISK\n"


def test_a_request_has_a_cost_where_there_are_any() -> None:
    spent = Cost(50.0, {"a": 600.0, "b": 400.0})
    numbers = command.values(spent, requests=4, guest_ns=2e6)
    assert numbers == {
        "kernel_insns": 1000.0,
        "user_insns": 50.0,
        "guest_ms": 2.0,
        "requests": 4,
        "kernel_insns_per_request": 250.0,
    }
    assert command.PER_REQUEST not in command.values(spent, requests=0, guest_ns=2e6)


@pytest.mark.parametrize(
    ("disk", "options", "queues"),
    [
        ("nullb", "-p1", 1),
        ("nullb", "-p0", 0),
        ("null_blk poll_queues=3", "-p1", 3),
        ("null_blk queue_mode=2", "-p1", 1),
    ],
)
def test_what_polls_gets_a_queue_to_poll(disk: str, options: str, queues: int) -> None:
    name, _ = workload.give_command(f"t/io_uring {options}")
    assert hardware(cell(disk, work=name, engine=Engine.EXACT)).poll_queues == queues
    assert fio_cell.changes(cell(disk, work=name), workload.get(name), {}) == ""
