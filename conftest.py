# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes claims pytest items; see lab/cli/pytest_plugin.py."""

pytest_plugins = ["lab.cli.pytest_plugin"]
