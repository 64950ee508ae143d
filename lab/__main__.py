# SPDX-License-Identifier: GPL-2.0-or-later
"""``python -m lab``: the command lab where it is not in PATH."""

from __future__ import annotations

from lab.cli.main import main

main()
