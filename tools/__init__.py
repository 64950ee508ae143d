# SPDX-License-Identifier: GPL-2.0-or-later
"""Tools for developers of the lab; a wheel does not have them."""
