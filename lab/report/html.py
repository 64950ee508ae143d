# SPDX-License-Identifier: GPL-2.0-or-later
"""The pages: a run, and the trends of branches, each one file that needs nothing else.

They know no network, are light and dark, fit a phone and paper, and run no script but their own.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import math
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from lab.base.stats import Interval, paired
from lab.base.text import number, percent, visible
from lab.guest import host_noise
from lab.inputs import series
from lab.inputs.terms import Verdict
from lab.judge import seed_noise
from lab.report import arm_table, cell_tables, flame, profiles, svg, trend, view
from lab.report.profiles import CostComparison, Costs
from lab.report.run_record import (
    ClaimRecord,
    CostDifference,
    FindingRecord,
    RunRecord,
    SeriesRecord,
)
from lab.report.trend import BranchTrend, CellTrend

_PERCENTILES = {"p50": "50 %", "p90": "90 %", "p99": "99 %", "p999": "99.9 %"}
# Facts of a guest that tell at a glance what it was; all are in its boots' folders.
_TELLING = (
    *("release", "hw_queues", "online_cpus", "possible_cpus", "queue/scheduler"),
    *("queue/rotational", "queue/nr_requests", "device/queue_depth"),
)
# What needs a reader first.
_ORDER = (
    *(Verdict.REFUTED, Verdict.ERROR, Verdict.INCONCLUSIVE),
    *(Verdict.HOLDS, Verdict.SKIPPED),
)
# Of a kernel's release what names a tag: v6.12, v7.3-rc2.
_RELEASE = re.compile(r"(\d+\.\d+)(?:\.\d+)*(-rc\d+)?")
# A function of C, without what a compiler appends to its copies.
_FUNCTION = re.compile(r"([A-Za-z_]\w*)(?:\.(?:part|constprop|isra|cold)(?:\.\d+)?)*$", re.ASCII)
# Of a cell of a matrix the page shows so many boots, the newest.
_POINTS = 12

# For a boot and a metric: (seconds since 1970, kernel id, value) of every boot of the same cell.
History = Callable[[str, str], Sequence[tuple[float, str, float]]]


def html(
    run: RunRecord,
    results: Path,
    target: Path,
    history: History,
    costs: Costs = lambda boot: None,
) -> str:
    """The report of a run; links to raw files are relative to target, the file it is meant for."""
    compared = profiles.compared(run, costs)
    boots = os.path.relpath(results / "boots", target.parent)
    drawn = any(table.curves for table in run.tables)
    page = _environment().get_template("report.html.j2")
    return page.render(
        run=run,
        raw=lambda boot: f"{boots}/{boot}/",
        series=view.of_run(run, " → "),
        plots=_plots,
        grids=lambda record: _grids(run, record),
        latency=lambda claim: _latency(run, claim),
        history=lambda claim: _history(run, claim, history),
        costs=lambda claim: [c for c in run.costs if c.claim == claim and c.functions],
        flame=lambda cost: _flame(compared.get(cost.cells)),
        source=lambda cost, name: _source(run, cost, name),
        matrices=[] if run.series or drawn else [*cell_tables.of_run(run)],
        guests=_guests(run),
        telling=_TELLING,
        noise=_noise(run),
        counts=_counts(run),
        commands=_commands(run),
    )


def trend_page(branches: Sequence[BranchTrend], least: float) -> str:
    """The trends of branches; least is the smallest step that was looked for, a fraction."""
    page = _environment().get_template("trend.html.j2")
    return page.render(
        branches=branches,
        least=f"{100 * least:g} %",
        now=time.time(),
        suspects=trend.suspects,
        bisection=trend.bisection,
        plot=_trend,
    )


@cache
def _environment() -> jinja2.Environment:
    """The one environment of all pages: text of strangers stays text."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lab.report", "."),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters |= {
        "number": number,
        "time": lambda seconds: time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds)),
        "change": lambda change: percent(change, exact=True),
        "slug": lambda verdict: verdict.replace(" ", "-"),
        "sha256": lambda text: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode(),
        "points": lambda cell, top: Markup(svg.points(cell.values()[-_POINTS:], top)),
        "strip": _strip,
        "curves": lambda curves, title: Markup(
            svg.lines(curves.labels, curves.values, title, dashed=curves.dashed, log=True)
        ),
    }
    environment.globals |= {
        "strip_ticks": svg.strip_ticks(),
        "scroll": lambda name: Markup(
            '<div class="scroll" tabindex="0" role="group" aria-label="{}">'
        ).format(visible(name)),
    }
    return environment


