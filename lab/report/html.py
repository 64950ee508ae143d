# SPDX-License-Identifier: GPL-2.0-or-later
"""A run as one HTML file that needs nothing else: no network, light and dark, phone and print."""

from __future__ import annotations

import base64
import hashlib
import itertools
import math
import os
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from lab.base.stats import Interval, paired
from lab.base.text import number, visible
from lab.guest import host_noise
from lab.inputs import series
from lab.inputs.terms import Verdict
from lab.judge import seed_noise
from lab.report import arm_table, finding, flame, overview, profiles, svg
from lab.report.arm_table import ArmTable
from lab.report.profiles import Comparison, Costs
from lab.report.run_record import (
    CellRecord,
    ClaimRecord,
    CostDifference,
    Curves,
    FindingRecord,
    RunRecord,
    SeriesRecord,
)

_TEMPLATE = "report.html.j2"
_PERCENTILES = ("p50", "p90", "p99", "p999")
# Facts of a guest that tell at a glance what it was; all are in its boots' folders.
_TELLING = (
    "release",
    "hw_queues",
    "online_cpus",
    "possible_cpus",
    "queue/scheduler",
    "queue/rotational",
    "queue/nr_requests",
    "device/queue_depth",
)
# What needs a reader first.
_ORDER = (
    *(Verdict.REFUTED, Verdict.ERROR, Verdict.INCONCLUSIVE),
    *(Verdict.HOLDS, Verdict.SKIPPED),
)
# A strip of a published figure reaches from a sixteenth to sixteen times as much; these are marked.
_REACH = 16.0
_TICKS = tuple(
    (f"{100 * ratio - 100:+.0f} %", 50 + 46 * math.log(ratio) / math.log(_REACH))
    for ratio in (0.1, 0.5, 1, 2, 10)
)
# Of a kernel's release what names a tag: v6.12, v7.3-rc2.
_RELEASE = re.compile(r"(\d+\.\d+)(?:\.\d+)*(-rc\d+)?")
# A function of C, without what a compiler appends to its copies.
_FUNCTION = re.compile(r"([A-Za-z_]\w*)(?:\.(?:part|constprop|isra|cold)(?:\.\d+)?)*$", re.ASCII)
# Of a cell of a matrix the page shows so many boots, the newest.
_POINTS = 12

# For a boot and a metric: (seconds since 1970, kernel id, value) of every boot of the same cell.
History = Callable[[str, str], Sequence[tuple[float, str, float]]]


@dataclass(frozen=True)
class MatrixTable:
    """A workload measured on several disks: rows of cells, a column for each scheduler."""

    workload: str
    metric: str
    unit: str
    direction: str
    schedulers: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int | None, ...]], ...]  # places in the run's cells
    top: float


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

    def raw(boot: str) -> str:
        return f"{boots}/{boot}/"

    return _template().render(
        run=run,
        raw=raw,
        parts=_parts,
        overview=overview,
        dots=_dots(run),
        ticks=_TICKS,
        verdicts=_verdicts,
        verdict=finding.verdict,
        whose=finding.whose,
        configuration=finding.configuration,
        finding_plots=lambda found: _finding_plots(run, found),
        grid_plots=lambda own: _grid_plots(run, own),
        latency=lambda claim: _latency(run, claim),
        history=lambda claim: _histories(run, claim, history),
        costs=lambda own, claim: _costs(run, f"{own.name}.{claim.name}"),
        compared=_costs(run),
        flame=lambda cost: _flame(compared.get(cost.cells)),
        flame_style=Markup(flame.STYLE),
        source=lambda cost, name: _source(run, cost, name),
        matrix=[] if run.series or any(table.curves for table in run.tables) else [*_matrix(run)],
        hardware=_hardware(run),
        curves=_curves,
        telling=_TELLING,
        noise=_noise(run),
        counts=_counts(run),
        commands=_commands(run),
    )


