# SPDX-License-Identifier: GPL-2.0-or-later
"""Options in, exit code out; and claims as pytest items."""
