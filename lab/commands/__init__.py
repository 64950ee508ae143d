# SPDX-License-Identifier: GPL-2.0-or-later
"""What a command does beyond judging series."""
