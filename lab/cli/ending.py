# SPDX-License-Identifier: GPL-2.0-or-later
"""How a command ends: text for people, or with --json one document for programs.

What a run found is its record; what other commands answer is small, and described here. `lab
schema` prints the JSON Schema of each.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import click
from pydantic import Field

from lab.base.errors import ExitCode
from lab.base.text import visible
from lab.base.toml import Model
from lab.inputs.terms import Engine, Verdict
from lab.report import exports, finish
from lab.report.run_record import RunRecord

if TYPE_CHECKING:  # a hundred milliseconds of imports, for who only completes a word
    from lab.commands.dry_run import Plan
    from lab.measure.session import Session

_KEY = f"{__name__}.as_json"

_COLOURS = {"HOLDS": "green", "REFUTED": "red", "ERROR": "red", "INCONCLUSIVE": "yellow"}
# By verdict, the worst first.
_CODES = {
    Verdict.ERROR: ExitCode.FAILED,
    Verdict.REFUTED: ExitCode.REFUTED,
    Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
}
_VERDICT = re.compile(rf"\b(?:{'|'.join(_COLOURS)})\b")

as_json = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=lambda context, _option, chosen: context.meta.update({_KEY: chosen}),
    help="Print one JSON document (`lab schema`) in place of text.",
)


class Names(Model):
    """What can be named (`lab list`)."""

    series: tuple[str, ...]
    topologies: tuple[str, ...]
    workloads: tuple[str, ...]
    machines: tuple[str, ...]
    counters: tuple[str, ...]
    profiles: tuple[str, ...]
    fragments: tuple[str, ...]
    runs: tuple[str, ...] = Field(description="the newest last")


class Built(Model):
    """A kernel that is in the cache (`lab build`)."""

    id: str
    release: str
    image: str = Field(description="a path")


class Freed(Model):
    """What `lab gc` deleted, or would delete."""

    deleted: bool
    bytes: int
    entries: dict[str, int] = Field(description="how many, by kind")


class Number(Model):
    """A number of a boot and of its repetition; None where there was none."""

    then: float | None
    now: float | None


class RerunRecord(Model):
    """A boot once more (`lab rerun`)."""

    boot: str
    equal: bool
    outcome: str = Field(description="how it ended then")
    failure: str = Field(description="how it failed now; empty when it did not")
    changed: str = Field(description="what else is executed than then; empty when nothing is")
    numbers: dict[str, Number] = Field(description="those that differ, by metric")


class PlannedBoots(Model):
    """A cell that would be booted, under each of some arms."""

    cell: str
    engine: Engine
    cpus: int
    arms: tuple[str, ...] = Field(description="one nameless arm a kernel where none is judged")
    boots: int = Field(description="of all arms together; at most, where there are rounds")
    rounds: bool


class Planned(Model):
    """What a command would do (--dry-run)."""

    boots: int
    seconds: float = Field(description="of the boots, as many at a time as there are CPUs")
    cells: tuple[PlannedBoots, ...]


class ChangePoint(Model):
    """A night of a cell from which on it costs more, or less."""

    night: int = Field(description="the first behind it, as a place among the branch's nights")
    last: int = Field(description="the last before it")
    change: float = Field(description="a fraction")
    commits: tuple[str, ...]


class Trend(Model):
    """A branch over the gate's nights (`lab trend`)."""

    branch: str
    nights: tuple[str, ...] = Field(description="the state judged in each, oldest first")
    days: tuple[str, ...]
    good: tuple[bool, ...]
    cells: dict[str, tuple[float | None, ...]] = Field(
        description="instructions per I/O in the block layer, a value a night"
    )
    change_points: dict[str, tuple[ChangePoint, ...]] = Field(description="by cell")


class Trends(Model):
    """All branches over the gate's nights."""

    branches: tuple[Trend, ...]


def coloured(text: str) -> str:
    """Text with its verdicts in colour; click.echo takes that out where there is no terminal."""
    if os.environ.get("NO_COLOR"):
        return text
    return _VERDICT.sub(lambda match: click.style(match[0], fg=_COLOURS[match[0]]), text)


def wanted() -> bool:
    """Whether the command that is running was asked for JSON."""
    return bool(click.get_current_context().meta.get(_KEY))


def answer(document: Model, text: Callable[[], Any]) -> None:
    """Print a document, or have the text printed."""
    if wanted():
        click.echo(document.model_dump_json(indent=1))
    else:
        text()


def planned(plan: Plan) -> None:
    """Say what a command would do."""
    cells = tuple(
        PlannedBoots(
            cell=str(planned_cell.cell),
            engine=planned_cell.cell.engine,
            cpus=planned_cell.cell.cpus,
            arms=planned_cell.arms,
            boots=planned_cell.count,
            rounds=planned_cell.rounds,
        )
        for planned_cell in plan.boots
    )
    document = Planned(boots=sum(cell.boots for cell in cells), seconds=plan.seconds, cells=cells)
    answer(document, lambda: click.echo(visible(plan.text)))


def run(record: RunRecord, session: Session, *, for_ci: bool = False, phases: bool = True) -> None:
    """Write down what a run found, and print it, or its record."""
    done = finish.finish(record, session.store, for_ci=for_ci)
    if wanted():
        click.echo(exports.json_text(record), nl=False)
    else:
        click.echo(coloured(done.ending(session.progress.summary() if phases else "")))


def exit_code(verdicts: Collection[Verdict], before_all: Verdict = Verdict.ERROR) -> ExitCode:
    """The exit code for verdicts: that of before_all where it is one of them, else of the worst."""
    found = (_CODES[verdict] for verdict in (before_all, *_CODES) if verdict in verdicts)
    return next(found, ExitCode.DONE)
