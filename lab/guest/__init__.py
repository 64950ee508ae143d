# SPDX-License-Identifier: GPL-2.0-or-later
"""One guest, from its command line to what it sent."""
