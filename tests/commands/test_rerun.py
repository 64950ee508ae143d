# SPDX-License-Identifier: GPL-2.0-or-later
"""A boot once more: found by its name, the same cell on the same kernel, compared to the digit."""

from __future__ import annotations

from dataclasses import replace

import guests as fakes
import pytest
from guests import FakeSession, Guests

from lab.base.errors import GuestError, LabError, UsageError
from lab.build import kernel
from lab.commands import rerun
from lab.inputs import profile
from lab.inputs.terms import Engine
from lab.measure import recorded
from lab.measure.cell import Cell, Task

EXACT = fakes.cell("nullb_mq", "none", engine=Engine.EXACT, cpus=1)


@pytest.fixture
def session(guests: Guests, monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    """A session whose guests give the same numbers, and whose kernels are found again."""
    guests.says = lambda job: {"iops": 7.0, "amean_ms": 1.0, "requests": 2.0}
    monkeypatch.setattr(kernel, "find", lambda identity: fakes.kernel(identity))
    return FakeSession(profile.get("quick"))


def boot(session: FakeSession, cell: Cell = EXACT) -> str:
    """Measure a cell once; the boot's id."""
    outcomes = session.outcomes([Task(cell=cell, kernel=fakes.kernel("k"), arm="after")])
    return outcomes[0].boots[-1].id if outcomes[0].boots else ""


def again(
    session: FakeSession, *, key: str = "", console: bool = False, gdb: bool = False
) -> rerun.Repeated:
    """The last boot once more; key: as if it had been booted of something else."""
    record = recorded.find(session.store, "last")
    return rerun.run(replace(record, key=key or record.key), session, console=console, gdb=gdb)


@pytest.mark.parametrize(
    "cell",
    [
        EXACT,
        fakes.cell("raid64", "bfq", "dbench_xfs"),
        replace(EXACT, kernel_parameters=("a=b",), counters=("requests",), variants=("a", "b")),
    ],
)
def test_a_cell_comes_out_of_the_record_as_it_went_in(session: FakeSession, cell: Cell) -> None:
    identity = boot(session, cell)
    record = recorded.find(session.store, identity[:-2])
    assert (record.id, record.cell, record.arm, record.kernel) == (identity, cell, "after", "k")
    assert record.values["iops"] == 7.0


def test_a_boot_that_is_none_or_may_be_several_is_told(session: FakeSession) -> None:
    with pytest.raises(UsageError, match="no boot is called 'last'"):
        recorded.find(session.store, "last")
    first, second = boot(session), boot(session, replace(EXACT, seed=2))
    with pytest.raises(UsageError, match="2 boots begin with '20'"):
        recorded.find(session.store, "20")
    with pytest.raises(UsageError, match="no boot is called '%'"):
        recorded.find(session.store, "%")
    assert recorded.find(session.store, "last").id in (first, second)


def test_equal_numbers_are_called_equal_and_nothing_is_written_down(
    session: FakeSession, guests: Guests
) -> None:
    identity = boot(session)
    before = len(guests.booted)
    repeated = again(session)
    assert repeated.equal
    assert rerun.text(repeated).startswith("equal: all ")
    assert len(guests.booted) == before + 1
    assert guests.booted[-1].cell == EXACT
    assert recorded.find(session.store, "last").id == identity


def test_each_number_that_differs_is_named(session: FakeSession, guests: Guests) -> None:
    boot(session)
    guests.says = lambda job: {"iops": 7.5, "new": 1.0}
    repeated = again(session)
    assert not repeated.equal
    text = rerun.text(repeated)
    assert "  iops: 7.0 then, 7.5 now\n" in text
    assert "  new: nothing then, 1.0 now\n" in text
    assert text.splitlines()[-1].startswith("4 of ")


def test_a_guest_that_fails_as_it_did_is_told_with_how_it_did(
    session: FakeSession, guests: Guests
) -> None:
    guests.says = lambda job: GuestError("panic", "the guest's kernel died: BUG at x")
    boot(session)
    repeated = again(session)
    assert repeated.equal
    assert "the guest failed: panic: the guest's kernel died: BUG at x" in rerun.text(repeated)
    assert "then it ended: panic" in rerun.text(repeated)
    guests.says = lambda job: {"iops": 7.0}
    assert not again(session).equal


def test_what_else_is_executed_than_then_is_told(session: FakeSession) -> None:
    boot(session)
    repeated = again(session, key="another")
    assert rerun.text(repeated).startswith("not quite the same is booted")
    assert not again(session).changed


def test_without_its_kernel_it_is_told_how_to_get_it(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot(session)
    monkeypatch.setattr(kernel, "find", lambda identity: None)
    with pytest.raises(LabError, match="no longer in the cache") as caught:
        again(session)
    assert "builds it again" in caught.value.hint


def test_a_debugger_is_waited_for_and_its_numbers_are_not_compared(
    session: FakeSession, guests: Guests
) -> None:
    boot(session)
    guests.says = lambda job: {"iops": 9.0}
    repeated = again(session, gdb=True)
    assert "target remote" in session.said
    job = guests.booted[-1]
    assert job.machine.gdb
    assert min(job.orders.deadlines_s.values()) > 3600
    assert "not compared" in rerun.text(repeated)


def test_the_console_is_shown_once_and_does_nothing(
    session: FakeSession, guests: Guests, capsys: pytest.CaptureFixture[str]
) -> None:
    boot(session)
    guests.consoles[len(guests.booted)] = "up\r\n\x1b[2Jhalf a line"
    again(session, console=True)
    assert capsys.readouterr().out == "up\n\\x1b[2Jhalf a line"
