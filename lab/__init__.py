# SPDX-License-Identifier: GPL-2.0-or-later
"""A performance lab for the kernel's block layer: from a patch series to a verdict.

Ten packages in the order in which the data flows; a package imports only packages before it.

==========  ====================================================================================
`base`      errors, processes, progress, cache, TOML, statistics: knows no kernels and no guests
`inputs`    what a person writes: series, topologies, workloads, profiles, counters, kernel options
`build`     sources and patches to kernels, the host's packages to the guest's root
`guest`     one guest, from its command line to what it sent
`measure`   cells to boots in the store
`fleet`     deterministic guests on many hosts
`judge`     claims to verdicts
`report`    one record of a run, and every text, page and format made from it
`commands`  what a command does beyond judging series
`cli`       options in, exit code out; claims as pytest items
==========  ====================================================================================

``setup`` stands apart: it runs before any dependency is installed.
"""

__version__ = "0.1.0"
