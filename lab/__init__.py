# SPDX-License-Identifier: GPL-2.0-or-later
"""A performance lab for the kernel's block layer: from a patch series to a verdict."""

__version__ = "0.1.0"
