# SPDX-License-Identifier: GPL-2.0-or-later
"""Only numbers of seeds that are booted as they stand may be written."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from lab.inputs.seeds import SeedCount

SEEDS = TypeAdapter(SeedCount)


@pytest.mark.parametrize("count", [0, 1, 3, 6, 12, 24])
def test_a_number_of_seeds_that_is_booted_is_taken(count: int) -> None:
    assert SEEDS.validate_python(count) == count


@pytest.mark.parametrize(
    ("count", "advice"), [(2, "1 or 3"), (5, "3 or 6"), (13, "12 or 24"), (25, "24"), (-1, "0")]
)
def test_a_number_of_seeds_that_is_never_booted_is_refused(count: int, advice: str) -> None:
    with pytest.raises(ValidationError, match=f"{count} seeds are never booted: write {advice}"):
        SEEDS.validate_python(count)
