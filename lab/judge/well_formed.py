# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether all that the claims of a series name exists, and goes together."""

from __future__ import annotations

from lab.base.errors import UsageError, nearest
from lab.base.stats import SEED_COUNTS
from lab.inputs import counters, device_line, machine_model, topology, workload
from lab.inputs.claims import Claim, Expectation
from lab.inputs.series import BASE, SERIES, Arm, Series
from lab.inputs.terms import Engine, Level
from lab.measure import cost, metrics, sim_counts
from lab.measure.matrix import require_known, require_possible


def check(series: Series) -> None:
    """Raise UsageError, with the place in series.toml, unless all that the claims name exists."""
    for title, arm in series.all_arms.items():
        _check_arm(series, arm, f"{series.file}: arms.{title}")
    for title, claim in series.all_claims.items():
        where = f"{series.file}: {'checks' if claim.is_check else 'claims'}.{title}"
        require_known(
            (claim.topology,), (claim.scheduler,), (claim.workload,), where, series.schedulers
        )
        require_possible(claim.workload, claim.topology, where)
        for number, expectation in enumerate(claim.expect):
            _check_expectation(series, claim, expectation, f"{where}.expect.{number}")


def _check_arm(series: Series, arm: Arm, where: str) -> None:
    if arm.topology and not topology.is_known(arm.topology):
        raise UsageError(
            f"no topology is called {arm.topology!r}",
            where=f"{where}.topology",
            hint=nearest(arm.topology, topology.known()),
        )
    device_line.require_possible(arm.topology, f"{where}.topology")
    if arm.scheduler:
        require_known((), (arm.scheduler,), (), where, series.schedulers)
    rival = arm.patches not in (BASE, SERIES)
    if rival and not any((series.folder / arm.patches).glob("*.patch")):
        raise UsageError(
            f"no patches lie in {arm.patches}/",
            where=f"{where}.patches",
            hint="base, series, or a folder beside series.toml that has patches",
        )


def _check_expectation(series: Series, claim: Claim, expectation: Expectation, where: str) -> None:
    for arm in filter(None, (*arms_of(claim, expectation), expectation.subtract)):
        if arm not in series.all_arms:
            raise UsageError(
                f"no arm is called {arm!r}", where=where, hint=nearest(arm, series.all_arms)
            )
    _check_parameters(claim, expectation, where)
    if expectation.machine:
        _check_simulated(claim, expectation, where)
    known = [*metrics.of_workload(claim.workload), *counters.known()]
    if expectation.metric not in known:
        raise UsageError(
            f"{claim.workload} has no metric {expectation.metric!r}",
            where=where,
            hint=nearest(expectation.metric, known),
        )
    if level_of(expectation) is Level.MECHANISM:
        _check_counter(series, claim, expectation, where)
    exact = {*cost.METRICS, *counters.known()}
    if expectation.metric in exact and {*expectation.engine} - {Engine.EXACT}:
        raise UsageError(
            f"only the engine {Engine.EXACT} gives {expectation.metric}",
            where=where,
            hint="leave out the key engine",
        )
    if expectation.metric == cost.BLOCK_LAYER and not expectation.bound.is_change:
        raise UsageError(
            f"{cost.BLOCK_LAYER} is only compared: alone nothing tells what moved out of it",
            where=where,
            hint=f"write change = ..., or name {cost.KERNEL}",
        )
    # A difference is off by more than its parts: seeds have to tell by how much.
    deterministic = level_of(expectation) is not Level.WALL
    if expectation.subtract and not (
        deterministic and max(claim.seeds, expectation.seeds) >= SEED_COUNTS[0]
    ):
        raise UsageError(
            "subtract is for a deterministic engine and several seeds",
            where=where,
            hint=f"engine = ['{Engine.EXACT}'] or a machine, and seeds = {SEED_COUNTS[0]}",
        )


def _check_parameters(claim: Claim, expectation: Expectation, where: str) -> None:
    work = workload.get(claim.workload)
    chosen = {**claim.parameters, **expectation.parameters}
    work.checked(chosen, where)
    for parameter, usual in work.parameters.items():
        if isinstance(usual, tuple) and parameter not in chosen:
            raise UsageError(
                f"{claim.workload} is run for several values of {parameter}",
                where=where,
                hint=f"choose one: parameters = {{ {parameter} = {usual[0]} }}",
            )


def _check_counter(series: Series, claim: Claim, expectation: Expectation, where: str) -> None:
    """Raise UsageError for a counter that does not count on an arm's disk, or in the workload."""
    disks = counters.get(expectation.metric).disks
    for arm in filter(None, (*arms_of(claim, expectation), expectation.subtract)):
        machine = series.all_arms[arm].topology or claim.topology
        if disks and topology.get(machine).disk.value not in disks:
            raise UsageError(
                f"{expectation.metric} counts on {' or '.join(disks)} only: "
                f"{machine} has another disk",
                where=where,
                hint="choose another topology, or another metric",
            )
    if not workload.has_marks(claim.workload):
        raise UsageError(
            f"the jobs of {claim.workload} do not mark where their I/O begins and ends",
            where=where,
            hint="add exec_prerun and exec_postrun to the job, as workloads/common.fio.j2 has them",
        )


def _check_simulated(claim: Claim, expectation: Expectation, where: str) -> None:
    """Raise UsageError for a machine model that does not exist, or is too small for the guest."""
    try:
        model = machine_model.get(expectation.machine)
        model.options(expectation.cpus or claim.cpus or model.usual_cpus)
    except UsageError as exc:
        raise UsageError(exc.what, where=where, hint=exc.hint) from exc
    tool = workload.get(claim.workload).tool
    simulated = (
        {"iops", *sim_counts.METRICS} if tool == "fio" else {*metrics.of_workload(claim.workload)}
    )
    known = simulated | {*counters.known()}
    if expectation.metric not in known:
        raise UsageError(
            f"the simulation gives no {expectation.metric}",
            where=where,
            hint=nearest(expectation.metric, known),
        )


def arms_of(claim: Claim, expectation: Expectation) -> tuple[str, ...]:
    """The arms whose values are needed."""
    compared = expectation.compare or claim.compare
    return compared if expectation.bound.is_change else (expectation.arm or compared[1],)


def level_of(expectation: Expectation) -> Level:
    """What kind of evidence an expectation asks for."""
    if expectation.metric in counters.known():
        return Level.MECHANISM
    if expectation.machine:
        return Level.SIMULATED
    exact = expectation.metric in cost.METRICS or expectation.engine == (Engine.EXACT,)
    return Level.COST if exact else Level.WALL
