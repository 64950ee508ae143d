# SPDX-License-Identifier: GPL-2.0-or-later
"""What a function executes, instruction by instruction, out of blocks that overlap."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from lab.measure import insn_counts
from lab.measure.insn_counts import Phase, Symbols

START, END = 0x1000, 0x1040
ADDRESSES = [*range(START, END, 4)]
OTHER = 0x2000
# Where a block begins, how many instructions it has, how often it was executed.
BLOCKS = st.lists(
    st.tuples(st.sampled_from(ADDRESSES), st.integers(1, 20), st.integers(1, 1000)),
    unique_by=lambda block: block[0],
)


def phase(blocks: list[tuple[int, int, int]]) -> Phase:
    return Phase(
        user=0,
        kernel=Counter({start: length * count for start, length, count in blocks}),
        executions={(start, 0): count for start, _, count in blocks},
    )


@given(BLOCKS)
def test_instructions_add_up_to_the_function(blocks: list[tuple[int, int, int]]) -> None:
    measured = phase([*blocks, (OTHER, 3, 5)])
    by_address = insn_counts.by_instruction(measured, ADDRESSES, END)
    names = Symbols((START, END), ("own", "other"))
    assert by_address.total() == insn_counts.by_function(measured, names)["own"]
    assert by_address.keys() <= set(ADDRESSES)


def test_each_instruction_of_a_block_is_executed_as_often_as_the_block() -> None:
    by_address = insn_counts.by_instruction(
        phase([(START, 3, 7), (START + 8, 1, 2)]), ADDRESSES, END
    )
    assert by_address == {START: 7, START + 4: 7, START + 8: 9}


def test_a_block_that_begins_where_the_image_has_no_instruction_counts_for_the_one_before() -> None:
    by_address = insn_counts.by_instruction(phase([(START + 5, 1, 2)]), ADDRESSES, END)
    assert by_address == {START + 4: 2}


def test_a_function_without_instructions_has_no_counts() -> None:
    assert insn_counts.by_instruction(phase([(START, 3, 7)]), [], END) == {}


def test_where_functions_of_one_name_lie() -> None:
    names = Symbols((START, END, OTHER), ("own", "other", "own"))
    assert names.ranges("other") == [(END, OTHER)]
    # Where the last function ends nobody knows.
    assert names.ranges("own") == [(START, END)]


def test_the_kernel_is_entered_by_system_calls_and_by_interrupts() -> None:
    names = ("asm_sysvec_reschedule_ipi", "entry_SYSCALL_64", "asm_common_interrupt", "asm_exc_nmi")
    assert Symbols((0x10, 0x20, 0x30, 0x40), names).entries() == [0x20, 0x10, 0x30]
