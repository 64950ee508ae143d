# SPDX-License-Identifier: GPL-2.0-or-later
"""What knows nothing of kernels or guests: errors, processes, progress, cache, TOML, statistics."""
