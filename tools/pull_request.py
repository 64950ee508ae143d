# SPDX-License-Identifier: GPL-2.0-or-later
"""What the commits of a pull request change, for a CI job: `python -m tools.pull_request LINUX`.

It runs `lab try` on the commits since the merge base, and writes a summary of at most 30 lines, or
none where nothing differs by more than 1 %. action.yml is the GitHub action that calls it.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import click

from lab.base.errors import ExitCode, LabError
from lab.base.process import run
from lab.commands.try_measure import WORSE_COST, WORSE_IOPS
from lab.measure.boot_store import BootStore
from lab.report import exports, record_store
from lab.report.run_record import CostDifference, RunRecord

LAB = Path(sys.executable).with_name("lab")
MOST_LINES = 30
_MORE = "The record in the job's artifact has the rest."


@click.command()
@click.argument("linux", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--base", default="origin/for-next", show_default=True, help="What it is made for.")
@click.option("--head", default="HEAD", show_default=True, help="Its last commit.")
@click.option("--strict", is_flag=True, help="End with the exit code of `lab try`, in place of 0.")
def pull_request(linux: Path, base: str, head: str, strict: bool) -> None:
    """Measure what the commits of a pull request to the kernel in LINUX change.

    The summary is appended to the file GITHUB_STEP_SUMMARY, and `run=FOLDER` to GITHUB_OUTPUT; both
    go to standard output where there is no such variable.
    """
    try:
        status, lines = examine(linux, base, head)
    except LabError as exc:
        raise click.ClickException(str(exc)) from exc
    if lines:
        _append("GITHUB_STEP_SUMMARY", lines)
    sys.exit(status if strict else ExitCode.DONE)


def examine(linux: Path, base: str, head: str) -> tuple[int, list[str]]:
    """The exit code of `lab try` on the commits of head since its merge base with base, and the
    lines of the summary.

    Raises LabError where the two have no commit in common, or head has none of its own.
    """
    since, last = merge_base(linux, base, head), commit(linux, head)
    if since == last:
        raise LabError(f"{head} has no commit that {base} has not", where=str(linux))
    command = [str(LAB), "try", f"git:{linux}@{since}..{last}", "--tree", f"git:{linux}@{since}"]
    # A debug kernel takes longer to build than all else together.
    # What the command says meanwhile is the job's log.
    done = run([*command, "--no-debug", "--json"], check=False, shows_errors=True)
    if done.status in (ExitCode.USAGE, ExitCode.FAILED) or not done.output.strip():
        return done.status, [f"**The lab could not measure {last[:12]}**: the log says why."]
    record = RunRecord.model_validate_json(done.output)
    _append("GITHUB_OUTPUT", [f"run={record_store.find(BootStore().folder, record.id)}"])
    return done.status, summary(record, done.status)


def merge_base(linux: Path, base: str, head: str) -> str:
    """The last commit that both have."""
    found = run(["git", "-C", str(linux), "merge-base", base, head], check=False)
    if found.status:
        raise LabError(
            f"{base} and {head} have no commit in common, or one of them is missing",
            where=str(linux),
            hint="fetch the whole history: fetch-depth: 0",
        )
    return found.output.strip()


def commit(linux: Path, revision: str) -> str:
    """The hash of a revision's commit."""
    argv = ["git", "-C", str(linux), "rev-parse", "--verify", f"{revision}^{{commit}}"]
    return run(argv).output.strip()


def summary(record: RunRecord, status: int) -> list[str]:
    """At most MOST_LINES lines of Markdown; none where nothing surely differs by more than 1 %, or
    in simulated time by more than 5 %.
    """
    quiet = status in (ExitCode.DONE, ExitCode.INCONCLUSIVE)
    if quiet and not any(map(_is_told, record.costs)):
        return []
    lines = exports.markdown(record).splitlines()
    return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], _MORE]


def _is_told(cost: CostDifference) -> bool:
    """Whether an I/O costs another amount, beyond what chance does."""
    before, after = cost.totals
    if cost.unit != "instructions":
        return abs(after / before - 1) > WORSE_IOPS
    sure = math.fsum(new - old for _, old, new in cost.functions)
    return abs(sure) > WORSE_COST * before


def _append(variable: str, lines: list[str]) -> None:
    text = "\n".join(lines) + "\n"
    if name := os.environ.get(variable):
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(text)
    else:
        click.echo(text, nl=False)


if __name__ == "__main__":
    pull_request()
