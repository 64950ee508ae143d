# SPDX-License-Identifier: GPL-2.0-or-later
"""How often verdicts by the wall clock err: the judge's own rule on simulated noise; boots nothing.

`python -m tools.error_rates`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import click

from lab.base.stats import Interval, Paired
from lab.base.text import percent
from lab.cli import main
from lab.inputs import profile
from lab.judge.judge import FEWEST
from lab.report import tables
from lab.report.run_record import TableRecord

# What a source of chance makes of so many rounds.
Noise = Callable[[Random, int], list[float]]

# A claim like those of this project: +40 %, held to half of it as a logarithm, and rounds whose
# ratios are spread as those of bfq's readers were (docs/notes/2026-11-verdicts.md).
PUBLISHED = math.log(1.4)
SPREAD = 0.067
# The true change, as a part of what was published. Half of it is the bound.
TRUTHS = (0.0, 0.25, 0.5, 0.75, 1.0, 2.0)
# In one boot of eight what is claimed does not happen (seen of bfq's merges).
_MISSES = 1 / 8
_CORRELATION = 0.3


@click.command()
@click.option("--runs", default=2000, show_default=True, type=click.IntRange(1), help="Runs a row.")
@click.option("--profile", "name", default="quick", show_default=True, help="Rounds and alpha.")
def error_rates(runs: int, name: str) -> None:
    """Count how often the rule for rounds errs, on runs of simulated noise; boot nothing."""
    rounds, alpha = profile.get(name).rounds, profile.get(name).alpha
    click.echo(tables.text(table(list(simulate(runs, rounds, alpha)), alpha)))


@dataclass(frozen=True)
class Rates:
    """The verdicts on runs with one kind of noise and one truth, a part of what was published.

    holds and refuted are numbers of runs, the others stayed open; rounds is the mean number of
    rounds.
    """

    noise: str
    truth: float
    runs: int
    holds: int
    refuted: int
    rounds: float


def simulate(runs: int, most: int, alpha: float) -> Iterator[Rates]:
    """So many runs of each noise and truth, of at most so many rounds each."""
    random = Random(1)
    bound = Interval(math.expm1(PUBLISHED / 2), math.inf)
    for name, noise in _NOISES.items():
        for truth in TRUTHS:
            ended = [
                _run([truth * PUBLISHED + x for x in noise(random, most)], bound, alpha)
                for _ in range(runs)
            ]
            verdicts = [verdict for verdict, _ in ended]
            mean = sum(rounds for _, rounds in ended) / runs
            yield Rates(name, truth, runs, verdicts.count(True), verdicts.count(False), mean)


def table(rates: Sequence[Rates], alpha: float) -> TableRecord:
    """A row for each noise and truth: how often rounds of it were judged how."""
    bound = percent(math.expm1(PUBLISHED / 2), exact=False)
    return TableRecord(
        title=f"Verdicts on simulated rounds: +40 % is claimed, so {bound} is the bound",
        columns=tables.columns("noise", "true change", "HOLDS", "REFUTED", "rounds"),
        rows=tuple(
            (
                row.noise,
                percent(math.expm1(row.truth * PUBLISHED), exact=False),
                f"{100 * row.holds / row.runs:.1f} %",
                f"{100 * row.refuted / row.runs:.1f} %",
                f"{row.rounds:.1f}",
            )
            for row in rates
        ),
        notes=(
            "At the bound either verdict is wrong. The rule promises each in at most "
            f"{100 * alpha / 2:g} % of runs, for noise that is symmetric and independent. "
            f"{rates[0].runs:,} runs a row, noise of {100 * SPREAD:g} %.",
        ),
    )


def _run(ratios: Sequence[float], bound: Interval, alpha: float) -> tuple[bool | None, int]:
    """The verdict of one run, and how many of its rounds were run."""
    for count in range(FEWEST, len(ratios)):
        verdict = Paired(tuple(ratios[:count])).decides(bound, alpha)
        if verdict is not None:
            return verdict, count
    return Paired(tuple(ratios)).decides(bound, alpha), len(ratios)


def _normal(random: Random, rounds: int) -> list[float]:
    return [random.gauss(0, SPREAD) for _ in range(rounds)]


def _heavy_tailed(random: Random, rounds: int) -> list[float]:
    """Student's t with three degrees of freedom, of which the variance is 3."""
    scales = (math.sqrt(random.gammavariate(1.5, 2) / 3) for _ in range(rounds))
    return [random.gauss(0, SPREAD) / scale / math.sqrt(3) for scale in scales]


def _skewed(random: Random, rounds: int) -> list[float]:
    return [SPREAD * (random.expovariate(1) - 1) for _ in range(rounds)]


def _two_modes(random: Random, rounds: int) -> list[float]:
    """Now and then the whole of what is claimed is missing; the mean stays the truth."""
    return [
        x + PUBLISHED * (_MISSES - (random.random() < _MISSES)) for x in _normal(random, rounds)
    ]


def _correlated(random: Random, rounds: int) -> list[float]:
    noise = _normal(random, rounds)
    for place in range(1, rounds):
        independent = math.sqrt(1 - _CORRELATION**2) * noise[place]
        noise[place] = _CORRELATION * noise[place - 1] + independent
    return noise


def _by_session(random: Random, rounds: int) -> list[float]:
    """All rounds of a session are off by the same, by half of what one round is."""
    off = random.gauss(0, SPREAD / 2)
    return [x + off for x in _normal(random, rounds)]


_NOISES: dict[str, Noise] = {
    "normal": _normal,
    "heavy tails": _heavy_tailed,
    "skewed": _skewed,
    "two modes": _two_modes,
    "correlated 0.3": _correlated,
    "by session": _by_session,
}

if __name__ == "__main__":
    main.main(error_rates, "python -m tools.error_rates")
