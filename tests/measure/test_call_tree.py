# SPDX-License-Identifier: GPL-2.0-or-later
"""Call trees: what the plugin wrote of stacks, for one I/O."""

from __future__ import annotations

import pytest

from lab.base.errors import GuestError
from lab.measure import call_tree
from lab.measure.call_tree import CallTree, Node
from lab.measure.insn_counts import Symbols

NAMES = Symbols((0x100, 0x200, 0x300, 0x400), ("entry_SYSCALL_64", "submit", "alloc", "idle"))
# entry -> submit -> alloc -> submit -> alloc; entry -> alloc; idle begins a tree of its own.
OUTPUT = """\
phase 6
1 0 100 40 2
2 1 200 20 2
3 2 300 8 4
7 0 400 9 1
phase 10
1 0 100 140 12
2 1 200 70 12
3 2 300 48 24
4 3 200 30 10
5 4 300 10 10
6 1 300 5 5
7 0 400 9 1
end
"""


def tree() -> CallTree:
    return call_tree.slope(OUTPUT, 6, 10, 10, NAMES)


def test_a_tree_is_what_one_more_io_executes() -> None:
    nodes = tree().nodes
    assert nodes[1] == Node(0, "entry_SYSCALL_64", 10.0, 1.0)
    assert nodes[3] == Node(2, "alloc", 4.0, 2.0)
    assert nodes[5] == Node(4, "alloc", 1.0, 1.0)
    assert 7 not in nodes  # not for the I/O


def test_a_total_is_a_function_and_all_that_it_calls() -> None:
    assert tree().totals == {1: 23.5, 2: 13.0, 3: 8.0, 4: 4.0, 5: 1.0, 6: 0.5}
    assert sum(tree().stacks().values()) == 23.5
    own = {
        name: sum(v for path, v in tree().stacks().items() if path[-1] == name)
        for name in NAMES.names
    }
    assert own == {"entry_SYSCALL_64": 10.0, "submit": 8.0, "alloc": 5.5, "idle": 0}


def test_a_path_begins_with_the_outermost_function() -> None:
    assert tree().path(4) == ("entry_SYSCALL_64", "submit", "alloc", "submit")
    assert tree().stacks()["entry_SYSCALL_64", "alloc"] == 0.5


def test_callers_of_a_function_that_comes_back_to_itself_count_once() -> None:
    assert tree().callers("submit") == {"entry_SYSCALL_64": (1.0, 13.0)}
    assert tree().callers("alloc") == {"submit": (2.0, 8.0), "entry_SYSCALL_64": (0.5, 0.5)}
    assert tree().callers("entry_SYSCALL_64") == {"": (1.0, 23.5)}
    assert sum(cost for _, cost in tree().callers("submit").values()) == tree().totals[2]


def test_the_main_caller_is_the_one_that_calls_most_often() -> None:
    assert tree().main_callers() == {"submit": "entry_SYSCALL_64", "alloc": "submit"}


def test_callees_and_itself_add_up_to_the_total() -> None:
    assert tree().callees("submit") == {"submit": (0.0, 5.0), "alloc": (2.0, 8.0)}
    assert tree().callees("alloc") == {"alloc": (0.0, 4.5), "submit": (1.0, 4.0)}


def test_text_keeps_a_tree() -> None:
    assert call_tree.from_text(call_tree.to_text(tree())) == tree()


@pytest.mark.parametrize(
    ("output", "what"),
    [
        (OUTPUT.removesuffix("end\n"), "cut off"),
        (OUTPUT.replace("2 1 200 20 2", "2 1 200 20"), "line 3"),
        (OUTPUT.replace("2 1 200 20 2", "2 9 200 20 2"), "line 3"),
        (OUTPUT.replace("phase 6\n", ""), "line 1"),
        (OUTPUT.replace("phase 6", "phase 5"), "lack a phase"),
    ],
)
def test_what_the_plugin_cannot_have_written_is_refused(output: str, what: str) -> None:
    with pytest.raises(GuestError, match=what):
        call_tree.slope(output, 6, 10, 10, NAMES)


def test_the_plugin_is_told_of_which_function_a_piece_is_a_part_and_what_leads_elsewhere() -> None:
    names = Symbols(
        (0x100, 0x180, 0x200, 0x300, 0x400, 0x500, 0x600, 0x700),
        (
            *("entry_SYSCALL_64", "entry_SYSCALL_64_after_hwframe", "submit", "submit.cold"),
            *("__x86_indirect_thunk_rax", "asm_sysvec_reboot", "__switch_to_asm", "lone.cold"),
        ),
    )
    assert call_tree.functions_file(names).splitlines() == [
        "100 100 2",
        "180 100 0",
        "200 200 0",
        "300 200 0",
        "400 400 1",
        "500 500 2",
        "600 600 4",
        "700 700 0",
    ]
