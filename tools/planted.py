# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge patches whose verdicts are known, those of tools/controls, as a stranger's are judged.

`python -m tools.planted` (a part of `make bench`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from lab.base.errors import LabError
from lab.cli import main, options
from lab.inputs import kconfig, series
from lab.inputs.series import Series
from lab.inputs.terms import Verdict
from lab.judge import judge, verdict
from lab.judge.verdict import Judged
from lab.measure.session import Session
from lab.report import tables
from lab.report.run_record import TableRecord
from tools.control import rate_of_calls

FOLDER = Path(__file__).with_name("controls")
# Patches that change nothing: verdicts on them tell how often the lab reports a change there.
NOTHING = "nothing"
# The right verdicts on each control. A regression as large as the threshold may be any of them;
# half of it must not be red, but may be open: the readers' search for a free tag does one of two
# things, and twelve seeds of that were seen to leave it so.
EXPECTED = {
    NOTHING: (Verdict.HOLDS,),
    "planted_half": (Verdict.HOLDS, Verdict.INCONCLUSIVE),
    "planted_once": (Verdict.HOLDS, Verdict.REFUTED, Verdict.INCONCLUSIVE),
    "planted_twice": (Verdict.REFUTED,),
    "hangs": (Verdict.REFUTED,),
    "use_after_free": (Verdict.REFUTED,),
    "lost_write": (Verdict.REFUTED,),
    "double_completion": (Verdict.REFUTED,),
    "switch_deadlock": (Verdict.REFUTED,),
    "stranded": (Verdict.REFUTED,),
    "renamed_lock": (Verdict.REFUTED,),
    "shared_line": (Verdict.REFUTED,),
    "lock_twice": (Verdict.REFUTED,),
}
# Except for these claims: that nothing becomes less, and what the other engine alone sees.
_OF_CLAIM = {
    (NOTHING, "saves"): (Verdict.REFUTED,),
    ("planted_twice", "throughput"): (Verdict.HOLDS,),
    ("shared_line", "instructions"): (Verdict.HOLDS,),
    ("lock_twice", "instructions"): (Verdict.HOLDS,),
}
# Controls are judged with so many seeds at least and on all kernels, whatever the profile.
_SEEDS = 12


@click.command()
@options.measuring
def judge_planted(session: Session) -> None:
    """Judge patches whose verdicts are known, those of tools/controls.

    They change nothing, cost half, once and twice the threshold of a regression, write a line that
    all CPUs share, take a lock twice, lose a bio or a write, corrupt memory, deadlock, and rename a
    lock. Exit code 3: a verdict is wrong.
    """
    answers = judge_controls(session)
    click.echo(tables.text(table(answers)))
    if wrong := [answer for answer in answers if not answer.right]:
        raise LabError(f"{len(wrong)} of {len(answers)} controls have the wrong verdict")


@dataclass(frozen=True)
class ControlAnswer:
    """The verdict on a control's claim, its reason, and the verdicts that are right."""

    control: str
    claim: str
    expected: tuple[Verdict, ...]
    verdict: Verdict
    reason: str

    @property
    def right(self) -> bool:
        """Whether the verdict is right."""
        return self.verdict in self.expected


def names() -> list[str]:
    """The names of all controls, sorted."""
    return sorted(path.parent.name for path in FOLDER.glob("*/series.toml"))


def control(name: str) -> Series:
    """The series of a control, on the kernel that is built soonest."""
    return series.get(str(FOLDER / name)).configured((kconfig.SMALL,))


def judge_controls(session: Session) -> list[ControlAnswer]:
    """Build, boot and judge all controls."""
    seeds = max(_SEEDS, session.profile.seeds)
    profile = session.profile.model_copy(update={"seeds": seeds, "without": ()})
    controls = [control(name) for name in names()]
    verdicts = judge.judge(controls, replace(session, profile=profile))
    return [answer for of_series in verdicts for answer in _answers(of_series)]


def table(answers: Sequence[ControlAnswer]) -> TableRecord:
    """A row for each claim of a control, then how often a change was seen where there is none."""
    same = [
        answer
        for answer in answers
        if answer.control == NOTHING and Verdict.HOLDS in answer.expected
    ]
    return TableRecord(
        title="Patches whose verdict is known",
        columns=tables.texts("control", "claim", "must be", "verdict", ""),
        rows=tuple(map(_row, answers)),
        notes=(
            f"{NOTHING}: {rate_of_calls([answer.verdict is Verdict.REFUTED for answer in same])}",
            *(f"{answer.control}/{answer.claim}: {answer.reason}" for answer in answers),
        ),
    )


def _answers(of_series: Judged) -> list[ControlAnswer]:
    name = of_series.series.name
    if of_series.error:
        return [ControlAnswer(name, "", EXPECTED[name], Verdict.ERROR, of_series.error)]
    return [
        ControlAnswer(
            name,
            claim,
            _OF_CLAIM.get((name, claim), EXPECTED[name]),
            verdict.of_claim(findings),
            findings[0].reason,
        )
        for claim, findings in of_series.claims().items()
    ]


def _row(answer: ControlAnswer) -> tuple[str, ...]:
    # A control that may come to any of three verdicts needs only to be judged.
    must = " or ".join(answer.expected) if len(answer.expected) < 3 else "-"
    wrong = "" if answer.right else "WRONG"
    return answer.control, answer.claim, must, str(answer.verdict), wrong


if __name__ == "__main__":
    main.main(judge_planted, "python -m tools.planted")
