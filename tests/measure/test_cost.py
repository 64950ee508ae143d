# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost per I/O out of counted phases, and the difference between two."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.errors import GuestError
from lab.measure import cost, determinism, insn_counts
from lab.measure.cost import Change, Cost
from lab.measure.insn_counts import Phase, Symbols

NAMES = Symbols((0x100, 0x200, 0x300), ("submit", "complete", "idle"))
OUTPUT = """\
phase 0 500 256 1
100 38 7 0
100 2 1 300
1f8 2 1 200
200 7 7 0
phase 1 900 1024 2
100 80 4 0
end
"""

costs = st.builds(
    Cost,
    st.floats(0, 1e6),
    st.dictionaries(st.sampled_from([f"f{i}" for i in range(9)]), st.floats(0.01, 1e6)),
)


def test_phases_are_read_with_user_space_apart() -> None:
    first, second = insn_counts.phases(OUTPUT)
    assert (first.user, first.kernel_total) == (500, 49)
    assert insn_counts.by_function(first, NAMES) == {"submit": 42, "complete": 7}
    assert second.kernel == {0x100: 80}
    assert first.executions[0x100, 0x300] == 1
    assert second.executions == {(0x100, 0): 4}
    assert (first.ended_ns, second.ended_ns) == (1, 4)
    assert (first.marks, second.marks) == (1, 2)


@pytest.mark.parametrize("text", ["", "phase 0 1\n", OUTPUT.removesuffix("end\n")])
def test_counts_that_were_cut_off_are_refused(text: str) -> None:
    with pytest.raises(GuestError, match="cut off") as caught:
        insn_counts.phases(text)
    assert caught.value.outcome == "corrupt"


@pytest.mark.parametrize(
    "line",
    [
        *("", "end", "phase 1 5 5 1", "phase 3 5 5 1", "phase 2 5 5", "100", "100 7 1"),
        *("100 -7 1 0", "0x100 7 1 0", "100 1_0 1 0", "100 7 1 -1"),
    ],
)
def test_a_line_that_the_plugin_does_not_write_is_refused(line: str) -> None:
    text = OUTPUT.replace("end\n", f"{line}\nend\n")
    with pytest.raises(GuestError, match="line 8 of the instruction counts") as caught:
        insn_counts.phases(text)
    assert caught.value.outcome == "corrupt"


@pytest.mark.parametrize("more", [-6, -2, -1, 1, 2, 6])
def test_one_mark_too_many_or_too_few_is_no_count(more: int) -> None:
    phases = [Phase(1, {})] * (3 * 4)
    insn_counts.require_marks([*phases, Phase(1, {}, marks=18)], 3, jobs=2)
    with pytest.raises(GuestError, match=f"made {18 + more} marks, not the 18") as caught:
        insn_counts.require_marks([*phases, Phase(1, {}, marks=18 + more)], 3, jobs=2)
    assert caught.value.outcome == "corrupt"


def test_the_time_of_a_run_is_that_of_its_jobs() -> None:
    phases = [Phase(0, {}, float(place**2)) for place in range(1 + 2 * 4)]
    assert [insn_counts.run_ns(phases, run) for run in (0, 1)] == [4 - 1, 36 - 25]
    assert [insn_counts.run_place(run) for run in (0, 1)] == [2, 6]


def test_the_slope_leaves_what_both_runs_share_out() -> None:
    few = Phase(1000 + 10 * 3, {0x100: 70 + 10 * 5, 0x300: 99})
    many = Phase(1000 + 50 * 3, {0x100: 70 + 50 * 5, 0x200: 40, 0x300: 99})
    per_io = cost.slope(few, many, 40, NAMES)
    assert per_io == Cost(3.0, {"submit": 5.0, "complete": 1.0})
    assert per_io.kernel_total == 6.0


def test_an_address_belongs_to_the_function_that_begins_before_it() -> None:
    names = [NAMES.name(address) for address in (0xFF, 0x100, 0x1FF, 0x200, 0x9999)]
    assert names == ["?", "submit", "submit", "complete", "idle"]
    assert NAMES.address("complete") == 0x200
    with pytest.raises(GuestError, match="no function nowhere"):
        NAMES.address("nowhere")


def test_symbols_are_the_functions_of_a_system_map(tmp_path: Path) -> None:
    functions = "ff10 T __lock_text_start\nff10 T submit\nff10 t alias\nff20 w weak\n"
    (tmp_path / "System.map").write_text(f"0000 A start\nff90 D data\n{functions}")
    symbols = insn_counts.symbols(tmp_path / "System.map")
    assert (symbols.addresses, symbols.names) == ((0xFF10, 0xFF20), ("submit", "weak"))


@pytest.mark.parametrize("line", ["", "x T a", "ff T", "ff T a b", "f" * 17 + " T a", "ff  T a"])
def test_what_is_no_system_map_is_an_error_of_that_kernel(tmp_path: Path, line: str) -> None:
    path = tmp_path / "System.map"
    path.write_text(f"ff10 T submit\n{line}\nff20 T other\n")
    with pytest.raises(GuestError, match=r"no line of a System\.map") as caught:
        insn_counts.symbols(path)
    assert caught.value.where == f"{path}:2"


def boot(user: float, ns: float = 7000.0) -> dict[str, float]:
    return {cost.USER: user, cost.TIME: ns}


