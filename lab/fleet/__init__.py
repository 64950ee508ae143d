# SPDX-License-Identifier: GPL-2.0-or-later
"""Deterministic guests on many hosts, by dask.distributed."""
