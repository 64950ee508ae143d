# SPDX-License-Identifier: GPL-2.0-or-later
"""Attributes of a disk's queue that a user sets."""

from __future__ import annotations

import pytest

from lab.base.errors import GuestError, UsageError
from lab.inputs import queue_settings
from lab.inputs.queue_settings import parse


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("nr_requests=64", ("nr_requests", "64")),
        ("queue/iosched/low_latency=0", ("iosched/low_latency", "0")),
        ("write_cache=write through", ("write_cache", "write through")),
    ],
)
def test_a_setting_is_an_attribute_and_a_value(text: str, setting: tuple[str, str]) -> None:
    assert parse(text) == setting


@pytest.mark.parametrize(
    "text", ["nr_requests", "=64", "nr_requests=", "../size=1", "a=1\nphase x", "a={x}"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not an attribute of the disk's queue"):
        parse(text)


def test_the_scheduler_is_another_option() -> None:
    with pytest.raises(UsageError) as caught:
        parse("scheduler=bfq")
    assert caught.value.hint == "write --scheduler bfq"


def test_what_choosing_a_scheduler_sets_anew_is_written_after_it() -> None:
    settings = [("nr_requests", "64"), ("rotational", "1"), ("iosched/x", "0"), ("nomerges", "2")]
    before, after = (queue_settings.steps(settings, after_scheduler=late) for late in (False, True))
    assert before == ["queue rotational=1", "queue nomerges=2"]
    assert after == ["queue nr_requests=64", "queue iosched/x=0"]


def test_what_the_kernel_made_of_a_setting_is_said() -> None:
    settings = [("nr_requests", "9"), ("nr_requests", "1"), ("nomerges", "2")]
    facts = {"queue/nr_requests": "4", "queue/nomerges": "2"}
    with pytest.raises(GuestError, match="nr_requests=1, of which the kernel made 4") as caught:
        queue_settings.require_taken(settings, facts)
    assert caught.value.outcome == "mismatch"
    queue_settings.require_taken(settings, {**facts, "queue/nr_requests": "1"})
