# SPDX-License-Identifier: GPL-2.0-or-later
"""Experiments, series and records of runs to try verdicts, reports and formats on."""

from __future__ import annotations

import datetime
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import guests

from lab.base.progress import Progress
from lab.build.guest_root import GuestRoot
from lab.build.kernel import Kernel
from lab.inputs import profile, workload
from lab.inputs import series as model
from lab.inputs.bounds import Bound
from lab.inputs.claims import Expectation, KnownMiss, Published, PublishedClaim
from lab.inputs.terms import Engine, Level, Miss, Verdict
from lab.judge.experiment import Experiment, Side
from lab.measure import metrics
from lab.measure.boot_store import BootStore
from lab.measure.cell import Cell
from lab.measure.cost import Cost
from lab.measure.host import EngineReport, Facts, Report
from lab.measure.job import Testbed
from lab.measure.session import Session
from lab.report import run_record, tables

HOST = Report(
    Facts(
        *(2, "A CPU", 24.0, 65.0, "Debian 12", "6.1", "gcc 12"),
        qemu="QEMU emulator version 10.0.2",
        plugins=True,
        emulator="q",
    ),
    (EngineReport(Engine.KVM, False, "refused"),),
)

KERNEL = Kernel("kernel", "6.12.117", "tree", ("base",), "gcc; ld")


def session(store: BootStore | None = None, profile_name: str = "quick") -> Session:
    """A session whose engines are checked, on the host HOST."""
    testbed = Testbed(KERNEL, GuestRoot("guest"), HOST)
    progress = Progress(out=io.StringIO())
    return Session(profile.get(profile_name), store or BootStore(), progress, 1000.0, testbed)


def experiment(
    expectation: Expectation,
    *,
    series: str = "own",
    claim: str = "claim",
    level: Level = Level.WALL,
    cell: Cell | None = None,
    **fields: Any,
) -> Experiment:
    """An experiment of before and after, or of after alone where a value is expected."""
    engines = {Level.WALL: Engine.TCG, Level.SIMULATED: Engine.SIM}
    engine = engines.get(level, Engine.EXACT)
    cell = replace(cell or guests.cell(), engine=engine, machine=expectation.machine)
    arms = ("before", "after") if expectation.bound.is_change else ("after",)
    fields.setdefault("together", (series, cell))
    return Experiment(
        series=series,
        claim=claim,
        expectation=expectation,
        level=level,
        sides=tuple(Side(arm, cell, arm == "after") for arm in arms),
        **fields,
    )


def judged_series(claims: Mapping[str, PublishedClaim], name: str = "own") -> model.Series:
    """A series of that name with these claims."""
    patch_series = model.Series(title="t", origin="o", claims=dict(claims))
    patch_series._folder = Path("/series", name)
    return patch_series


def claimed(*expect: Expectation, words: str = "p") -> PublishedClaim:
    """A published claim with these expectations."""
    return PublishedClaim(
        published=words,
        topology="nullb",
        scheduler="bfq",
        workload="randread_burst",
        expect=expect,
    )


def claim_text(
    *expectations: str,
    name: str = "one",
    topology: str = "nullb",
    work: str = "randread_burst",
    more: str = "",
) -> str:
    """A claim with expectations, as it stands in a series.toml."""
    head = (
        f'[claims.{name}]\npublished = "p"\ntopology = "{topology}"\nscheduler = "bfq"\n'
        f'workload = "{work}"\n{more}\n'
    )
    tables = [f'[[claims.{name}.expect]]\nbecause = "b"\n{text}\n' for text in expectations]
    return head + "".join(tables)


def figure(change: str = "", before: float | None = None, after: float | None = None) -> Published:
    """A published change, or published levels, as a record has them."""
    return Published.model_validate({"change": change or None, "before": before, "after": after})


def missed(miss: Miss) -> dict[str, Any]:
    """The fields of a finding that is recorded as a known miss, and what became of that."""
    known = KnownMiss(
        measured=Bound(-0.01, 0.01, "%"), date=datetime.date(2026, 11, 25), reason="too few CPUs"
    )
    return {"known_miss": known, "miss": miss}


BEFORE = (20_000.0, 22_000.0, 19_000.0, 21_000.0, 20_500.0, 21_500.0)
AFTER = (28_000.0, 30_000.0, 27_500.0, 29_000.0, 28_500.0, 30_500.0)


