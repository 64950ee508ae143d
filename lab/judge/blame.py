# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether what went wrong with a patched kernel is the patches' doing."""

from __future__ import annotations

from dataclasses import dataclass

from lab.base import stats
from lab.guest import console
from lab.inputs.terms import Verdict
from lab.measure.boot_store import Ends

# How often guests hang or QEMU ends with a kernel that does nothing wrong: at most about once in a
# hundred boots (docs/notes/2026-11-measuring.md).
BACKGROUND = 0.01
# What a busy host or QEMU can do to a guest as well. All else is the kernel's own word.
_NOBODYS = ("hang", "died")


@dataclass(frozen=True)
class Blame:
    """What follows from failures: at best this verdict, and why. None: any verdict, but say so."""

    verdict: Verdict | None
    reason: str


def blame(patched: Ends, base: Ends, alpha: float) -> Blame | None:
    """What follows from how the boots with patches ended, given how those without them did.

    None when nothing went wrong with patches. For each kind of failure the chance is taken that the
    patches change nothing: where the base failed so, too, that so many of the failures are with the
    patches (Fisher's exact test, one-sided); where it never did and the host could be the cause,
    that so many come from what happens anyway (binomial, BACKGROUND); else that the base would
    have come through all its boots at the patches' rate (binomial). The patches are refuted when
    that is at most alpha. Nothing holds of patches with failures that the base does not have.
    """
    candidates = [_of_kind(kind, patched, base, alpha) for kind in sorted(patched.failures)]
    order = [Verdict.REFUTED, Verdict.INCONCLUSIVE, None]
    return min(candidates, key=lambda candidate: order.index(candidate.verdict), default=None)


def _of_kind(kind: str, patched: Ends, base: Ends, alpha: float) -> Blame:
    failed, boots = patched.failures[kind], patched.boots
    before = base.failures.get(kind, 0)
    if before:
        chance = stats.fisher(failed, boots, before, base.boots)
    elif kind in _NOBODYS or console.is_hang(kind):
        chance = stats.at_least(failed, boots, BACKGROUND)
    else:
        chance = (1 - failed / boots) ** base.boots
    summary = (
        f"{kind} in {failed} of {boots} boots with the patches, in {before} of {base.boots} "
        f"without (boot {patched.examples[kind]})"
    )
    if chance <= alpha:
        return Blame(Verdict.REFUTED, summary)
    return Blame(None if before else Verdict.INCONCLUSIVE, f"{summary}: that could be chance")
