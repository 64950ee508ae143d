# SPDX-License-Identifier: GPL-2.0-or-later
"""What a dry run says is what a real run would do, and it does nothing of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import invoke

from lab.base import system
from lab.base.errors import UsageError
from lab.build import trust
from lab.commands import dry_run
from lab.inputs import profile, series
from lab.measure.durations import Durations

QUICK = profile.get("quick").model_copy(update={"checks": True})
BFQ = series.get("bfq_burst_merge")
PLAIN = series.get("async_depth")
MAILED = str(Path(__file__).parents[1] / "data/mailed-series.mbox")


def text_of(*args: Any, **how: Any) -> str:
    return dry_run.of_series(*args, **how).text


@pytest.fixture(autouse=True)
def _nothing_installed_and_no_kvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(system, "KVM", Path("/dev/null/kvm"))


def test_every_series_can_be_planned_without_a_program_or_a_source() -> None:
    text = text_of([series.get(name) for name in series.known()], QUICK)
    for name in series.known():
        assert f"{name}: " in text
    assert max(map(len, text.splitlines())) <= 80
    assert " boots. Nothing was built or booted. A real run" in " ".join(text.split())


def test_kernels_are_told_by_arm_with_their_patches() -> None:
    text = text_of([BFQ], QUICK)
    for line in (
        "source   debian:6.12, with base, block, filesystems, buffer_heads, armdisk,\n    distro",
        "kernel   before, none: 1 patch",
        "kernel   after: 2 patches",
    ):
        assert f"  {line}\n" in text
    assert "  kernel   before: 0 patches\n" in text_of([PLAIN], QUICK)


def test_the_debug_kernel_is_planned_where_a_check_needs_it() -> None:
    assert "  kernel   before: 0 patches, debug\n" in text_of([PLAIN], profile.get("standard"))
    assert "debug\n" not in text_of([PLAIN], QUICK)


def test_boots_follow_the_profile_and_what_a_claim_wants_more() -> None:
    planned = [line.split(maxsplit=2) for line in table("bfq_burst_merge")]
    boots = [(count, engine, " ".join(rest.split())) for count, engine, rest in planned]
    # Three seeds of two arms.
    assert ("6", "exact", "before, after nullb bfq randread_burst gtod_reduce=1") in boots
    assert ("6", "sim", "before, after nullb bfq randread_burst haswell4, 8 vCPUs") in boots
    assert "tcg" not in {engine for _, engine, _ in boots}


def test_cells_that_differ_in_parameters_are_told_apart() -> None:
    text = text_of([BFQ], QUICK)
    rows = " ".join(text.split())
    assert "randread_burst apart_ms=400" in rows
    assert "disk_reads block_kib=512 pattern=read prio=3, 2 vCPUs" in rows
    dbench = text_of([series.get("mq_sq_dispatch_5_10")], profile.get("dbench"))
    assert all(f"clients={n}" in dbench for n in (1, 8, 64))


def test_how_long_it_takes_follows_the_boots_of_before() -> None:
    kinds = [("nullb", "randread_burst", "exact", cpus) for cpus in (1, 2, 12)]
    slow, fast = (
        text_of([BFQ], QUICK, durations=Durations(dict.fromkeys(kinds, seconds)))
        for seconds in (6000.0, 6.0)
    )
    assert " h " in slow.partition("That takes")[2]
    assert " h " not in fast.partition("That takes")[2]
    assert "as on two cores" in " ".join(text_of([BFQ], QUICK).split())


def test_rounds_are_those_that_it_takes_at_most() -> None:
    (timed,) = (line for line in table("bfq_burst_merge", host_time=True) if "<=" in line)
    assert timed.split()[0] == str(2 * QUICK.rounds)
    assert f"randread_burst, 2 vCPUs, <= {QUICK.rounds}" in timed


def test_only_the_claims_that_are_wanted_are_planned() -> None:
    lines = table("bfq_burst_merge", ("bfq_burst_merge", "other_schedulers"))
    assert len(lines) == 1
    assert "mq-deadline" in lines[0]


def test_a_control_without_patches_compares_nothing() -> None:
    claims = [("bfq_burst_merge", "other_schedulers")]
    text = text_of([series.no_op(BFQ)], QUICK, claims=claims)
    assert "\n0 boots. Nothing was built or booted." in text


def test_a_dry_run_leaves_nothing_behind(tmp_path: Path) -> None:
    done = invoke("run", "--dry-run")
    assert " boots. Nothing was built or booted." in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", [["bfq_burst_merg"], ["bfq_burst_merge", "--claim", "other_scheduler"]]
)
def test_a_dry_run_finds_mistakes(words: list[str]) -> None:
    with pytest.raises(UsageError, match="is called"):
        invoke("run", "--dry-run", *words)


def table(name: str, *claims: tuple[str, str], host_time: bool = False) -> list[str]:
    """The lines of the table of boots."""
    text = text_of([series.get(name)], QUICK, claims=claims, host_time=host_time)
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if set(line.strip()) == {"─"})
    return [line for line in lines[start + 1 : lines.index("", start)] if line.split()[0].isdigit()]


GATE = """
schedulers = ["none", "bfq"]
workloads = ["randread_burst"]
topologies = ["nullb"]
[branches.next]
source = "git:linux@next"
baseline = "git:linux@v6.12"
"""


@pytest.mark.parametrize(
    ("words", "kernels", "boots"),
    [
        (["matrix", "--topology", "nullb", "--engine", "exact"], 1, 12),
        (["try", MAILED, "--topology", "nullb"], 2, 12 * 2 * 3),
        (["try", MAILED, "--topology", "nullb", "--each"], 3, 12 * 3 * 3),
        (["gate", "gate.toml"], 2, 2 * 2 * 3),
    ],
)
def test_what_measures_says_before_what_it_would_do(
    words: list[str], kernels: int, boots: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gate.toml").write_text(GATE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trust, "require", lambda *_: None)
    done = invoke(*words, "--dry-run")
    lines = [line for line in done.output.splitlines() if line.startswith("  kernel   ")]
    assert len(lines) == kernels
    assert f"\n{boots} boots. Nothing was built or booted." in done.output
    assert not any((tmp_path / name).exists() for name in ("results/boots", "cache/kernels"))
