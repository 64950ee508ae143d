# SPDX-License-Identifier: GPL-2.0-or-later
"""From cells to boots in the store: what is run, parsed, and kept."""
