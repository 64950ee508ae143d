# SPDX-License-Identifier: GPL-2.0-or-later
"""README's samples are what the program prints: made from records by the real functions."""

from __future__ import annotations

import textwrap
from typing import Any

import examples
import pytest

from lab.base.system import PROJECT
from lab.inputs import series
from lab.inputs.terms import Engine, Level, Verdict
from lab.measure import metrics
from lab.measure.cost import Cost
from lab.report import tables, terminal
from lab.report.run_record import FindingRecord, RunRecord, SeriesRecord

README = (PROJECT / "README.md").read_text()


SERIES = series.get("sq_batch_dispatch")
CLAIM = SERIES.claims["deadline_throughput"]


def finding(place: int, values: tuple[tuple[float], ...] = (), **fields: Any) -> FindingRecord:
    """One of the claim's expectations with what was measured."""
    expectation = CLAIM.expect[place]
    for key in ("machine", "published", "bound", "because"):
        fields[key] = getattr(expectation, key)
    return examples.finding(values, **fields)


def judged() -> SeriesRecord:
    """A claim of sq_batch_dispatch and its expectations, as any host judges them."""
    simulated: dict[str, Any] = {"level": Level.SIMULATED, "engine": Engine.SIM, "p": None}
    simulated["unit"] = metrics.unit("iops", Engine.SIM)
    factors = ("transfers x0.5", "transfers x2", "instructions x0.7", "instructions x1.4")
    many = finding(
        0,
        ((325_626.0,), (575_542.0,)),
        **simulated,
        interval=(0.65, 1.00),
        sensitivity=dict(zip(factors, (0.770, 0.802, 0.861, 0.812), strict=True)),
    )
    some = finding(
        1,
        ((430_972.0,), (826_764.0,)),
        **simulated,
        interval=(0.70, 1.10),
        sensitivity=dict(zip(factors, (0.841, 0.899, 0.906, 0.886), strict=True)),
    )
    timed = finding(2, verdict=Verdict.SKIPPED)
    keys = ("statement", "source", "topology", "scheduler", "workload", "is_check")
    claim = examples.claim(many, some, timed, name="deadline_throughput").model_copy(
        update={key: getattr(CLAIM, key) for key in keys}
    )
    return examples.series(claim).model_copy(
        update={"name": "sq_batch_dispatch", "title": SERIES.title, "origin": SERIES.origin}
    )


def run() -> RunRecord:
    """The run of that claim alone."""
    return examples.run(judged())


def costs() -> tuple[Cost, Cost]:
    """An I/O without a scheduler and with mq-deadline: four functions, and all the others."""
    both = {f"same_{number}": 1936.465 / 198 for number in range(198)}
    none = {f"other_{number}": 1491.063 / 711 for number in range(711)}
    some = {f"other_{number}": 2282.983 / 711 for number in range(711)}
    deadline = {
        "dd_has_work": 195.981,
        "__blk_mq_sched_dispatch_requests": 164.010,
        "dd_insert_requests": 135.000,
        "__dd_dispatch_request": 132.436,
    }
    return Cost(2216.097, both | none), Cost(2211.354, both | some | deadline)


@pytest.mark.parametrize(
    "printed",
    [
        terminal.screen(run()),
        tables.text(tables.of_costs(("none", "mq-deadline"), costs(), rows=4)),
    ],
    ids=["lab run", "lab diff"],
)
def test_a_sample_is_what_is_printed(printed: str) -> None:
    sample = textwrap.indent(printed.strip("\n"), "    ")
    assert sample in README, f"README.md must show:\n\n{sample}\n"


def test_the_details_are_a_part_of_what_lab_show_prints() -> None:
    shown = README.partition("lab show\n    [...]\n")[2].partition("    [...]\n")[0]
    assert "HOLDS" in shown
    assert textwrap.indent(textwrap.dedent(shown), "    ") in terminal.text(run())
