# SPDX-License-Identifier: GPL-2.0-or-later
"""One record of a run, and every text, page and format made from it."""