def _figure(caption: str, drawing: str) -> Markup:
    """A drawing with what it shows, which may be anybody's words."""
    figure = Markup("<figure><figcaption>{}</figcaption>{}</figure>")
    return figure.format(visible(caption), Markup(drawing))


def _strip(finding: FindingRecord) -> Markup:
    """The published change beside the measured one."""
    changes = finding.published.changes if finding.published else ()
    return Markup(svg.strip(changes, finding.measured_change, finding.interval or ()))


def _source(run: RunRecord, cost: CostDifference, function: str) -> str:
    """Where to read a function of the release that was measured; empty where it is not known."""
    release = _RELEASE.match(run.cells[cost.cells[0]].facts.get("release", ""))
    name = _FUNCTION.match(function)
    if not release or not name:
        return ""
    return f"https://elixir.bootlin.com/linux/v{release[1]}{release[2] or ''}/A/ident/{name[1]}"


def _plots(finding: FindingRecord) -> Markup:
    """Changes of the rounds, and the boots of each arm; nothing where one boot says all."""
    if not finding.timed or len(finding.values) != 2 or not finding.values[0]:
        return Markup("")
    drawn = svg.strips(dict(zip(finding.arms, finding.values, strict=True)), finding.unit)
    before, after = finding.values
    if len(before) == len(after) and min(*before, *after) > 0:
        rounds = [math.expm1(ratio) for ratio in paired(before, after).log_ratios]
        low, high = finding.interval or (None, None)
        interval = None if low is None or high is None else Interval(low, high)
        drawn = svg.change(rounds, interval, finding.bound.interval) + drawn
    return Markup(drawn)


def _grids(run: RunRecord, record: SeriesRecord) -> Markup:
    """Improvement by swept value, measured and published, for metrics that were swept."""
    drawn = []
    for table in arm_table.of_series(run, record):
        if len(table.rows) < 2:
            continue
        curves: dict[str, list[float | None]] = {}
        rows = [table.rows[label] for label in table.labels]
        for arm in table.arms[1:]:
            values = [row.get(arm) for row in rows]
            curves[arm] = [table.signed(value.change) if value else None for value in values]
            published = [table.signed(value.published) if value else None for value in values]
            if any(change is not None for change in published):
                curves[f"{arm} (published)"] = published
        dashed = [name for name in curves if name.endswith(" (published)")]
        caption = (
            f"{table.workload} on {table.topology}, {table.scheduler} ({table.executed}): "
            f"improvement of {table.metric} against {table.arms[0]}, by {table.swept}"
        )
        plot = svg.lines(table.labels, curves, "improvement", dashed=dashed, percent=True)
        drawn.append(_figure(caption, plot))
    return Markup("").join(drawn)


def _latency(run: RunRecord, claim: ClaimRecord) -> Markup:
    """Latency percentiles of the arms of a claim, where fio looked at the clock."""
    curves: dict[str, list[float | None]] = {}
    for finding in claim.findings:
        for arm, place in zip(finding.arms, finding.cells, strict=False):
            means = [run.cells[place].mean(f"lat_{name}_ms") for name in _PERCENTILES]
            if finding.timed and any(means):
                curves.setdefault(f"{arm}, {finding.engine}", means)
    labels = list(_PERCENTILES.values())
    return Markup(svg.lines(labels, curves, "completion latency", log=True))


