# SPDX-License-Identifier: GPL-2.0-or-later
"""README's samples are what the program prints: made from records by the real functions."""

from __future__ import annotations

import textwrap
from typing import Any

import examples
import pytest

from lab.base.system import PROJECT
from lab.inputs import series
from lab.inputs.bounds import Bound
from lab.inputs.claims import Published
from lab.inputs.terms import Engine, Level, Verdict
from lab.measure import metrics
from lab.measure.cost import Cost
from lab.report import run_record, tables, terminal

README = (PROJECT / "README.md").read_text()


def recorded(claim: str, place: int) -> Published:
    """A published figure of sq_batch_dispatch as a record has it."""
    figure = series.get("sq_batch_dispatch").claims[claim].expect[place].published
    assert figure is not None
    return figure


def judged() -> run_record.SeriesRecord:
    """A claim of sq_batch_dispatch and two of its expectations, as any host judges them."""
    patch_series = series.get("sq_batch_dispatch")
    exact: dict[str, Any] = {"level": Level.MECHANISM, "engine": Engine.EXACT, "published": None}
    exact |= {"interval": None, "p": None}
    simulated = {**exact, "level": Level.SIMULATED, "engine": Engine.SIM}
    simulated["unit"] = metrics.unit("iops", Engine.SIM)
    many = examples.finding(
        ((319_742.0,), (584_854.0,)),
        **{
            **simulated,
            "machine": "arm128",
            "published": recorded("deadline_throughput", 0),
            "interval": (0.65, 1.00),
        },
        bound=Bound.parse(">= +52%"),
        because="half of the published gain",
        sensitivity={
            "transfers x0.5": 0.832,
            "transfers x2": 0.762,
            "instructions x0.7": 0.792,
            "instructions x1.4": 0.806,
        },
    )
    some = examples.finding(
        ((430_540.0,), (814_094.0,)),
        **{
            **simulated,
            "machine": "xeon16",
            "published": recorded("deadline_throughput", 1),
            "interval": (0.70, 1.10),
        },
        bound=Bound.parse(">= +25%"),
        because="half of what the reviewer saw without lockdep and KASAN",
        sensitivity={
            "transfers x0.5": 0.881,
            "transfers x2": 0.935,
            "instructions x0.7": 0.940,
            "instructions x1.4": 0.867,
        },
    )
    timed = examples.finding(
        (),
        level=Level.WALL,
        engine=Engine.TCG,
        published=recorded("deadline_throughput", 2),
        bound=Bound.parse(">= +25%"),
        because="half of what the reviewer saw with 16 CPUs",
        verdict=Verdict.SKIPPED,
    )
    findings_by_claim = {"deadline_throughput": (many, some, timed)}
    claims = [
        examples.claim(*findings, name=name, verdict=findings[0].verdict).model_copy(
            update={
                key: getattr(patch_series.all_claims[name], key)
                for key in ("statement", "source", "topology", "scheduler", "workload", "is_check")
            }
        )
        for name, findings in findings_by_claim.items()
    ]
    return examples.series(*claims, verdict=Verdict.HOLDS).model_copy(
        update={
            "name": "sq_batch_dispatch",
            "title": patch_series.title,
            "origin": patch_series.origin,
        }
    )


def run() -> run_record.RunRecord:
    """The run of that claim alone."""
    return examples.run().model_copy(update={"series": (judged(),), "tables": ()})


def costs() -> tuple[Cost, Cost]:
    """An I/O without a scheduler and with mq-deadline: four functions, and all the others."""
    both = {f"same_{number}": 1938.792 / 199 for number in range(199)}
    none = {f"other_{number}": 1488.450 / 710 for number in range(710)}
    some = {f"other_{number}": 2280.066 / 710 for number in range(710)}
    deadline = {
        "dd_has_work": 195.966,
        "__blk_mq_sched_dispatch_requests": 164.014,
        "dd_insert_requests": 135.003,
        "__dd_dispatch_request": 132.432,
    }
    return Cost(2216.110, both | none), Cost(2211.270, both | some | deadline)


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


def test_the_sample_expects_what_the_series_does() -> None:
    patch_series = series.get("sq_batch_dispatch")
    for claim in judged().claims:
        expected = {
            (e.metric, e.bound, e.because, e.published and e.published.text)
            for e in patch_series.all_claims[claim.name].expect
        }
        for finding in claim.findings:
            published = finding.published and finding.published.text
            assert (finding.metric, finding.bound, finding.because, published) in expected
