# SPDX-License-Identifier: GPL-2.0-or-later
"""Failures of a patched kernel count, those that happen without the patches do not."""

from __future__ import annotations

import pytest

from lab.inputs.terms import Verdict
from lab.judge.blame import blame
from lab.measure.boot_store import Ends

ALPHA = 0.05
STALL = "INFO: rcu_sched self-detected stall on CPU"


def ends(boots: int, **failures: int) -> Ends:
    return Ends(boots, failures, dict.fromkeys(failures, "the-boot"))


def test_without_a_failure_nothing_follows() -> None:
    assert blame(ends(9), ends(9, panic=3), ALPHA) is None


@pytest.mark.parametrize(
    ("patched", "base", "verdict"),
    [
        # Nothing that a guest does by itself: at this rate 80 boots come through in 0.96^80.
        (ends(25, panic=1), ends(80), Verdict.REFUTED),
        (ends(8, panic=1), ends(8), Verdict.INCONCLUSIVE),
        (ends(1, panic=1), ends(1), Verdict.REFUTED),
        (ends(1, panic=1), ends(0), Verdict.INCONCLUSIVE),
        # QEMU and a busy host do so in one of a hundred boots: 2 of 8 are 0.3 %, 1 of 8 is 7.7 %.
        (ends(8, hang=2), ends(8), Verdict.REFUTED),
        (ends(8, hang=1), ends(300), Verdict.INCONCLUSIVE),
        (ends(8, died=2), ends(8), Verdict.REFUTED),
        # Without the patches as well: Fisher's test.
        (ends(8, panic=1), ends(8, panic=1), None),
        (ends(20, hang=4), ends(20, hang=4), None),
        (ends(20, hang=9), ends(20, hang=1), Verdict.REFUTED),
        (ends(20, hang=1), ends(20, panic=1), Verdict.INCONCLUSIVE),
        # A stall may be the host's, and another complaint may not.
        (ends(20, **{STALL: 1}), ends(90), Verdict.INCONCLUSIVE),
        (ends(20, **{"WARNING in bfq_dispatch_request()": 1}), ends(90), Verdict.REFUTED),
    ],
)
def test_failures_are_held_against_those_of_the_base(
    patched: Ends, base: Ends, verdict: Verdict | None
) -> None:
    judgement = blame(patched, base, ALPHA)
    assert judgement is not None
    assert judgement.verdict is verdict
    assert "boot the-boot" in judgement.reason


def test_the_worst_failure_decides() -> None:
    judgement = blame(ends(8, hang=3, panic=1), ends(8, panic=1), ALPHA)
    assert judgement is not None
    assert judgement.verdict is Verdict.REFUTED
    assert judgement.reason.startswith("hang in 3 of 8 boots with the patches, in 0 of 8 without")