@cache
def _template() -> jinja2.Template:
    """The page's template, compiled once."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lab.report", "."),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
        finalize=_finalized,
    )
    own = {"number": number, "time": _time, "points": _points, "sha256": _sha256}
    own["slug"] = _slug
    environment.filters |= own
    return environment.get_template(_TEMPLATE)


def _finalized(value: object) -> object:
    """A value as the page shows it."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _sha256(text: str) -> str:
    """The hash of a script by which a Content-Security-Policy lets it run."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _parts(found: FindingRecord) -> finding.Parts:
    return finding.parts(found, " → ")


def _slug(verdict: Verdict) -> str:
    """A verdict as a word without spaces."""
    return verdict.replace(" ", "-")


def _verdicts(own: SeriesRecord) -> str:
    """The verdicts that a filter shows a series for."""
    found = {claim.verdict for claim in own.claims} or {own.verdict}
    return " ".join(sorted(map(_slug, found)))


def _source(run: RunRecord, cost: CostDifference, function: str) -> str:
    """Where to read a function of the release that was measured; empty where it is not known."""
    release = _RELEASE.match(run.cells[cost.cells[0]].facts.get("release", ""))
    name = _FUNCTION.match(function)
    if not release or not name:
        return ""
    return f"https://elixir.bootlin.com/linux/v{release[1]}{release[2] or ''}/A/ident/{name[1]}"


def _points(cell: CellRecord, top: float) -> Markup:
    return Markup(svg.points(cell.values()[-_POINTS:], top))


def _finding_plots(run: RunRecord, found: FindingRecord) -> Markup:
    """Changes of the rounds, and the boots of each arm; nothing where one boot says all."""
    if not found.timed or len(found.values) != 2 or not found.values[0]:
        return Markup("")
    drawn = svg.strips(dict(zip(found.arms, found.values, strict=True)), found.unit)
    before, after = found.values
    if len(before) == len(after) and min(*before, *after) > 0:
        rounds = [math.expm1(ratio) for ratio in paired(before, after).log_ratios]
        interval = None
        if found.interval and found.interval[0] is not None and found.interval[1] is not None:
            interval = Interval(found.interval[0], found.interval[1])
        drawn = svg.change(rounds, interval, found.bound.interval) + drawn
    return Markup(drawn)


def _grid_plots(run: RunRecord, own: SeriesRecord) -> Markup:
    """Improvement by swept value, measured and published, for metrics that were swept."""
    drawn = []
    for found in arm_table.of_series(run, own):
        if len(found.rows) > 1:
            labels = arm_table.sorted_labels(list(found.rows))
            caption = (
                f"{found.workload} on {found.topology}, {found.scheduler} ({found.executed}): "
                f"improvement of {found.metric} against {found.arms[0]}, by {found.swept}"
            )
            drawn.append(_figure(caption, _improvement(found, labels)))
    return Markup("").join(drawn)


def _figure(caption: str, drawing: Markup) -> Markup:
    """A drawing with what it shows, which may be anybody's words."""
    figure = Markup("<figure><figcaption>{}</figcaption>{}</figure>")
    return figure.format(visible(caption), drawing)


def _improvement(found: ArmTable, labels: Sequence[str]) -> Markup:
    curves: dict[str, list[float | None]] = {}
    dashed = []
    for arm in found.arms[1:]:
        entries = [found.rows[label].get(arm) for label in labels]
        curves[arm] = [found.improvement(entry) if entry else None for entry in entries]
        published = [found.signed(entry.published) if entry else None for entry in entries]
        if any(value is not None for value in published):
            curves[f"{arm} (published)"] = published
            dashed.append(f"{arm} (published)")
    return Markup(svg.lines(labels, curves, "improvement", dashed=dashed, percent=True))


def _curves(own: Curves, title: str) -> Markup:
    """A table's numbers, drawn: what doubles with the CPUs is a straight line."""
    return Markup(svg.lines(own.labels, own.values, title, dashed=own.dashed, log=True))


def _latency(run: RunRecord, claim: ClaimRecord) -> Markup:
    """Latency percentiles of the arms of a claim, where fio looked at the clock."""
    curves: dict[str, list[float | None]] = {}
    for found in claim.findings:
        for arm, place in zip(found.arms, found.cells, strict=False):
            cell = run.cells[place]
            means = [cell.mean(f"lat_{name}_ms") for name in _PERCENTILES]
            if found.timed and any(means):
                curves.setdefault(f"{arm}, {found.engine}", means)
    drawn = svg.lines(["50 %", "90 %", "99 %", "99.9 %"], curves, "completion latency", log=True)
    return Markup(drawn)


def _histories(run: RunRecord, claim: ClaimRecord, history: History) -> Markup:
    """The value of the claim's last arm over all kernels that were measured so far.

    A change point is marked at every kernel whose values all differ from all of the one before by
    more than seeds of one kernel do.
    """
    drawn = []
    places = dict.fromkeys(found.cells[-1] for found in claim.findings if found.cells)
    for place in places:
        cell = run.cells[place]
        known = history(cell.boots[-1].id, cell.metric) if cell.boots else ()
        kernels = list(dict.fromkeys(kernel for _, kernel, _ in known))
        if len(kernels) < 2:
            continue
        values = [[value for _, own, value in known if own == kernel] for kernel in kernels]
        margin = seed_noise.seed_noise(cell.workload, cell.engine, cell.metric)
        marks = [
            number
            for number, (old, new) in enumerate(itertools.pairwise(values), start=1)
            if min(new) > (1 + margin) * max(old) or max(new) < (1 - margin) * min(old)
        ]
        curve = svg.lines(
            [kernel[:6] for kernel in kernels],
            {cell.arm: [statistics.fmean(one) for one in values]},
            "history",
            marks=marks,
        )
        caption = (
            f"{cell.name} ({cell.executed}), {cell.metric} in {cell.unit}, by kernel in order of "
            f"time; change points: {len(marks)}"
        )
        drawn.append(_figure(caption, Markup(curve)))
    return Markup("").join(drawn)


