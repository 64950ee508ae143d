# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands that judge patch series."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from lab.base.errors import LabError, UsageError, nearest
from lab.base.progress import Progress
from lab.cli import options
from lab.commands import aa_control, check_series
from lab.inputs import profile, series
from lab.inputs.profile import Profile
from lab.inputs.terms import Verdict
from lab.judge import judge
from lab.measure import session
from lab.measure.boot_store import BootStore
from lab.report import finish, run_builder
from lab.report.run_record import Run


@click.command("run")
@click.argument("names", metavar="[SERIES]...", nargs=-1)
@options.profile
@click.option("--claim", "claims", multiple=True, help="Only this claim; several times.")
@click.option(
    "--control",
    "instead",
    default="",
    type=click.Choice(["", *judge.CONTROLS]),
    help="Judge what must not hold: the arms turned round, or without the patches.",
)
def run_command(
    names: tuple[str, ...], profile_name: str, claims: tuple[str, ...], instead: str
) -> int:
    """Judge whether what patch series claim holds.

    Without a name all series of kernel-patches are judged. What was measured before is not
    measured again. Exit codes: 0 all claims hold, 1 one is refuted, 4 none is refuted but one is
    inconclusive, 3 one could not be judged.

    Example: lab run bfq_burst_merge --profile standard
    """
    return judged(names, profile.get(profile_name), Progress(), claims=claims, control=instead)


def judged(
    names: Sequence[str],
    chosen: Profile,
    progress: Progress,
    *,
    claims: Sequence[str] = (),
    control: str = "",
    spec: str = "",
) -> int:
    """Judge series (all without a name), print and record what was found, return the exit code."""
    store, started = BootStore(), time.time()
    wanted = names or tuple(series.known())
    all_claims = [(name, title) for name in wanted for title in series.get(name).claims]
    titles = {title for _, title in all_claims}
    for title in claims:
        if title not in titles:
            raise UsageError(f"no claim is called {title!r}", hint=nearest(title, titles))
    chosen_claims = [pair for pair in all_claims if not claims or pair[1] in claims]
    asked = [name for name in wanted if any(name == own for own, _ in chosen_claims)]
    found = judge.judge(
        asked, chosen, store, progress, claims=chosen_claims, control=control, spec=spec
    )
    own = ", ".join(one.title for one in found.series)
    title = f"Verdicts on {own}" if names else "Verdicts on all series"
    made = run_builder.RunBuilder(store, chosen, found.host, title)
    run = made.judged(found.series, started, control)
    click.echo(finish.finish(run, store).ending(progress.summary()))
    return _exit_code(run)


@click.command("check-series")
@click.argument("names", metavar="[SERIES]...", nargs=-1)
@options.profile
def check_series_command(names: tuple[str, ...], profile_name: str) -> None:
    """Check every patch of series: checkpatch --strict, a build and a boot after each of them.

    Example: lab check-series bfq_burst_merge
    """
    progress, store, chosen = Progress(), BootStore(), profile.get(profile_name)
    found = [
        c for n in names or series.known() for c in check_series.check(n, chosen, store, progress)
    ]
    click.echo(f"\n{check_series.summary(found)}")
    if bad := [commit for commit in found if commit.error]:
        raise LabError(f"{len(bad)} of {len(found)} patches are not as they should be")


def _exit_code(run: Run) -> int:
    """The exit code for what was found, the worst first."""
    verdicts = {one.verdict for one in run.series}
    codes = {Verdict.ERROR: LabError.exit_code, Verdict.REFUTED: 1, Verdict.INCONCLUSIVE: 4}
    return next((code for verdict, code in codes.items() if verdict in verdicts), 0)


@click.command("control")
@options.profile
@click.option("--cells", "count", default=7, show_default=True, help="How many cells.")
@click.option("--arms", default=4, show_default=True, type=click.IntRange(2), help="Names a cell.")
def control_command(profile_name: str, count: int, arms: int) -> None:
    """Compare a kernel with itself: how often is a change called where there is none.

    Each cell is booted under several names in turn, and every name compared with every other.

    Example: lab control --cells 4 --arms 5
    """
    progress, store, chosen = Progress(), BootStore(), profile.get(profile_name)
    testbed = session.prepare(chosen.tree, (), chosen.kernel, progress)
    engine = testbed.host.best_wall_clock()
    compared = aa_control.wall_clock(testbed, chosen, engine, count, arms, store, progress)
    repeated = aa_control.exact(testbed, chosen, count, store, progress)
    click.echo(aa_control.report(compared, repeated, chosen.alpha))
