# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest must be what its topology says; facts of a recorded guest are the touchstone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from lab.base import toml
from lab.base.errors import GuestError, UsageError
from lab.inputs import topology
from lab.inputs.topology import Topology, require_match

DATA = Path(__file__).parents[1] / "data/facts-raid64.tsv"
FACTS = dict(line.split("\t", 1) for line in DATA.read_text().splitlines())
RAID = topology.get("raid64")


def with_(**changes: object) -> Topology:
    """raid64 with other values."""
    return RAID.model_copy(update=changes)


def test_a_recorded_guest_matches() -> None:
    require_match("raid64", RAID, "bfq", FACTS)


@pytest.mark.parametrize(
    ("fact", "value", "wanted"),
    [
        ("hw_queues", "63", "64"),
        ("hw_queues", "1", "64"),
        ("hw_queues", "128", "64"),
        ("online_cpus", "0", "0-1"),
        ("online_cpus", "0-3", "0-1"),
        ("queue/rotational", "0", "1"),
        ("device/queue_depth", "64", "8"),
        ("queue/scheduler", "none mq-deadline [kyber] bfq", "bfq"),
        ("queue/scheduler", "[none] mq-deadline kyber bfq", "bfq"),
    ],
)
def test_a_guest_that_differs_is_refused(fact: str, value: str, wanted: str) -> None:
    with pytest.raises(GuestError) as caught:
        require_match("raid64", RAID, "bfq", {**FACTS, fact: value})
    assert caught.value.outcome == "mismatch"
    assert f"{fact}: wanted {wanted}, the guest has {value}" in str(caught.value)
    assert "raid64.toml" in str(caught.value)


@pytest.mark.parametrize("fact", ["hw_queues", "queue/rotational", "queue/scheduler"])
def test_a_fact_that_was_not_reported_is_no_match(fact: str) -> None:
    with pytest.raises(GuestError, match=f"{fact}: wanted .*, the guest has nothing"):
        require_match("raid64", RAID, "bfq", {k: v for k, v in FACTS.items() if k != fact})


def test_all_differences_are_named_at_once() -> None:
    with pytest.raises(GuestError, match=r"hw_queues: .*wanted kyber"):
        require_match("raid64", RAID, "kyber", {**FACTS, "hw_queues": "2"})


def test_what_a_topology_expects_in_effect_is_compared() -> None:
    strict = with_(effective={"clocksource": "tsc", "queue/nr_requests": 128})
    require_match("raid64", strict, "bfq", FACTS)
    with pytest.raises(GuestError, match=r"queue/nr_requests: wanted 128, the guest has 256"):
        require_match("raid64", strict, "bfq", {**FACTS, "queue/nr_requests": "256"})


@pytest.mark.parametrize(("cpus", "online"), [(1, "0"), (4, "0-3")])
def test_online_processors_are_written_as_the_kernel_does(cpus: int, online: str) -> None:
    require_match("raid64", with_(cpus=cpus), "bfq", {**FACTS, "online_cpus": online})


@pytest.mark.parametrize(("cpus", "queues", "possible"), [(2, 128, 128), (4, 1, 4), (2, 2, 2)])
def test_possible_processors_cover_queues_and_vcpus(cpus: int, queues: int, possible: int) -> None:
    assert with_(cpus=cpus, hw_queues=queues).possible_cpus == possible


