# SPDX-License-Identifier: GPL-2.0-or-later
"""Sealed guests on many hosts, by dask.distributed."""