def cell(
    arm: str = "before", values: Sequence[float] = (100.0,), **changes: object
) -> run_record.CellRecord:
    """A cell whose boots have these values of its metric, in rounds t0, t1, ..."""
    fields: dict[str, object] = {
        "arm": arm,
        "topology": "nullb",
        "scheduler": "bfq",
        "workload": "randread_burst",
        "parameters": {"numjobs": 10},
        "swept": (),
        "engine": "tcg",
        "cpus": 2,
        "hw_queues": 1,
        "kernel_parameters": (),
        "counters": (),
        "metric": "iops",
        "unit": "host-clock IOPS",
        "facts": {"release": "6.12.1", "hw_queues": "1", "queue/scheduler": "[bfq] none"},
        **changes,
    }
    fields.setdefault("better", metrics.get(str(fields["metric"])).better)
    boots = tuple(
        run_record.BootRecord(
            id=f"boot-{arm}-{changes.get('topology', 'nullb')}-{number}",
            started=1_700_000_000.0 + number,
            seconds=10.0,
            round=f"t{number}",
            kernel=f"kernel-{arm}",
            values={str(fields["metric"]): value, "lat_p50_ms": 0.1, "lat_p99_ms": 0.5},
        )
        for number, value in enumerate(values)
    )
    return run_record.CellRecord.model_validate({**fields, "boots": boots})


def finding(
    values: tuple[tuple[float, ...], ...] = (BEFORE, AFTER),
    cells: tuple[int, ...] = (0, 1),
    **changes: object,
) -> run_record.FindingRecord:
    """An expectation about IOPS that holds."""
    means = tuple(sum(arm_values) / len(arm_values) for arm_values in values if arm_values)
    fields: dict[str, object] = {
        "level": "wall clock",
        "engine": "tcg",
        "metric": "iops",
        "unit": "host-clock IOPS",
        "conditions": {},
        "published": figure("+40%"),
        "bound": Bound.parse(">= +20%"),
        "because": "half of it",
        "verdict": "HOLDS",
        "reason": "the whole interval is as expected",
        "arms": ("before", "after"),
        "cells": cells,
        "values": values,
        "measured": means,
        "measured_change": means[1] / means[0] - 1 if len(means) == 2 else None,
        "interval": (0.35, 0.47),
        "p": 0.016,
        **changes,
    }
    fields.setdefault("better", metrics.get(str(fields["metric"])).better)
    return run_record.FindingRecord.model_validate(fields)


def claim(
    *findings: run_record.FindingRecord, name: str = "faster", verdict: str = Verdict.HOLDS
) -> run_record.ClaimRecord:
    """A claim with these findings."""
    return run_record.ClaimRecord(
        name=name,
        verdict=Verdict(verdict),
        counts_as=Verdict(verdict),
        statement="40 % faster",
        topology="nullb",
        scheduler="bfq",
        workload="randread_burst",
        findings=findings,
    )


def series(
    *claims: run_record.ClaimRecord, error: str = "", verdict: str = Verdict.HOLDS
) -> run_record.SeriesRecord:
    """A series with these claims."""
    return run_record.SeriesRecord(
        name="own",
        title="make it fast",
        origin='commit 1234567 ("make it fast")',
        tree="debian:6.12",
        verdict=Verdict(verdict),
        counts_as=Verdict(verdict),
        error=error,
        claims=claims,
    )


def described(name: str) -> run_record.WorkloadRecord:
    """What a record says of a workload."""
    definition = workload.get(name)
    meaning = metrics.get(definition.metric)
    return run_record.WorkloadRecord(
        title=definition.title, metric=definition.metric, unit=meaning.unit, better=meaning.better
    )


def run(
    *judged: run_record.SeriesRecord, cells: Sequence[run_record.CellRecord] = (), **changes: object
) -> run_record.RunRecord:
    """A run of these series and cells; a series of one claim that holds when none is given."""
    fields: dict[str, object] = {
        "id": "20260101-120000-abcd",
        "command": "lab run own",
        "title": "Verdicts on own",
        "profile": "every cell once",
        "skips": "much",
        "alpha": 0.05,
        "started": 1_767_268_800.0,
        "finished": 1_767_270_000.0,
        "lab": "0.1 abcdef0",
        "host": run_record.HostRecord(
            facts=replace(HOST.facts, qemu="QEMU 10.0.2"),
            engines=(EngineReport(Engine.TCG, True, ""),),
        ),
        "series": judged,
        "cells": tuple(cells),
        "workloads": {name: described(name) for name in {record.workload for record in cells}},
        **changes,
    }
    return run_record.RunRecord.model_validate(fields)


def paired_run() -> run_record.RunRecord:
    """A run with one claim that holds by wall clock."""
    cells = (cell("before", BEFORE), cell("after", AFTER))
    return run(series(claim(finding())), cells=cells)


