# SPDX-License-Identifier: GPL-2.0-or-later
"""Controls: patches whose verdict is known, judged by all that judges a stranger's."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lab.base.system import data
from lab.inputs import series
from lab.inputs.terms import Verdict
from lab.judge import judge, verdict
from lab.judge.verdict import Judged
from lab.measure.session import Session

FOLDER = data("controls")
# Patches that change nothing; what their claims come to tells how often a change is seen there.
NOTHING = "nothing"
# What the claims of a control must come to. A regression as large as the threshold may be either;
# half of it must not be red, but may be open: the readers' search for a free tag does one of two
# things, and twelve seeds of that were seen to leave it so.
_EXPECTED = {
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
}
# Except for a claim that nothing becomes less.
_SAVES = "saves"
# Controls are judged with so many seeds at most and on all kernels, whatever the profile.
_SEEDS = 12


@dataclass(frozen=True)
class Answer:
    """A control's claim, the verdicts that are right, the one that was found, and why."""

    control: str
    claim: str
    expected: tuple[Verdict, ...]
    found: Verdict
    reason: str

    @property
    def right(self) -> bool:
        """Whether that is what it must come to."""
        return self.found in self.expected


def names() -> list[str]:
    """The names of all controls, sorted."""
    return sorted(path.parent.name for path in FOLDER.glob("*/series.toml"))


def run(session: Session) -> list[Answer]:
    """Build, boot and judge all controls."""
    seeds = max(_SEEDS, session.profile.seeds)
    update = {"seeds": seeds, "without": ()}
    own = replace(session, profile=session.profile.model_copy(update=update))
    judged = judge.judge([series.get(str(FOLDER / name)) for name in names()], own)
    return [answer for one in judged for answer in answers(one)]


def answers(judged: Judged) -> list[Answer]:
    """What the claims of a control came to."""
    name, found = judged.series.name, judged.claims()
    if judged.error:
        return [Answer(name, "", _EXPECTED[name], Verdict.ERROR, judged.error)]
    return [
        Answer(name, claim, _right(name, claim), verdict.of_claim(own), own[0].reason)
        for claim, own in found.items()
    ]


def _right(name: str, claim: str) -> tuple[Verdict, ...]:
    return (Verdict.REFUTED,) if (name, claim) == (NOTHING, _SAVES) else _EXPECTED[name]
