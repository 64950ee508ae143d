# SPDX-License-Identifier: GPL-2.0-or-later
"""Throughput by the number of CPUs: what is simulated, and how it is shown."""

from __future__ import annotations

from pathlib import Path

import guests as fakes
import pytest
from command_line import invoke
from guests import FakeSession, Guests

from lab.base.errors import GuestError, UsageError
from lab.commands import result_tables, scaling
from lab.commands.scaling import Curve
from lab.inputs import profile
from lab.inputs.terms import Engine
from lab.report import html, tables
from lab.report.run_builder import RunBuilder

WHERE = ("nullb_mq", "randwrite_uring", ["none", "bfq"], "xeon16", [1, 4])


@pytest.fixture
def session(guests: Guests) -> FakeSession:
    """A session whose new kernel does twice as many IOPS, as many times more as there are CPUs."""
    guests.says = lambda job: {
        "iops": job.cell.cpus * (2000.0 if job.task.kernel.id == "new" else 1000.0)
    }
    return FakeSession(profile.get("quick"), engines=(Engine.SIM,))


def measured(session: FakeSession) -> list[Curve]:
    kernels = {"before": fakes.kernel("old"), "after": fakes.kernel("new")}
    return scaling.measure(session, kernels, *WHERE)


def test_each_guest_has_a_job_a_cpu(session: FakeSession, guests: Guests) -> None:
    curves = measured(session)
    assert [curve.name for curve in curves] == [
        "none (before)",
        "none (after)",
        "bfq (before)",
        "bfq (after)",
    ]
    assert [each.value("iops") for each in curves[1].outcomes] == [2000, 8000]
    cells = [job.cell for job in guests.booted]
    assert {(cell.cpus, cell.number("numjobs"), cell.machine) for cell in cells} == {
        (1, 1, "xeon16"),
        (4, 4, "xeon16"),
    }


def test_curves_are_a_table_and_drawn(session: FakeSession) -> None:
    table = result_tables.of_scaling("a title", (1, 4), measured(session))
    assert "bfq (after) 2.00 8.00" in " ".join(tables.text(table).split())
    run = RunBuilder(session, "a title", "lab scaling").run(tables=(table,))
    page = html.html(run, Path("/results"), Path("/results/runs/x/report.html"), lambda b, m: ())
    assert page.count('class="line') == 4
    # The kernel before is drawn in its scheduler's colour, dashed.
    assert page.count('class="line a1 dash"') == 1


def test_a_guest_that_failed_leaves_a_gap(session: FakeSession, guests: Guests) -> None:
    guests.answers = {0: GuestError("panic", "BUG: x")}
    curves = scaling.measure(session, {"stock": fakes.kernel("old")}, *WHERE)
    table = result_tables.of_scaling("a title", (1, 4), curves)
    assert table.curves
    assert sum(value is None for curve in table.curves.values.values() for value in curve) == 1
    assert "BUG: x" in table.notes[0]
    assert table.curves.dashed == ()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--cpus", "1,x"], "not numbers of CPUs"),
        (["--cpus", "0"], "not numbers of CPUs"),
        (["--machine", "xeon16", "--cpus", "32"], "32 vCPUs has no place"),
        (["--machine", "xeon1"], "no machine model is called"),
        (["--workload", "dbench_xfs"], "no parameter numjobs"),
        (["sq_batch"], "no series is called"),
    ],
)
def test_what_cannot_be_is_refused(words: list[str], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        invoke("scaling", *words)
