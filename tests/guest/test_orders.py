# SPDX-License-Identifier: GPL-2.0-or-later
"""What the agent can send is what its orders let it send."""

from __future__ import annotations

import re

from lab.base.system import PACKAGE
from lab.guest.orders import Orders

AGENT = (PACKAGE / "guest/agent").read_text()


def sent(*steps: str) -> frozenset[str]:
    return Orders(steps, {}).outputs


def test_every_file_of_the_agent_belongs_to_a_step() -> None:
    named = set(re.findall(r"record file \"?([^\s\"]+)", AGENT))
    assert named == {"facts.tsv", "fio.log", "$1.json", "$name.log"}
    logged = re.findall(r"\blogged ([a-z]+) ", AGENT)
    assert logged
    for verb in logged:
        assert sent(f"{verb} words") == {f"{verb}.log"}


def test_a_step_lets_its_own_files_through() -> None:
    assert sent("facts", "fio few") == {"facts.tsv", "fio.log", "few.json"}
    assert sent("phase workload", "queue a=1", "tree 4") == frozenset()