def _history(run: RunRecord, claim: ClaimRecord, history: History) -> Markup:
    """The value of the claim's last arm over all kernels that were measured so far.

    A change point is marked at every kernel whose values all differ from all of the one before by
    more than seeds of one kernel do.
    """
    drawn = []
    for place in dict.fromkeys(finding.cells[-1] for finding in claim.findings if finding.cells):
        cell = run.cells[place]
        values: dict[str, list[float]] = {}
        for _, kernel, value in history(cell.boots[-1].id, cell.metric) if cell.boots else ():
            values.setdefault(kernel, []).append(value)
        if len(values) < 2:
            continue
        margin = seed_noise.seed_noise(cell.workload, cell.engine, cell.metric)
        marks = [
            number
            for number, (old, new) in enumerate(itertools.pairwise(values.values()), start=1)
            if min(new) > (1 + margin) * max(old) or max(new) < (1 - margin) * min(old)
        ]
        means = {cell.arm: [statistics.fmean(kernel_values) for kernel_values in values.values()]}
        plot = svg.lines([kernel[:6] for kernel in values], means, "history", marks=marks)
        caption = (
            f"{cell.name} ({cell.executed}), {cell.metric} in {cell.unit}, by kernel in order of "
            f"time; change points: {len(marks)}"
        )
        drawn.append(_figure(caption, plot))
    return Markup("").join(drawn)


def _flame(compared: CostComparison | None) -> Markup:
    """The flame graphs of a difference; nothing where its boots are gone."""
    drawn = []
    if compared:
        before, after = (profile.arm for profile in compared)
        for graph in flame.graphs(*compared):
            caption = (
                f"The same as wide as {graph.arm}, for what is all but gone: {graph.gone}."
                if graph.gone
                else f"Boxes are as wide as their part of an I/O's cost, {graph.arm}; red costs "
                f"more {after} than {before}, blue less. Point at one for its numbers."
            )
            drawn.append(_figure(caption, graph.svg))
    return Markup("").join(drawn)


def _guests(run: RunRecord) -> dict[str, Mapping[str, str]]:
    """What the guests were, one for each topology, arm and engine that differ in it."""
    guests: dict[str, Mapping[str, str]] = {}
    for cell in run.cells:
        if cell.boots:
            arm = f" ({cell.arm})" if cell.arm not in ("stock", "before", "after") else ""
            name = f"{cell.topology}{arm}, {cell.scheduler}, {cell.executed}"
            guests.setdefault(name, cell.facts)
    return guests


def _noise(run: RunRecord) -> Iterator[tuple[str, int, float, float]]:
    """Signals of contention: name, boots, median and largest in per cent."""
    for name in host_noise.METRICS:
        values = sorted(v for cell in run.cells for v in cell.values(name))
        if values:
            title = name.removeprefix(host_noise.PREFIX).replace("_", " ")
            yield title, len(values), values[len(values) // 2], values[-1]


def _counts(run: RunRecord) -> dict[Verdict, int]:
    verdicts = [claim.verdict for _, claim in run.claims]
    verdicts += [record.verdict for record in run.series if record.error]
    return {name: verdicts.count(name) for name in _ORDER if name in verdicts}


def _commands(run: RunRecord) -> list[str]:
    """What to type to see the same: the command, and that of each of the project's series alone."""
    known = series.known()
    alone = [f"make lab-run SERIES={record.name}" for record in run.series if record.name in known]
    return [run.command, *alone]


def _trend(branch: BranchTrend, cell: CellTrend) -> Markup:
    """A cell over the nights: its change from the first level, and its steps."""
    changes = {jump.night: jump.change for jump in cell.jumps}
    days = [night.day for night in branch.nights]
    shown = (f"{percent(size, exact=True)} on {days[night]}" for night, size in changes.items())
    nights = sum(value is not None for value in cell.values)
    title = f"{cell.name}, {nights} nights: {', '.join(shown) or 'no change point'}"
    return Markup(svg.trend(cell.values, changes, (days[0], days[-1]), title))
