# SPDX-License-Identifier: GPL-2.0-or-later
"""`lab try` on real kernels: data that a control loses is lost by the patches, and named so."""

from __future__ import annotations

from pathlib import Path

from lab.base.errors import ExitCode
from lab.commands import try_answers, try_patches
from lab.commands.try_answers import Kind
from lab.commands.try_patches import Subject
from lab.inputs import profile
from lab.inputs.terms import Engine
from lab.measure import matrix
from lab.measure.boot_store import BootStore
from lab.measure.job import Testbed
from lab.measure.matrix import Selection
from lab.measure.session import Session
from tools import planted


def test_a_lost_write_is_told_and_the_changed_function_named(
    testbed: Testbed, tmp_path: Path
) -> None:
    session = Session(profile.get("quick"), BootStore(tmp_path / "results"), checked=testbed)
    selected = Selection(("raid64_faults",), ("mq-deadline",), ("verify_crc",), cpus=2)
    cells = matrix.cells(session.profile, selected, Engine.EXACT)
    patches = planted.control("lost_write").patches("series")
    (examined,) = try_patches.examine_cells(Subject("", patches), cells, session)
    assert examined.trial.difference.functions == {"blk_mq_submit_bio"}
    assert examined.trial.difference.variables == {"blk_mq_writes"}
    (answer,) = examined.answers
    assert answer.kind is Kind.LOSES_DATA
    assert "blk_mq_submit_bio()" in answer.text
    assert try_answers.exit_code(examined.answers) is ExitCode.REFUTED
