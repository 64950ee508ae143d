# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers of seeds as a person writes them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from lab.base.stats import SEED_COUNTS


def _bootable(count: int) -> int:
    """A number of seeds that is booted as it stands. Raises ValueError for any other."""
    counts = (0, 1, *SEED_COUNTS)
    if count not in counts:
        below = [n for n in counts if n < count][-1:]
        above = [n for n in counts if n > count][:1]
        advice = " or ".join(map(str, below + above))
        raise ValueError(f"{count} seeds are never booted: write {advice}")
    return count


SeedCount = Annotated[int, AfterValidator(_bootable)]