def swept_run() -> run_record.RunRecord:
    """dbench by clients, three arms, as the exact engine measures it."""
    cells: list[run_record.CellRecord] = []
    findings, single = [], []
    for clients, (mq, sq, patched, published) in {
        1: (40.0, 44.0, 36.0, "-7.74%"),
        8: (600.0, 360.0, 361.0, "-40.73%"),
        512: (10_000.0, 10_100.0, 10_150.0, "+1.61%"),
    }.items():
        place = len(cells)
        for arm, value in (("before", mq), ("sq", sq), ("after", patched)):
            changes: dict[str, object] = {
                "workload": "dbench_xfs",
                "topology": "raid64",
                "parameters": {"clients": clients, "seconds": 8},
                "swept": ("clients",),
                "engine": "exact",
                "cpus": 8,
                "metric": "amean_ms",
                "unit": "ms",
            }
            cells.append(cell(arm, (value,), **changes))
        known: dict[str, object] = {
            "level": "cost",
            "engine": "exact",
            "metric": "amean_ms",
            "unit": "ms",
            "conditions": {"clients": clients, "cpus": 8},
            "bound": Bound.parse("<= 0%"),
            "interval": None,
            "p": None,
        }
        findings.append(
            finding(((mq,), (patched,)), (place, place + 2), **known, published=figure(published))
        )
        single.append(
            finding(
                ((mq,), (sq,)),
                (place, place + 1),
                **known,
                published=figure("+10.67%"),
                arms=("before", "sq"),
            )
        )
    claims = (claim(*findings, name="dbench"), claim(*single, name="single_queue"))
    on_raid = [
        record.model_copy(update={"topology": "raid64", "workload": "dbench_xfs"})
        for record in claims
    ]
    return run(series(*on_raid), cells=cells)


def matrix_run(cells: int, boots: int = 3) -> run_record.RunRecord:
    """A matrix without a claim: so many cells under four schedulers."""
    schedulers = ("none", "mq-deadline", "bfq", "kyber")
    records = [
        cell(
            "stock",
            tuple(1000.0 + 7 * number + 31 * boot for boot in range(boots)),
            scheduler=schedulers[number % 4],
            topology=f"disk{number // 40 % 25}",
            workload=("randread_burst", "randwrite_uring")[number // 1000 % 2],
            parameters={"numjobs": number // 4 % 10, "seconds": number // 2000},
            swept=("numjobs", "seconds"),
        )
        for number in range(cells)
    ]
    return run(cells=records, title="a matrix", command="lab matrix")


def tables_run() -> run_record.RunRecord:
    """A command that judges nothing: two tables, one of notes only."""
    table = run_record.TableRecord(
        title="What is | where",
        columns=tables.columns("function", "before", "after"),
        rows=(("submit_bio", "1.00", "2.00"), ("a|b <c>", "10.00", "20.00")),
        totals=(("kernel", "11.00", "22.00"),),
        notes=("two of two", "first line\n  second line " + "word " * 30),
    )
    return run(tables=(table, run_record.TableRecord(title="A conclusion", notes=("it is so",))))


COST_BEFORE = Cost(5.0, {"submit_bio": 10.0, "kfree": 2.25, "noise": -0.5})
COST_AFTER = Cost(5.0, {"submit_bio": 7.0, "kfree": 2.25, "added": 0.001})


def compared_run(**changes: object) -> run_record.RunRecord:
    """A run that compares two cells by function."""
    fields: dict[str, object] = {"engine": "exact", "cpus": 1, **changes}
    cells = [cell(arm, (1.0, 2.0), **fields) for arm in ("before", "after")]
    difference = run_record.CostDifference(
        claim="",
        arms=("before", "after"),
        cells=(0, 1),
        functions=(("submit_bio", 10.0, 7.0),),
        totals=(12.0, 9.0),
    )
    return run(cells=cells, costs=(difference,))


def costs(boot: str) -> Cost:
    """What an I/O of its boots costs."""
    return COST_BEFORE if "before" in boot else COST_AFTER


MAIL = run_record.Mail(
    source="box.mbx",
    message_id="<1@example.org>",
    references=("<0@example.org>",),
    subject="[PATCH v2 0/2] block: größer and better, so that the subject is longer than a line is",
    sender="Ada Example <ada@example.org>",
    date="Tue, 19 Nov 2024 09:00:00 +0100",
    to=("Jens Example <jens@example.org>", "Ada Example <ada@example.org>"),
    cc=("linux-block@lists.example.org",),
)


def mailed(run: run_record.RunRecord, **changed: object) -> run_record.RunRecord:
    """A run of patches that came in a mail."""
    update = {
        "mail": MAIL,
        "command": "lab try box.mbx --topology nullb_mq --set depth=1",
        **changed,
    }
    return run.model_copy(update=update)
