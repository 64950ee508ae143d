# SPDX-License-Identifier: GPL-2.0-or-later
"""From sources and patches to kernels; from the host's packages to the guest's root."""