@pytest.mark.parametrize("text", ["x={hw_queue}", "x={}", "x={0}", "x={", "x=}", "x={size_mib.x}"])
def test_a_wrong_placeholder_is_the_users_error(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        RAID.fill(text, 16)
    assert text in str(caught.value)
    assert "{hw_queues}" in str(caught.value)


def test_placeholders_take_queues_and_size() -> None:
    assert RAID.fill("a={hw_queues},b={size_mib}", 16) == "a=64,b=16"
    assert RAID.fill(7, 16) == "7"


def test_settings_are_made_before_they_are_used() -> None:
    assert RAID.setup_steps(16) == [
        "disk scsi scsi_debug",
        "queue rotational=1",
        "device queue_depth=8",
    ]


def test_a_scheduler_is_tuned_when_it_is_chosen_and_read_back() -> None:
    tuned = with_(iosched={"bfq": {"strict_guarantees": 1}})
    assert tuned.scheduler_steps("bfq") == ["scheduler bfq", "queue iosched/strict_guarantees=1"]
    assert tuned.scheduler_steps("none") == ["scheduler none"]
    require_match("raid64", tuned, "bfq", {**FACTS, "queue/iosched/strict_guarantees": "1"})
    with pytest.raises(GuestError, match="queue/iosched/strict_guarantees: wanted 1"):
        require_match("raid64", tuned, "bfq", FACTS)


def test_every_attribute_of_a_null_blk_disk_is_read_back() -> None:
    disk = {"submit_queues": "{hw_queues}", "irqmode": 0, "size": "{size_mib}"}
    made = with_(null_blk=disk)
    got = {**FACTS, "null_blk/submit_queues": "64", "null_blk/irqmode": "0", "null_blk/size": "9"}
    require_match("raid64", made, "bfq", got)
    with pytest.raises(GuestError, match="null_blk/irqmode: wanted 0, the guest has 2"):
        require_match("raid64", made, "bfq", {**got, "null_blk/irqmode": "2"})


def test_a_null_blk_disk_is_made_before_it_is_looked_for() -> None:
    make, find = topology.get("nullb_mq").setup_steps(2048)
    assert make.startswith("null_blk nb ")
    assert {"submit_queues=128", "size=2048", "queue_mode=2", "poll_queues=0"} <= set(make.split())
    assert find == "disk name nb"


@pytest.mark.parametrize("name", toml.names(topology.FOLDER))
def test_every_topology_file_is_valid(name: str) -> None:
    assert topology.get(name).title


def test_an_unknown_topology_gets_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="did you mean 'raid64'"):
        topology.get("raid46")


@pytest.mark.parametrize(
    ("name", "release", "refused"),
    [
        ("nullb_mq", "6.12.117", False),
        ("nullb_mq", "5.19.0-rc1", False),
        ("nullb_mq", "5.18.19", True),
        ("nullb_mq_old", "5.10.262", False),
        ("nullb_mq_old", "5.16", True),
        ("raid64", "5.10.262", False),
    ],
)
def test_a_kernel_that_cannot_have_a_topology_is_refused_in_a_line(
    name: str, release: str, refused: bool
) -> None:
    refusal = topology.get(name).refusal(release, ())
    assert bool(refusal) == refused
    assert "\n" not in refusal
    assert not refused or release in refusal


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        *(("nullb", "null_"), ("nullb_mq_old", "null_"), ("nvme_mq", "nvme_"), ("raid64", "scsi_")),
        ("virtio-blk queues=4", "virtio_"),
    ],
)
def test_the_driver_is_that_of_the_disk(name: str, prefix: str) -> None:
    assert topology.get(name).driver == prefix


def test_a_kernel_without_the_driver_of_a_topology_is_refused() -> None:
    disk = topology.get("disk7200")
    assert "needs the kernel fragment armdisk" in disk.refusal("6.12.117", ("base", "block"))
    assert not disk.refusal("6.12.117", ("base", "block", "armdisk"))


def test_a_version_that_is_none_is_refused() -> None:
    with pytest.raises(ValidationError, match="since"):
        Topology.model_validate({**RAID.model_dump(), "since": "6"})


def test_a_group_of_cgroup_v1_is_made_when_the_disk_is_there() -> None:
    grouped, plain = (topology.get(name) for name in ("nullb_timer_v1", "nullb_timer"))
    made = grouped.setup_steps(64)
    assert made[made.index("disk name nb") + 1 :][0] == "cgroup_v1"
    assert [step for step in made if step != "cgroup_v1"] == plain.setup_steps(64)
    assert (grouped.needs_more_steps, plain.needs_more_steps) == (True, False)