def _costs(run: RunRecord, claim: str = "") -> list[CostDifference]:
    """What was found by function for a claim, or for none."""
    return [cost for cost in run.costs if cost.claim == claim and cost.functions]


def _flame(compared: Comparison | None) -> Markup:
    """The flame graphs of a difference; nothing where its boots are gone."""
    drawn = []
    if compared:
        before, after = (one.arm for one in compared)
        for graph in flame.graphs(*compared):
            caption = (
                f"Boxes are as wide as their part of an I/O's cost, {graph.arm}; red costs more "
                f"{after} than {before}, blue less. Point at one for its numbers."
            )
            if graph.gone:
                caption = (
                    f"The same as wide as {graph.arm}, for what is all but gone: {graph.gone}."
                )
            drawn.append(_figure(caption, Markup(graph.svg)))
    return Markup("").join(drawn)


def _matrix(run: RunRecord) -> Iterator[MatrixTable]:
    """The cells of a run without a claim, as tables."""
    by_workload: dict[tuple[str, str], list[CellRecord]] = {}
    places = {id(cell): place for place, cell in enumerate(run.cells)}
    for cell in run.cells:
        by_workload.setdefault((cell.workload, cell.metric), []).append(cell)
    for (work, metric), cells in by_workload.items():
        schedulers = tuple(dict.fromkeys(cell.scheduler for cell in cells))
        rows: dict[str, dict[str, int]] = {}
        for cell in cells:
            label = f"{cell.topology} {cell.sweep}".strip()
            rows.setdefault(label, {})[cell.scheduler] = places[id(cell)]
        yield MatrixTable(
            workload=work,
            metric=metric,
            unit=cells[0].unit,
            direction=f"{cells[0].better} is better",
            schedulers=schedulers,
            rows=tuple(
                (label, tuple(found.get(name) for name in schedulers))
                for label, found in rows.items()
            ),
            top=max((value for cell in cells for value in cell.values()), default=0.0),
        )


def _hardware(run: RunRecord) -> dict[str, Mapping[str, str]]:
    """What the guests were, one for each topology, arm and engine that differ in it."""
    found: dict[str, Mapping[str, str]] = {}
    for cell in run.cells:
        if cell.boots:
            arm = f" ({cell.arm})" if cell.arm not in ("stock", "before", "after") else ""
            name = f"{cell.topology}{arm}, {cell.scheduler}, {cell.executed}"
            found.setdefault(name, cell.facts)
    return found


def _noise(run: RunRecord) -> list[tuple[str, int, float, float]]:
    """Signals of contention: name, boots, median and largest in per cent."""
    found = []
    for name in host_noise.METRICS:
        values = sorted(v for cell in run.cells for v in cell.values(name))
        if values:
            title = name.removeprefix(host_noise.PREFIX).replace("_", " ")
            found.append((title, len(values), values[len(values) // 2], values[-1]))
    return found


def _counts(run: RunRecord) -> dict[Verdict, int]:
    found = [claim.verdict for one in run.series for claim in one.claims]
    found += [one.verdict for one in run.series if one.error]
    return {name: found.count(name) for name in _ORDER if name in found}


def _dots(run: RunRecord) -> list[tuple[overview.Row, Markup]]:
    """The published figures that are changes, each with a strip that shows it beside what was
    measured.
    """
    drawn = []
    for one in run.series:
        for row in overview.of_claims(one):
            found = row.finding
            if found.published is None or not found.published.changes:
                continue
            ends = [1 + end for end in found.interval or () if end is not None]
            published = [1 + change for change in found.published.changes]
            measured = None if found.measured_change is None else 1 + found.measured_change
            strip = svg.published_and_measured(published, measured, ends, _REACH)
            drawn.append((row, Markup(strip)))
    return drawn


def _commands(run: RunRecord) -> list[str]:
    """What to type to see the same: the command, and that of each of the project's series alone."""
    known = series.known()
    alone = [f"make lab-run SERIES={own.name}" for own in run.series if own.name in known]
    return [run.command, *alone]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