@pytest.mark.parametrize(
    ("arms", "differs"),
    [
        ([[boot(2000)], [boot(2035)]], False),
        ([[boot(2000)], [boot(2045)]], True),
        ([[boot(2000)], [boot(1950)]], True),
        ([[boot(2000), boot(2060)], [boot(2000), boot(2060)]], False),
        # What was recorded of a disk that one arm keeps waiting twice as long.
        ([[boot(3472.8, 5817383)], [boot(2806.1, 2362305)]], False),
        ([[boot(3972.8, 5817383)], [boot(2806.1, 2362305)]], True),
        ([[boot(2000)], [boot(2000)], [boot(2500)]], True),
        ([[boot(2000)], []], False),
        ([[{}], [boot(2000)]], False),
    ],
)
def test_arms_whose_programs_did_other_work_are_told(
    arms: list[list[dict[str, float]]], differs: bool
) -> None:
    assert cost.other_work(arms).startswith("user space did other work") == differs


@given(costs, costs)
def test_changes_sum_to_the_difference_of_the_totals(before: Cost, after: Cost) -> None:
    changes = cost.changes([before], [after])
    total = sum(change.difference for change in changes)
    assert total == pytest.approx(after.kernel_total - before.kernel_total, abs=1e-3)
    sizes = [abs(change.difference) for change in changes]
    assert sizes == sorted(sizes, reverse=True)


@given(costs)
def test_a_cost_survives_its_file_to_the_last_bit(written: Cost) -> None:
    assert cost.from_text(cost.to_text(written)) == written
    assert cost.changes([written], [cost.from_text(cost.to_text(written))]) == []


def test_two_boots_are_compared_to_their_ends(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "other"
    for folder in (first, second):
        folder.mkdir()
        (folder / "console.log").write_text("[ 0.1] up\n")
        (folder / "insns").write_text("phase 0 1\n100 5\nphase 1 2\n100 7\nend\n")
    assert determinism.first_difference(first, second) == ""
    (second / "insns").write_text("phase 0 1\n100 5\nphase 1 2\n100 8\nend\n")
    assert determinism.first_difference(first, second) == "insns, line 4: '100 7' against '100 8'"


@pytest.mark.parametrize("shift", [3.0, 5.0])
def test_a_function_is_sure_that_differs_by_more_than_seeds_do(shift: float) -> None:
    """Three seeds of chance beyond three others are chance still, in one of ten cases."""
    before = [Cost(0, {"submit": 166.0, "rb_insert": value}) for value in (16.0, 20.0, 18.0)]
    after = [Cost(0, {"submit": 186.0, "rb_insert": v + shift}) for v in (18.0, 16.0, 20.0)]
    for there, change in (((before, after), 20.0), ((after, before), -20.0)):
        changes = cost.changes(*there)
        assert {each.function: each.sure for each in changes} == {
            "submit": True,
            "rb_insert": False,
        }
        assert changes[0].difference == change
    assert cost.changes(before, before) == []


def test_more_seeds_tell_what_few_do_not() -> None:
    """Ten instructions planted in a function whose work is chance."""
    numbers = random.Random(1)

    def seeds(count: int, more: float) -> list[Cost]:
        unchanged = {f"f{number}": 10.0 for number in range(300)}
        mine = (158 + more + numbers.gauss(0, 2) for _ in range(count))
        return [Cost(0, {"sbitmap_get": insns, **unchanged}) for insns in mine]

    by_count = {count: cost.changes(seeds(count, 0), seeds(count, 10)) for count in (3, 12)}
    assert [change.sure for changes in by_count.values() for change in changes] == [False, True]


def test_a_function_that_is_new_with_every_seed_is_told() -> None:
    before, after = [Cost(0, {})] * 3, [Cost(0, {"account": value}) for value in (4.99, 5.0, 5.01)]
    assert cost.changes(before, after) == [Change("account", 0.0, 5.0, sure=True)]


def test_one_seed_or_two_make_nothing_sure() -> None:
    for count in (1, 2):
        changes = cost.changes([Cost(0, {"a": 1.0})] * count, [Cost(0, {"a": 2.0})] * count)
        assert changes == [Change("a", 1.0, 2.0)]


@pytest.mark.slow
def test_of_functions_that_do_the_same_hardly_one_is_ever_called_sure() -> None:
    numbers = random.Random(2)

    def seeds() -> list[Cost]:
        return [
            Cost(0, {f"f{n}": numbers.gauss(100, 0.1 * n) for n in range(1, 40)}) for _ in "123"
        ]

    called = sum(any(change.sure for change in cost.changes(seeds(), seeds())) for _ in range(400))
    assert called <= 32  # 5 % are allowed: 20 on average, more than 32 once in 200 trials


@given(st.lists(st.tuples(costs, costs), min_size=1, max_size=4))
def test_what_differs_differs_the_other_way_round(pairs: list[tuple[Cost, Cost]]) -> None:
    before, after = ([*arm] for arm in zip(*pairs, strict=True))
    there, back = cost.changes(before, after), cost.changes(after, before)
    assert {(c.function, c.before, c.after) for c in there} == {
        (c.function, c.after, c.before) for c in back
    }


def test_the_block_layers_cost_is_that_of_its_functions() -> None:
    measured = Cost(7.0, {"submit_bio": 90.0, "bio_alloc": 10.0, "mmap": 900.0})
    assert measured.within({"submit_bio", "bio_alloc", "unheard_of"}) == 100.0
