# SPDX-License-Identifier: GPL-2.0-or-later
"""What a person writes: series, topologies, workloads, profiles, counters, kernel options."""
