# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands that judge patch series."""

from __future__ import annotations

from collections.abc import Sequence

import click

from lab import cache, commits, control, judge, options, pipeline, profile, scoreboard, series
from lab.errors import LabError, UsageError, nearest
from lab.progress import Progress
from lab.store import Store
from lab.verdict import Judged, Verdict


@click.command()
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
def run(names: tuple[str, ...], profile_name: str, claims: tuple[str, ...], instead: str) -> int:
    """Judge whether what patch series claim holds.

    Without a name all series of kernel-patches are judged. What was measured before is not
    measured again. Exit codes: 0 all claims hold, 1 one is refuted, 4 none is refuted but one is
    inconclusive, 3 one could not be judged.

    Example: lab run bfq_burst_merge --profile standard
    """
    progress, store, chosen = Progress(), Store(), profile.get(profile_name)
    wanted = names or tuple(series.known())
    all_claims = [(name, title) for name in wanted for title in series.get(name).claims]
    titles = {title for _, title in all_claims}
    for title in claims:
        if title not in titles:
            raise UsageError(f"no claim is called {title!r}", hint=nearest(title, titles))
    chosen_claims = [pair for pair in all_claims if not claims or pair[1] in claims]
    found = judge.judge(
        [name for name in wanted if any(name == own for own, _ in chosen_claims)],
        chosen,
        store,
        progress,
        claims=chosen_claims,
        control=instead,
    )
    report = scoreboard.text(found, chosen)
    cache.write_atomically(store.folder / "last-verdicts.txt", report)
    click.echo(f"\n{report}\nTime of each phase\n{progress.summary()}")
    click.echo(f"Raw files: {store.folder / 'boots'}")
    return _exit_code(found)


@click.command("check-series")
@click.argument("names", metavar="[SERIES]...", nargs=-1)
@options.profile
def check_series(names: tuple[str, ...], profile_name: str) -> None:
    """Check every patch of series: checkpatch --strict, a build and a boot after each of them."""
    progress, store, chosen = Progress(), Store(), profile.get(profile_name)
    found = [c for n in names or series.known() for c in commits.check(n, chosen, store, progress)]
    click.echo(f"\n{commits.summary(found)}")
    if bad := [commit for commit in found if commit.error]:
        raise LabError(f"{len(bad)} of {len(found)} patches are not as they should be")


def _exit_code(judged: Sequence[Judged]) -> int:
    """The exit code for what was found, the worst first."""
    verdicts = {one.verdict() for one in judged}
    codes = {Verdict.ERROR: LabError.exit_code, Verdict.REFUTED: 1, Verdict.INCONCLUSIVE: 4}
    return next((code for verdict, code in codes.items() if verdict in verdicts), 0)


@click.command("control")
@options.profile
@click.option("--cells", "count", default=7, show_default=True, help="How many cells.")
@click.option("--arms", default=4, show_default=True, type=click.IntRange(2), help="Names a cell.")
def aa_control(profile_name: str, count: int, arms: int) -> None:
    """Compare a kernel with itself: how often is a change called where there is none.

    Each cell is booted under several names in turn, and every name compared with every other.
    """
    progress, store, chosen = Progress(), Store(), profile.get(profile_name)
    bench = pipeline.prepare(chosen.tree, (), chosen.kernel, progress)
    engine = bench.host.best_wall_clock()
    compared = control.wall_clock(bench, chosen, engine, count, arms, store, progress)
    repeated = control.exact(bench, chosen, count, store, progress)
    click.echo(control.report(compared, repeated, chosen.alpha))
