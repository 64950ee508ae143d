# SPDX-License-Identifier: GPL-2.0-or-later
"""What has to be measured, with which engine, to answer an expectation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from examples import claim_text as claim
from guests import report

from lab.base.errors import UsageError
from lab.inputs import machine_model, series, topology, workload
from lab.inputs.profile import Block, Profile
from lab.inputs.terms import Engine, Level
from lab.inputs.workload import Value
from lab.judge.experiment import Experiment, fragments, in_rounds
from lab.judge.experiment import experiments as experiments_of
from lab.measure.cell import Cell
from lab.measure.host import Report

PROFILE = Profile(
    title="own",
    kernel=("base",),
    matrix=(Block(topologies=("nullb",), schedulers=("bfq",), workloads=("randread_burst",)),),
    parameters={"randread_burst": {"seconds": 2}, "dbench_xfs": {"clients": (1, 4), "seconds": 8}},
)
IOPS = 'metric = "iops"\nchange = ">= +20%"'
COST = 'metric = "kernel_insns_per_io"\nchange = "<= 0%"'
MOVES = 'metric = "transfers_per_io"\nchange = "<= -20%"'
COUNTER = 'metric = "stable_merges"\nvalue = "== 9"'
SIMULATED = f'{IOPS}\nmachine = "xeon16"'
ARM = '[arms.x]\npatches = "base"\n'
HEAD = 'title = "a title"\norigin = "somewhere"\n'
ARMS = """
[arms.raw]
patches = "base"
topology = "megasas"
[arms.single]
patches = "base"
hw_queues = 1
kernel_parameters = ["a.b=1"]
"""

Write = Callable[..., list[Experiment]]


# What nullb has, and an expectation that says nothing.
CPUS = topology.get("nullb").cpus
USUAL = report(Engine.TCG, Engine.EXACT, Engine.SIM)


def dbench(clients: int) -> str:
    return f'metric = "amean_ms"\nchange = "<= -5%"\nparameters = {{ clients = {clients} }}'


def of_dbench(*expectations: str, **options: str) -> str:
    """A claim about dbench with expectations."""
    return claim(*expectations, topology="raid64", work="dbench_xfs", **options)


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """A function: claims as text, host, profile -> the experiments of a series with these."""
    monkeypatch.setattr(series, "FOLDER", tmp_path)
    (tmp_path / "own").mkdir()

    def write(
        *claims: str, host: Report = USUAL, profile: Profile = PROFILE, host_time: bool = True
    ) -> list[Experiment]:
        (tmp_path / "own/series.toml").write_text(HEAD + ARMS + "".join(claims))
        patch_series = series.get("own")
        return experiments_of(patch_series, profile, host, host_time=host_time)

    return write


def cells(experiment: Experiment) -> list[Cell]:
    return [side.cell for side in experiment.sides]


def parameters(experiment: Experiment) -> dict[str, Value]:
    (chosen,) = {cell.parameters for cell in cells(experiment)}
    assert list(chosen) == sorted(chosen)
    return dict(chosen)


@pytest.mark.parametrize(
    ("expectation", "level", "engine", "cpus"),
    [
        (IOPS, Level.WALL, Engine.TCG, CPUS),
        (COST, Level.COST, Engine.EXACT, 1),
        (COUNTER, Level.MECHANISM, Engine.EXACT, CPUS),
        (f'{IOPS}\nengine = ["exact"]', Level.COST, Engine.EXACT, CPUS),
        (f"{COST}\ncpus = 4", Level.COST, Engine.EXACT, 4),
        (f"{IOPS}\ncpus = 4", Level.WALL, Engine.TCG, 4),
        (SIMULATED, Level.SIMULATED, Engine.SIM, 16),
        (f'{IOPS}\nmachine = "arm128"\ncpus = 64', Level.SIMULATED, Engine.SIM, 64),
        (f'{MOVES}\nmachine = "haswell4"', Level.SIMULATED, Engine.SIM, 8),
        (f'{COUNTER}\nmachine = "xeon16"', Level.MECHANISM, Engine.SIM, 16),
    ],
)
def test_a_metric_decides_on_level_engine_and_cpus(
    ask: Write, expectation: str, level: Level, engine: Engine, cpus: int
) -> None:
    (experiment,) = ask(claim(expectation))
    assert (experiment.level, experiment.engine, experiment.lacking) == (level, engine, "")
    assert {(cell.engine, cell.cpus) for cell in cells(experiment)} == {(engine, cpus)}
    assert experiment.timed == (level is Level.WALL)
    assert experiment.runs


def test_a_claims_cpus_are_those_of_its_expectations(ask: Write) -> None:
    experiments = ask(claim(IOPS, COST, f"{IOPS}\ncpus = 4", more="cpus = 8"))
    assert [cells(experiment)[0].cpus for experiment in experiments] == [8, 8, 4]


def test_wall_clock_is_kvms_where_it_works(ask: Write) -> None:
    (experiment,) = ask(claim(IOPS), host=report(*Engine))
    assert (experiment.engine, experiment.lacking) == (Engine.KVM, "")


@pytest.mark.parametrize(
    ("expectation", "host", "said"),
    [
        (COST, report(Engine.TCG), "needs the engine exact; on this host: why exact"),
        (IOPS, report(Engine.EXACT), "needs the engine kvm or tcg; on this host: why kvm"),
        (f'{IOPS}\nengine = ["kvm"]', USUAL, "needs the engine kvm; on this host: why kvm"),
        (SIMULATED, report(Engine.TCG), "needs the engine sim; on this host: why sim"),
    ],
)
def test_without_its_engine_a_question_lacks_it_and_does_not_run(
    ask: Write, expectation: str, host: Report, said: str
) -> None:
    (experiment,) = ask(claim(expectation), host=host)
    assert experiment.lacking == said
    assert not experiment.runs


def test_too_few_host_cpus_are_lacking_but_do_not_keep_it_from_running(ask: Write) -> None:
    text = claim(f"{IOPS}\nneeds_cpus = 16")
    (few,), (enough,) = ask(text), ask(text, host=report(Engine.TCG, cpus=16))
    assert few.lacking == "needs 16 host CPUs, not 2"
    assert few.runs
    assert enough.lacking == ""


def test_a_change_compares_two_arms_and_a_value_has_one(ask: Write) -> None:
    experiments = ask(
        claim(IOPS, COUNTER, f'{COUNTER}\narm = "single"', f'{IOPS}\ncompare = ["raw", "after"]'),
        claim(IOPS, COUNTER, name="two", more='compare = ["single", "before"]'),
    )
    assert [experiment.arms for experiment in experiments] == [
        ("before", "after"),
        ("after",),
        ("single",),
        ("raw", "after"),
        ("single", "before"),
        ("before",),
    ]
    assert [experiment.claim for experiment in experiments] == ["one"] * 4 + ["two"] * 2


def test_an_arm_brings_its_own_hardware(ask: Write) -> None:
    (experiment,) = ask(claim(f'{IOPS}\ncompare = ["raw", "single"]'))
    raw, single = cells(experiment)
    assert (raw.topology, raw.hw_queues, raw.kernel_parameters) == (
        *("megasas", topology.get("megasas").hw_queues, ()),
    )
    assert (single.topology, single.hw_queues, single.kernel_parameters) == ("nullb", 1, ("a.b=1",))


def test_an_arm_may_be_what_the_others_are_compared_over(ask: Write) -> None:
    free = '[arms.none]\npatches = "base"\nscheduler = "none"\n'
    (experiment,) = ask(claim(f'{COST}\nsubtract = "none"', more="seeds = 3") + free)
    assert experiment.arms == ("before", "after")
    assert [side.arm for side in experiment.booted] == ["before", "after", "none"]
    assert [side.cell.scheduler for side in experiment.booted] == ["bfq", "bfq", "none"]
    assert experiment.conditions["subtract"] == "none"


def test_a_debug_check_is_skipped_where_no_debug_kernel_is_built(ask: Write) -> None:
    wanted = claim(
        'metric = "requests"\nvalue = ">= 1"', topology="raid64_faults", work="verify_switching"
    )
    (experiment,) = ask(wanted)
    assert not experiment.skipped
    (cell,) = cells(experiment)
    kernel_fragments = fragments(series.get("own"), cell)
    assert kernel_fragments == (*series.get("own").kernel, "debug")
    (experiment,) = ask(wanted, profile=PROFILE.model_copy(update={"without": ("debug",)}))
    assert "no kernel with debug" in experiment.skipped


def test_the_nearest_parameter_wins(ask: Write) -> None:
    expectation = f"{IOPS}\nparameters = {{ numjobs = 3 }}"
    first, second = ask(claim(IOPS, expectation, more="parameters = { numjobs = 7 }"))
    (usual,) = ask(claim(IOPS))
    assert [parameters(experiment)["numjobs"] for experiment in (usual, first, second)] == [
        10,
        7,
        3,
    ]
    assert [parameters(experiment)["seconds"] for experiment in (usual, first, second)] == [2, 2, 2]
    assert parameters(usual)["ramp_seconds"] == 2


def test_what_the_profile_does_not_sweep_is_left_out(ask: Write) -> None:
    experiments = ask(of_dbench(dbench(4), dbench(512)))
    assert [experiment.skipped for experiment in experiments] == [
        "",
        "the profile leaves out clients=512",
    ]
    assert [experiment.runs for experiment in experiments] == [True, False]
    assert parameters(experiments[0])["clients"] == 4
    assert cells(experiments[0])[0].sweep(experiments[0].swept) == "clients=4"


def test_without_a_profiles_choice_the_workloads_own_values_count(ask: Write) -> None:
    plain = PROFILE.model_copy(update={"parameters": {}})
    text = of_dbench(dbench(512), dbench(5))
    experiments = ask(text, profile=plain)
    assert [experiment.skipped for experiment in experiments] == [
        "",
        "the profile leaves out clients=5",
    ]


def test_a_parameter_that_the_profile_sweeps_has_to_be_chosen(ask: Write) -> None:
    swept = PROFILE.model_copy(update={"parameters": {"randread_burst": {"numjobs": (2, 4)}}})
    with pytest.raises(UsageError, match="several values of numjobs"):
        ask(claim(IOPS), profile=swept)
    (experiment,) = ask(claim(IOPS, more="parameters = { numjobs = 4 }"), profile=swept)
    assert (parameters(experiment)["numjobs"], experiment.skipped) == (4, "")


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        (claim(IOPS, topology="nulb"), "claims.one", "'nullb'"),
        (claim(IOPS).replace('"bfq"', '"bqf"'), "claims.one", "'bfq'"),
        (claim(IOPS, work="randread_brust"), "claims.one", "'randread_burst'"),
        (claim(IOPS).replace("iops", "iopss"), "claims.one.expect.0", "'iops'"),
        (claim(IOPS, COUNTER.replace("stable", "stabel")), "expect.1", "'stable_merges'"),
        (claim(IOPS, more="parameters = { numjbos = 2 }"), "expect.0", "'numjobs'"),
        (claim(IOPS, f"{IOPS}\nparameters = {{ secnds = 2 }}"), "expect.1", "'seconds'"),
        (claim(IOPS, more='parameters = { seconds = "x" }'), "expect.0", "is a number"),
        (claim(f'{COST}\nengine = ["exact", "tcg"]'), "expect.0", "only the engine exact"),
        (claim(f'{COUNTER}\nengine = ["tcg"]'), "expect.0", "only the engine exact"),
        (
            claim(f'{COUNTER}\narm = "raw"'.replace("stable_merges", "sequential")),
            "expect.0",
            "counts on armdisk only: megasas has another disk",
        ),
        (claim(f'{COUNTER}\narm = "befor"'), "expect.0", "'before'"),
        (claim(IOPS, more='compare = ["before", "aftr"]'), "expect.0", "'after'"),
        (claim(f'{IOPS}\ncompare = ["rwa", "after"]'), "expect.0", "'raw'"),
        (claim(IOPS) + f'{ARM}topology = "nul"', "arms.x.topology", "'nullb'"),
        (claim(IOPS, topology="null_blk x=y z"), "claims.one", "write NAME=VALUE"),
        (claim(IOPS) + f'{ARM}topology = "nvme queue=2"', "arms.x.topology", "'queues'"),
        (claim(IOPS) + '[arms.x]\npatches = "rival"', "arms.x.patches", "that has patches"),
        (claim(IOPS) + f'{ARM}scheduler = "bqf"', "arms.x", "'bfq'"),
        (claim(f'{COST}\nsubtract = "rwa"', more="seeds = 3"), "expect.0", "'raw'"),
        (claim(f'{COST}\nsubtract = "raw"'), "expect.0", "several seeds"),
        (claim(f'{IOPS}\nsubtract = "raw"', more="seeds = 3"), "expect.0", "deterministic engine"),
        (of_dbench(dbench(4).replace("amean", "amen")), "expect.0", "'amean_ms'"),
        (
            of_dbench(IOPS, more="parameters = { clients = 1 }"),
            "expect.0",
            "dbench_xfs has no metric 'iops'",
        ),
        (of_dbench(dbench(4).partition("\nparam")[0]), "expect.0", "parameters = { clients = 1 }"),
        (claim(f'{IOPS}\nmachine = "xeon61"'), "expect.0", "no machine model is called 'xeon61'"),
        (claim(f"{SIMULATED}\ncpus = 17"), "expect.0", "17 vCPUs has no place"),
        (claim(f'{COST}\nmachine = "xeon16"'), "expect.0", "gives no kernel_insns_per_io"),
        (claim(f'{SIMULATED}\nengine = ["exact"]'), "expect.0", "for the engine sim alone"),
        (claim(f"{SIMULATED}\nneeds_cpus = 4"), "expect.0", "about the host"),
    ],
)
def test_what_does_not_exist_is_an_error_with_its_place_and_the_nearest_name(
    ask: Write, tmp_path: Path, text: str, place: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        ask(text)
    assert hint in str(caught.value)
    assert str(tmp_path / "own/series.toml") in caught.value.where
    assert place in caught.value.where


def test_a_device_line_stands_for_a_topology(ask: Write) -> None:
    device, other = "null_blk submit_queues=2", "null_blk submit_queues=8"
    arms = f'[arms.wide]\npatches = "base"\ntopology = "{other}"\n'
    (experiment,) = ask(claim(f'{IOPS}\ncompare = ["wide", "after"]', topology=device) + arms)
    assert [cell.topology for cell in cells(experiment)] == [other, device]
    assert [cell.hw_queues for cell in cells(experiment)] == [8, 2]


@pytest.mark.parametrize(
    ("disk", "added"),
    [
        ("nullb", ()),
        ("disk7200", ()),  # armdisk is among a series' usual fragments
        ("null_blk + md raid0 2", ("md",)),
        ("null_blk zoned=1", ("zoned",)),
    ],
)
def test_a_series_kernels_have_what_its_disks_need(
    ask: Write, disk: str, added: tuple[str, ...]
) -> None:
    (experiment,) = ask(claim(COST, topology=disk).replace('"bfq"', '"none"'))
    own = series.get("own")
    assert fragments(own, experiment.sides[0].cell) == (*own.kernel, *added)


def test_all_that_is_counted_in_one_cell_is_counted_in_one_boot(ask: Write) -> None:
    locks = 'metric = "lock_acquisitions"\nchange = "<= -50%"'
    after, locked, wide, timed, cost = ask(
        claim(COUNTER, locks, f"{COUNTER}\ncpus = 4", IOPS, COST)
    )
    both = ("lock_acquisitions", "stable_merges")
    assert cells(after)[0].counters == both
    assert [cell.counters for cell in cells(locked)] == [("lock_acquisitions",), both]
    assert cells(after)[0] == cells(locked)[1]
    assert cells(wide)[0].counters == ("stable_merges",)
    assert [cell.counters for cell in (*cells(timed), *cells(cost))] == [()] * 4
    assert [cell.cost for cell in (*cells(locked), *cells(cost))] == [False, False, True, True]


def test_dbench_is_counted_in_the_boot_that_gives_its_time(ask: Write) -> None:
    time = f'{dbench(4)}\nengine = ["exact"]'
    runs = time.replace("amean_ms", "hctx_runs")
    timed, counted = ask(of_dbench(time, runs))
    assert cells(timed) == cells(counted)
    assert [(cell.counters, cell.cost) for cell in cells(counted)] == [(("hctx_runs",), True)] * 2


def test_jobs_without_marks_are_not_counted(
    ask: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "FOLDER", tmp_path)
    (tmp_path / "bare.toml").write_text("title = 't'\ntool = 'fio'\nmetric = 'iops'\n")
    job = tmp_path / "bare.fio.j2"
    job.write_text("[a]\n")
    with pytest.raises(UsageError, match="the jobs of bare do not mark") as caught:
        ask(claim(COUNTER, work="bare"))
    assert "claims.one.expect.0" in caught.value.where
    ask(claim(IOPS, work="bare"))
    job.write_text("[a]\nexec_prerun=hostname lab\nexec_postrun=hostname lab\n")
    ask(claim(COUNTER, work="bare"))


def test_equal_expectations_are_questions_of_their_own(ask: Write) -> None:
    first, second = ask(claim(IOPS, IOPS))
    assert first.sides == second.sides
    assert len({first, second}) == 2


def rounds_of(experiments: list[Experiment]) -> list[list[str]]:
    return [[side.arm for side in sides] for _, sides in in_rounds(experiments)]


RAW = f'{IOPS}\ncompare = ["raw", "after"]'
SINGLE = f'{IOPS}\ncompare = ["single", "raw"]'
LATENCY = 'metric = "lat_mean_ms"\nchange = "<= -5%"'


@pytest.mark.parametrize(
    ("claims", "arms"),
    [
        ([claim(IOPS, RAW, SINGLE)], ["before", "after", "raw", "single"]),
        ([claim(IOPS, LATENCY), claim(IOPS, name="two")], ["before", "after"]),
        ([claim('metric = "iops"\nvalue = ">= 1000"')], ["after"]),
    ],
    ids=["in turn", "equal cells of claims once", "a value alone"],
)
def test_arms_of_the_same_conditions_are_booted_in_the_same_rounds(
    ask: Write, claims: list[str], arms: list[str]
) -> None:
    assert rounds_of(ask(*claims)) == [arms]


@pytest.mark.parametrize(
    "claim_text",
    [
        claim(IOPS, name="two", topology="megasas"),
        claim(IOPS, name="two", work="randwrite_uring"),
        claim(IOPS, name="two", more="cpus = 4"),
        claim(IOPS, name="two", more="parameters = { numjobs = 2 }"),
        claim(IOPS, name="two").replace('"bfq"', '"kyber"'),
    ],
    ids=["topology", "workload", "cpus", "parameters", "scheduler"],
)
def test_other_conditions_are_trials_of_their_own(ask: Write, claim_text: str) -> None:
    experiments = ask(claim(IOPS), claim_text)
    assert rounds_of(experiments) == [["before", "after"]] * 2
    for _, sides in in_rounds(experiments):
        conditions = {
            (s.cell.topology, s.cell.workload, s.cell.scheduler, s.cell.parameters) for s in sides
        }
        assert len(conditions) == 1


def test_a_series_may_bring_an_io_scheduler_of_its_own(tmp_path: Path, ask: Write) -> None:
    claim_text = claim(IOPS).replace('scheduler = "bfq"', 'scheduler = "mine"')
    with pytest.raises(UsageError, match="no I/O scheduler is called 'mine'"):
        ask(claim_text)
    path = tmp_path / "own/series.toml"
    path.write_text('schedulers = ["mine"]\n' + path.read_text())
    (experiment,) = experiments_of(series.get("own"), PROFILE, USUAL)
    assert experiment.sides[0].cell.scheduler == "mine"


def test_the_wall_clock_of_an_emulator_is_measured_only_where_it_is_asked_for(ask: Write) -> None:
    (experiment,) = ask(claim(IOPS), host_time=False)
    assert experiment.skipped == "the wall clock of tcg is the emulator's; --host-time measures it"
    assert not experiment.runs
    (experiment,) = ask(claim(IOPS), host=report(Engine.KVM, Engine.TCG), host_time=False)
    assert experiment.runs
    for expectation in (COST, COUNTER, SIMULATED):
        assert all(experiment.runs for experiment in ask(claim(expectation), host_time=False))


def test_what_is_simulated_is_also_asked_with_other_costs(ask: Write) -> None:
    (experiment,) = ask(claim(SIMULATED))
    assert [cell.variants for cell in cells(experiment)] == [tuple(machine_model.SENSITIVITY)] * 2
    (counted,) = ask(claim(f'{COUNTER}\nmachine = "xeon16"'))
    assert {cell.variants for cell in cells(counted)} == {()}


def test_a_claim_asks_for_seeds_and_an_expectation_for_more(ask: Write) -> None:
    experiments = ask(claim(f"{COST}\nseeds = 6", COST, COUNTER, more="seeds = 3"))
    assert [experiment.seed_counts for experiment in experiments] == [(3, 6), (3,), (3,)]


def test_a_claim_may_have_a_fio_line_of_its_own(ask: Write) -> None:
    text = claim(COST, COUNTER).replace(
        'workload = "randread_burst"', 'fio = "fio --rw=randread --bs=4k --numjobs=3"'
    )
    for experiment in ask(text):
        assert experiment.workload.startswith("randread-")
        assert dict(cells(experiment)[0].parameters)["numjobs"] == 3


@pytest.mark.parametrize(
    ("work", "message"),
    [
        ('fio = "--rw=read --frob=1"', "Bad option <frob=1>"),
        ('fio = "--rw=read"\nworkload = "randread_burst"', "either workload or fio"),
        ('fio = "--rw=read --ioengine=io_uring_cmd"', "NVMe character device"),
    ],
)
def test_a_claims_line_that_cannot_be_measured_is_told(ask: Write, work: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        ask(claim(COST).replace('workload = "randread_burst"', work))
    assert "series.toml" in caught.value.where
