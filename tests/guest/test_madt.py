# SPDX-License-Identifier: GPL-2.0-or-later
"""The MADT is one that a kernel accepts."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.guest import madt

LOCAL_APIC, IO_APIC, OVERRIDE, NMI = 0, 1, 2, 4
CPUS = st.integers(1, 255)


def entries(table: bytes) -> list[bytes]:
    """The interrupt controller structures after header, local APIC address and flags."""
    structures, at = [], 44
    while at < len(table):
        length = table[at + 1]
        assert length >= 2
        structures.append(table[at : at + length])
        at += length
    assert at == len(table)
    return structures


@given(CPUS)
def test_the_header_is_valid(cpus: int) -> None:
    table = madt.table(cpus)
    assert table[:4] == b"APIC"
    assert sum(table) % 256 == 0
    assert struct.unpack_from("<I", table, 4)[0] == len(table)
    assert struct.unpack_from("<I", table, 36)[0] == 0xFEE00000


@given(CPUS)
def test_every_processor_is_listed_once_and_enabled(cpus: int) -> None:
    apics = [entry for entry in entries(madt.table(cpus)) if entry[0] == LOCAL_APIC]
    processors, ids, flags = zip(
        *(struct.unpack("<BBI", entry[2:]) for entry in apics), strict=True
    )
    assert len(ids) == cpus
    assert sorted(processors) == sorted(ids) == list(range(cpus))
    assert set(flags) == {1}


def test_interrupts_are_routed_as_on_qemus_board() -> None:
    remaining = [entry for entry in entries(madt.table(2)) if entry[0] != LOCAL_APIC]
    assert [struct.unpack("<BxII", e[2:]) for e in remaining if e[0] == IO_APIC] == [
        (0, 0xFEC00000, 0)
    ]
    routes = [struct.unpack("<BBIH", entry[2:]) for entry in remaining if entry[0] == OVERRIDE]
    assert routes == [(0, 0, 2, 0), *((0, irq, irq, 0xD) for irq in (5, 9, 10, 11))]
    assert [struct.unpack("<BHB", e[2:]) for e in remaining if e[0] == NMI] == [(0xFF, 0, 1)]


@pytest.mark.parametrize("cpus", [-1, 0, 256, 1000])
def test_a_number_that_does_not_fit_is_refused(cpus: int) -> None:
    with pytest.raises(ValueError, match=str(cpus)):
        madt.table(cpus)
