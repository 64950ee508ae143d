# SPDX-License-Identifier: GPL-2.0-or-later
"""Every test in this folder boots real guests: all get the marker ``vm``, and share a testbed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.progress import Progress
from lab.inputs import profile
from lab.measure import session
from lab.measure.runner import Testbed

FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before pytest itself deselects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark this folder's tests; the hook is called with those of all folders."""
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.vm)


@pytest.fixture(scope="session")
def testbed() -> Testbed:
    """The kernel of the quick profile, built or out of the cache, and proved engines."""
    quick = profile.get("quick")
    return session.prepare(quick.tree, (), quick.kernel, Progress())
