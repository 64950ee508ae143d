# SPDX-License-Identifier: GPL-2.0-or-later
"""Bounds: what an expectation allows, what was published, and what a known miss measured."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator

from lab.base.stats import Interval

_NUMBER = r"([+-]?\d+(?:\.\d+)?)\s*(%?)"
_ONE_SIDED = re.compile(rf"\s*(>=|<=|==)\s*{_NUMBER}\s*")
_RANGE = re.compile(rf"\s*{_NUMBER}\s*\.\.\s*{_NUMBER}\s*")
_EXACTLY = re.compile(rf"\s*{_NUMBER}\s*")


@dataclass(frozen=True)
class Bound:
    """From min to max, both included; an end that is None is open.

    With the unit ``%`` it bounds a relative change, and its ends are fractions: 0.2 for 20 %.
    Without a unit it bounds a value, in the unit of the metric.
    """

    min: float | None
    max: float | None
    unit: Literal["%", ""] = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``>= X``, ``<= X``, ``== X`` or ``X .. Y``. Raises ValueError for anything else."""
        if match := _ONE_SIDED.fullmatch(text):
            numbers, signs = [float(match[2])], {match[3]}
        elif match := _RANGE.fullmatch(text):
            numbers, signs = [float(match[1]), float(match[3])], {match[2], match[4]}
        else:
            raise ValueError(
                f"not a bound: {text!r}; write for example '>= +20%', '-1% .. +1%' or '== 9'"
            )
        if len(signs) > 1:
            raise ValueError(f"{text!r}: a change is in percent, a value is not")
        percent = "%" in signs
        ends = [number / 100 if percent else number for number in numbers]
        low = None if match[1] == "<=" else ends[0]
        high = None if match[1] == ">=" else ends[-1]
        if low is not None and high is not None and low > high:
            raise ValueError(f"{text!r}: the first number is the larger one")
        return cls(low, high, "%" if percent else "")

    @classmethod
    def parse_change(cls, text: str) -> Self:
        """Read a change as it was published, ``+40%`` or ``-8% .. +20%``."""
        if not (_EXACTLY.fullmatch(text) or _RANGE.fullmatch(text)):
            raise ValueError(f"not a change: {text!r}; write '+40%' or '-8% .. +20%'")
        return cls.parse(text if ".." in text else f"== {text}").of("%", text)

    def of(self, unit: str, text: str) -> Self:
        """Raise ValueError unless the bound has the unit, and return it; text is its source."""
        if self.unit != unit:
            raise ValueError(f"{text!r}: a change is in percent, a value is not")
        return self

    @property
    def is_change(self) -> bool:
        """Whether it bounds a relative change, not a value."""
        return self.unit == "%"

    @property
    def interval(self) -> Interval:
        """The same with infinite ends, to compute with."""
        return Interval(
            -math.inf if self.min is None else self.min, math.inf if self.max is None else self.max
        )

    @property
    def ends(self) -> tuple[float, ...]:
        """The finite ends, each once."""
        return tuple(dict.fromkeys(end for end in (self.min, self.max) if end is not None))

    def __str__(self) -> str:
        """The bound as text: the one way in which the lab writes it, and ``parse`` reads it."""
        if self.min is None or self.max is None:
            relation = "<=" if self.min is None else ">="
            return " ".join((relation, *map(self._number, self.ends)))
        if self.min == self.max:
            return f"== {self._number(self.min)}"
        return f"{self._number(self.min)} .. {self._number(self.max)}"

    def _number(self, end: float) -> str:
        """An end as in a series file: never with an exponent; a change has a sign and no blank."""
        if not self.is_change:
            return f"{Decimal(repr(end)).normalize():f}"
        shown = Decimal(f"{100 * end:.15g}").normalize()
        return f"{shown:+f}%" if shown else "0%"


# The bounds that follow from the lab's rule (docs/verdicts.md), in words.
HALF, NOTHING = "half of published", "no change"
_NO_CHANGE = Bound(-0.05, 0.05, "%")


def half_of(change: float) -> Bound:
    """The bound for a published change, a fraction: at least half of it, as a logarithm, rounded up
    to the tenth of a per cent, or to two digits where it is less than one; that of no change for 0.
    """
    if not change:
        return _NO_CHANGE
    half = math.sqrt(1 + change) - 1
    scale = 10 ** max(3, 1 - math.floor(math.log10(abs(half))))
    end = math.copysign(math.ceil(round(scale * abs(half), 6)) / scale, half)
    return Bound(end, None, "%") if change > 0 else Bound(None, end, "%")


def _change(text: str) -> Bound | str:
    """A bound on a change as it is written; HALF as it is, for it needs the published figure."""
    if text == HALF:
        return text
    return _NO_CHANGE if text == NOTHING else Bound.parse(text).of("%", text)


def _read(parse: Callable[[str], Bound | str]) -> BeforeValidator:
    """What makes a bound of the text in a file, once; a record has the bound itself."""
    return BeforeValidator(
        lambda value: parse(value) if isinstance(value, str) else value,
        json_schema_input_type=str | Bound,
    )


# Keys of a series file: any bound, one on a change, one on a value, and a change.
WrittenBound = Annotated[Bound, _read(Bound.parse)]
ChangeBound = Annotated[Bound | Literal["half of published"], _read(_change)]
ValueBound = Annotated[Bound, _read(lambda text: Bound.parse(text).of("", text))]
PublishedChange = Annotated[Bound, _read(Bound.parse_change)]
