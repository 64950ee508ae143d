# SPDX-License-Identifier: GPL-2.0-or-later
"""The simulation's numbers: read as they were written, and none from a guest with another clock."""

from __future__ import annotations

import pytest

from lab.base.errors import GuestError
from lab.measure import sim_counts
from lab.measure.insn_counts import Symbols
from lab.measure.sim_counts import Simulated

NAMES = Symbols((0x1000, 0x2000), ("submit_bio", "blk_mq_run_hw_queue"))
VARIABLES = Symbols(
    tuple(0xFFFFFFFF82000000 + offset for offset in (0, 0x40, 0x48, 0x80)),
    ("jiffies", "planted", "beside", "other"),
)
MS = 256_000_000 // 1000 * 1000  # a millisecond in parts of a nanosecond
# The guest's start, fio's warm-up, what is measured, and both ends. 2000 I/Os took 10 ms; two
# translations of submit_bio began there, each 1000 times.
WINDOW = f"""\
phase 1 {25 * MS} 5120000
1000 256000 1000
1000 256000 1000
1010 512000 2000
2000 1024000 500
2004 5120000 100 300 100
line ffff888000001000 2004 300
line ffff888000002000 2004 100
line ffff888000002000 1010 80
line ffff888000002000 1014 20
"""
OUTPUT = f"""\
phase 0 {10 * MS} 0
phase 0 {15 * MS} 0
{WINDOW}phase 0 {27 * MS} 0
phase 0 {40 * MS} 0
end
"""


def windows(
    text: str = OUTPUT, runtime_s: float = 0.012, names: Symbols = NAMES, number: int = 1
) -> list[Simulated]:
    return sim_counts.simulated(sim_counts.phases(text), names, VARIABLES, runtime_s, number)


def test_throughput_time_and_moves_are_those_of_what_is_measured() -> None:
    (window,) = windows()
    assert window.simulated_iops == pytest.approx(2000 / 10e-3)
    assert window.transfers == 500 / 2000
    assert window.cost.user == 5120000 / 256 / 2000
    # Waiting for lines belongs to the function whose instruction waited.
    assert window.cost.kernel == {
        "submit_bio": 1024000 / 256 / 2000,
        "blk_mq_run_hw_queue": (1024000 + 5120000) / 256 / 2000,
    }
    assert window.values() == {
        "iops": window.simulated_iops,
        "cpu_ns_per_io": window.cost.user + window.cost.kernel_total,
        "transfers_per_io": 0.25,
        "lock_ns_per_io": 0.0,
    }


def test_what_is_measured_again_is_told_apart() -> None:
    again = f"phase 0 {30 * MS} 0\nphase 1 {50 * MS} 0\n1000 256000 1000\n"
    text = OUTPUT.replace(WINDOW, WINDOW + again).replace(
        f"phase 0 {27 * MS}", f"phase 0 {52 * MS}"
    )
    first, second = windows(text, 0.037, number=2)
    assert first.simulated_iops == pytest.approx(2000 / 10e-3)
    assert second.simulated_iops == pytest.approx(1000 / 20e-3)
    assert second.transfers == 0
    for number in (1, 3):
        with pytest.raises(GuestError, match="did not do the I/Os"):
            windows(text, 0.037, number=number)


def test_waiting_for_locks_is_told_apart() -> None:
    names = Symbols(NAMES.addresses, ("submit_bio", "queued_spin_lock_slowpath"))
    (window,) = windows(names=names)
    assert window.values()["lock_ns_per_io"] == (1024000 + 5120000) / 256 / 2000


@pytest.mark.parametrize("runtime_ms", [8.9, 18.1, 3000.0])
def test_a_guest_with_another_clock_is_an_error(runtime_ms: float) -> None:
    with pytest.raises(GuestError, match="clock is not the simulated one") as caught:
        windows(runtime_s=runtime_ms / 1e3)
    assert caught.value.outcome == "corrupt"


def test_a_record_that_was_cut_off_is_refused() -> None:
    with pytest.raises(GuestError, match="cut off"):
        sim_counts.phases(OUTPUT.removesuffix("end\n"))


@pytest.mark.parametrize("extra", ["phase 0 {} 0\n", WINDOW])
@pytest.mark.parametrize("place", ["first", "last"])
def test_one_mark_more_is_another_run(extra: str, place: str) -> None:
    extra = extra.format(5 * MS)
    text = extra + OUTPUT if place == "first" else OUTPUT.replace("end\n", f"{extra}end\n")
    with pytest.raises(GuestError, match="not in one run of fio") as caught:
        windows(text)
    assert caught.value.outcome == "corrupt"


@pytest.mark.parametrize(
    "line",
    ["phase 2 1 1", "phase 0 1", "1000 -1 1", "1000 1_0 1", "line 1 2", "0x10 1 1", "", "end"],
)
def test_a_line_that_the_plugin_does_not_write_is_refused(line: str) -> None:
    text = OUTPUT.replace("2000 1024000 500\n", f"2000 1024000 500\n{line}\n")
    with pytest.raises(GuestError, match="none of the plugin's"):
        sim_counts.phases(text)


@pytest.mark.parametrize("measured", ["", WINDOW.replace("phase 1", "phase 0")])
def test_a_run_that_ended_before_anything_was_measured_is_an_error(measured: str) -> None:
    with pytest.raises(GuestError, match="did not do the I/Os"):
        windows(OUTPUT.replace(WINDOW, measured))


def test_the_lines_that_move_most_come_first_with_who_moves_them() -> None:
    (window,) = windows()
    lines = window.lines
    assert [line.address for line in lines] == [0xFFFF888000001000, 0xFFFF888000002000]
    assert lines[0].transfers == {"blk_mq_run_hw_queue": 300 / 2000}
    assert lines[1].transfers == {"blk_mq_run_hw_queue": 100 / 2000, "submit_bio": 100 / 2000}
    assert lines[1].total == 200 / 2000
    assert sim_counts.from_text(sim_counts.to_text(lines)) == [*lines]


def test_a_line_of_the_kernels_own_data_has_a_variables_name() -> None:
    (window,) = windows(OUTPUT.replace("line ffff888000001000", "line ffffffff82000040"))
    assert [line.place for line in window.lines] == ["planted, beside", "ffff888000002000"]
    assert sim_counts.from_text(sim_counts.to_text(window.lines)) == [*window.lines]
