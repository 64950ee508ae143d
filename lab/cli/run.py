# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands that judge patch series: run, check-series."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from lab.base.errors import ExitCode, LabError, UsageError, nearest
from lab.base.progress import duration
from lab.build import source, trust
from lab.cli import complete, ending, options
from lab.cli.verb import Verb
from lab.commands import check_series, result_tables
from lab.commands import dry_run as plan
from lab.inputs import series
from lab.inputs.series import Series
from lab.judge import judge
from lab.judge.verdict import Judged
from lab.measure.session import Session
from lab.report import view
from lab.report.run_builder import RunBuilder
from lab.report.run_record import Mail


@click.command("run", cls=Verb, example="lab run bfq_burst_merge")
@ending.as_json
@click.argument("names", metavar="[SERIES]...", nargs=-1, shell_complete=complete.a_series)
@options.measuring
@options.claims
@click.option(
    "--control",
    default="",
    type=click.Choice(["", *judge.CONTROLS]),
    help="Judge a control: the arms exchanged, or no patches. It must not hold.",
)
@options.tree
@click.option("--checks", is_flag=True, help="Boot for the lab's own checks, too.")
@click.option(
    "--strict", is_flag=True, help="Let checks decide like published claims; implies --checks."
)
@options.host_time
@options.dry_run
def run_command(
    session: Session,
    names: tuple[str, ...],
    claims: tuple[str, ...],
    control: str,
    spec: str,
    checks: bool,
    strict: bool,
    host_time: bool,
    dry_run: bool,
) -> int:
    """Judge the claims of patch series.

    Without a name the lab judges the series of the profile: quick has eight, the others all of
    kernel-patches. Published claims decide. The lab's own checks inform; the profile quick boots
    nothing for them alone. The lab does not repeat a boot that is on record. With --tree it reports
    the hunk that does not apply, and judges the other series.

    Exit codes: 0 all published claims hold, or are missed as series.toml records. 1 one is refuted,
    or a known miss is out of date. 3 one could not be judged. 4 none is refuted and one is
    inconclusive.
    """
    usual = session.profile.series or series.known()
    wanted = [series.get(name) for name in names or usual]
    pairs = chosen(wanted, claims)
    named = {name for name, _ in pairs}
    wanted = [patch_series for patch_series in wanted if patch_series.name in named]
    if control:
        wanted = [judge.CONTROLS[control](patch_series) for patch_series in wanted]
    if spec:
        wanted = [patch_series.model_copy(update={"tree": spec}) for patch_series in wanted]
    wanted = [patch_series.configured(session.config) for patch_series in wanted]
    if control or spec or session.config:
        wanted = [series.without_known_misses(patch_series) for patch_series in wanted]
    session.host_time = host_time
    names_a_check = any(title in patch_series.checks for patch_series in wanted for title in claims)
    if checks or strict or names_a_check:
        session.profile = session.profile.model_copy(update={"checks": True})
    title = f"Verdicts on {', '.join(patch_series.name for patch_series in wanted)}"
    title = title if names else "Verdicts on all series"
    title = f"{title}, on {spec}" if spec else title
    title = f"{title}, with {' and '.join(session.config)}" if session.config else title
    return judged(
        wanted, session, title, claims=pairs, control=control, strict=strict, dry_run=dry_run
    )


def judged(
    wanted: Sequence[Series],
    session: Session,
    title: str,
    *,
    claims: Sequence[tuple[str, str]],
    control: str = "",
    strict: bool = False,
    mail: Mail | None = None,
    dry_run: bool,
) -> ExitCode:
    """Judge series, print and record what was found, and return the exit code; with dry_run say
    what that would build and boot.
    """
    if dry_run:
        took, host_time = session.durations, session.host_time
        planned = plan.of_series(
            wanted, session.profile, claims=claims, host_time=host_time, durations=took
        )
        ending.planned(planned)
        return ExitCode.DONE
    for patch_series in wanted:
        source.require_possible(patch_series.tree)
        levels = patch_series.levels
        patches = [patch for level in levels for patch in patch_series.patches(level)]
        trust.require(patch_series.tree, patches)

    def say(judged_series: Judged) -> None:
        after = duration(time.time() - session.started)
        outcome = view.outcome(judged_series.verdict(), judged_series.counts_as(strict=strict))
        session.progress.say(f"{judged_series.series.name}: {outcome}, after {after}")

    results = judge.judge(wanted, session, claims=claims, finished=say)
    run = RunBuilder(session, title, mail=mail).judged(results, control, strict=strict)
    ending.run(run, session)
    return ending.exit_code({series_record.counts_as for series_record in run.series})


def chosen(wanted: Sequence[Series], claims: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of series and claim: all claims of the series, or those of the given titles."""
    pairs = [
        (patch_series.name, title) for patch_series in wanted for title in patch_series.all_claims
    ]
    titles = {title for _, title in pairs}
    for title in claims:
        if title not in titles:
            raise UsageError(f"no claim is called {title!r}", hint=nearest(title, titles))
    return [pair for pair in pairs if not claims or pair[1] in claims]


@click.command("check-series", cls=Verb, example="lab check-series bfq_burst_merge")
@ending.as_json
@click.argument("names", metavar="[SERIES]...", nargs=-1, shell_complete=complete.a_series)
@options.measuring
def check_series_command(session: Session, names: tuple[str, ...]) -> None:
    """Check every patch of a series: style, build and boot.

    For each patch: checkpatch --strict, a build, and boots of the debug kernel with this patch and
    all before it. Without a name the lab checks all series of kernel-patches. Exit code 3: a patch
    failed.
    """
    wanted = [series.get(name) for name in names or series.known()]
    commits = [
        commit for patch_series in wanted for commit in check_series.check(patch_series, session)
    ]
    title = f"Every patch of {', '.join(patch_series.name for patch_series in wanted)}"
    outcomes = [outcome for commit in commits for outcome in commit.outcomes]
    run = RunBuilder(session, title).measured(outcomes, (result_tables.of_commits(commits),))
    ending.run(run, session)
    if bad := [commit for commit in commits if commit.error]:
        raise LabError(f"{len(bad)} of {len(commits)} patches are not as they should be")
