# SPDX-License-Identifier: GPL-2.0-or-later
"""What killed a kernel is read off its console."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.guest.console import complaints, death, is_hang, kind, last_line, lines_of

DATA = Path(__file__).parents[1] / "data"


def recorded(name: str) -> str:
    return (DATA / f"console-{name}.log").read_text()


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("panic", "Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)"),
        ("oops", "BUG: kernel NULL pointer dereference, address: 0000000000000038"),
        ("soft-lockup", "BUG: soft lockup - CPU#1 stuck for 26s! [fio:83]"),
        ("hung-task", "INFO: task dbench:97 blocked for more than 120 seconds."),
        ("bug-at", "kernel BUG at block/blk-mq.c:1338!"),
        ("protection-fault", "general protection fault, probably for non-canonical address"),
        ("rcu-stall", "INFO: rcu_sched self-detected stall on CPU"),
    ],
)
def test_the_line_that_explains_most_is_found(name: str, cause: str) -> None:
    death_line = death(recorded(name))
    assert death_line is not None
    assert cause in death_line
    assert "not syncing" in cause or "not syncing" not in death_line
    assert not death_line.startswith("[ ")
    assert is_hang(death_line) == (name in ("soft-lockup", "hung-task", "rcu-stall"))


def test_an_oops_explains_more_than_the_panic_wherever_it_stands() -> None:
    text = recorded("panic") + recorded("oops")
    assert death(text) == (
        "BUG: kernel NULL pointer dereference, address: 0000000000000038 in bfq_insert_requests()"
    )


def test_serial_line_ends_do_not_matter() -> None:
    assert death(recorded("oops").replace("\n", "\r\n")) == death(recorded("oops"))


@pytest.mark.parametrize(
    "text", ["", "\n\n", recorded("clean"), "[    1.9] DEBUG: agent: all is well\n"]
)
def test_a_kernel_that_lives_has_no_cause_of_death_and_no_complaint(text: str) -> None:
    assert death(text) is None
    assert complaints(text) == ()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        (" \n\n", ""),
        ("a\nb\n", "b"),
        ("a\n  b \r\n\n \n", "b"),
        ("a\ncut", "cut"),
        (recorded("clean"), "[    1.801177] agent: quit"),
    ],
)
def test_the_last_line_is_the_last_that_says_something(text: str, line: str) -> None:
    assert last_line(text) == line


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (
            "WARNING: CPU: 1 PID: 54 at block/blk-mq.c:512 blk_mq_start_request+0x45/0x90",
            "WARNING in blk_mq_start_request()",
        ),
        (
            "WARNING: block/blk-mq.c:500 at blk_mq_run_hw_queue+0x1d/0x20, CPU#0: fio/12",
            "WARNING in blk_mq_run_hw_queue()",
        ),
        (
            "WARNING: possible circular locking dependency detected",
            "WARNING: possible circular locking dependency detected",
        ),
        ("WARNING: bad unlock balance detected!", "WARNING: bad unlock balance detected!"),
        ("WARNING: suspicious RCU usage", "WARNING: suspicious RCU usage"),
        (
            "BUG: sleeping function called from invalid context at block/blk-mq.c:123",
            "BUG: sleeping function called from invalid context at block/blk-mq.c:N",
        ),
        (
            "BUG: scheduling while atomic: fio/83/0x00000002",
            "BUG: scheduling while atomic: fio/N/N",
        ),
        (
            "I/O error, dev nvme0n1, sector 1234 op 0x1:(WRITE) flags 0x800",
            "I/O error, dev nvme0n1",
        ),
        (
            "Buffer I/O error on dev sda, logical block 77, lost async page write",
            "Buffer I/O error on dev sda, logical block N, lost async page write",
        ),
        (
            "nvme nvme0: I/O tag 3 (1003) opcode 0x2 (I/O Cmd) QID 4 timeout, aborting req_op:READ",
            "nvme0: I/O tag N (N) opcode N (I/O Cmd) QID N timeout, aborting req_op:READ",
        ),
        (
            "XFS (sda): Filesystem has been shut down due to log error (0x2).",
            "XFS (sda): Filesystem has been shut down due to log error (N).",
        ),
        (
            "UBSAN: array-index-out-of-bounds in block/bfq-iosched.c:700:9",
            "UBSAN: array-index-out-of-bounds in block/bfq-iosched.c:N:N",
        ),
    ],
)
def test_what_a_living_kernel_complains_of_is_told_by_kind(line: str, kind: str) -> None:
    text = recorded("clean") + f"[    2.104719][   T83] {line}\n[    3.0][    C1] {line}\n"
    assert complaints(text) == (kind,)


LOCKDEP = """\
[    4.1] ======================================================
[    4.1] WARNING: possible circular locking dependency detected
[    4.1] 6.12.117 #1 Not tainted
[    4.1] ------------------------------------------------------
[    4.1] sh/123 is trying to acquire lock:
[    4.1] ffff888003f0a1e8 (&dd->lock){....}-{3:3}, at: dd_init_sched+0x41/0x260
[    4.1]
[    4.1] but task is already holding lock:
[    4.1] ffff888003f0b2e8 (&q->sysfs_lock){+.+.}-{4:4}, at: elevator_switch+0x10/0x20
"""
KASAN = """\
[    5.2][   T71] BUG: KASAN: slab-use-after-free in __list_add_valid_or_report+0x12/0xf0
[    5.2][   T71] Read of size 8 at addr ffff888004a8c0a8 by task fio/71
[    5.2][   T71]
[    5.2][   T71] CPU: 0 UID: 0 PID: 71 Comm: fio Not tainted 6.12.117 #1
[    5.2][   T71] Call Trace:
[    5.2][   T71]  <TASK>
[    5.2][   T71]  dump_stack_lvl+0x52/0x70
[    5.2][   T71]  print_report+0xc4/0x630
[    5.2][   T71]  ? __list_add_valid_or_report+0x12/0xf0
[    5.2][   T71]  kasan_report+0xab/0xe0
[    5.2][   T71]  __list_add_valid_or_report+0x12/0xf0
[    5.2][   T71]  dd_insert_requests+0x1f0/0x900
[    5.2][   T71]  </TASK>
"""
SATURATED = "WARNING: CPU: 0 PID: 71 at lib/refcount.c:28 refcount_warn_saturate+0xba/0x110"
BLOCKED = """\
[   62.1] INFO: task sh:70 blocked for more than 60 seconds.
[   62.1]       Not tainted 6.12.117 #1
[   62.1] "echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.
[   62.1] task:sh              state:D stack:0     pid:70    tgid:70    ppid:1      flags:0x4000
[   62.1] Call Trace:
[   62.1]  <TASK>
[   62.1]  __schedule+0x3f0/0x900
[   62.1]  schedule+0x41/0x60
[   62.1]  blk_mq_freeze_queue_wait+0x8a/0xc0
[   62.1]  elevator_switch+0x31/0x150
"""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (LOCKDEP, "WARNING: possible circular locking dependency detected in dd_init_sched()"),
        (KASAN, "KASAN: slab-use-after-free in dd_insert_requests()"),
        (BLOCKED, "INFO: task sh:N blocked for more than N seconds in elevator_switch()"),
        (f"[ 5.2] {SATURATED}", "WARNING in refcount_warn_saturate()"),
    ],
    ids=["lockdep", "kasan", "blocked", "no more than a helper"],
)
def test_a_complaint_names_the_function_that_is_meant(text: str, complaint: str) -> None:
    assert complaints(text) == (complaint,)


def test_the_lines_of_another_complaint_tell_nothing_of_this_one() -> None:
    first, second = complaints("BUG: sleeping function called\nsomething\n" + KASAN)
    assert first == "BUG: sleeping function called"
    assert second == "KASAN: slab-use-after-free in dd_insert_requests()"


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("Kernel panic - not syncing: Attempted to kill init!", "panic"),
        ("Kernel panic - not syncing: System is deadlocked on memory", "out of memory"),
        ("Out of memory: Killed process 83 (fio) total-vm:1kB", "out of memory"),
        ("BUG: kernel NULL pointer dereference, address: 0000000000000038", "oops"),
        ("general protection fault, probably for non-canonical address", "oops"),
        ("BUG: soft lockup - CPU#1 stuck for 26s! [fio:83]", "lockup"),
        ("BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 32s!", "lockup"),
        ("INFO: task dbench:97 blocked for more than 120 seconds.", "hung task"),
        ("INFO: rcu_sched self-detected stall on CPU", "stall"),
        ("I/O error, dev nvme0n1, sector 1234 op 0x1:(WRITE)", "I/O error"),
        ("Buffer I/O error on dev sda, logical block 77", "I/O error"),
        (
            "XFS (sda): Filesystem has been shut down due to log error (0x2).",
            "file system shut down",
        ),
        ("WARNING: bad unlock balance detected!", "warning"),
    ],
)
def test_ends_and_complaints_are_told_apart_in_a_word(line: str, word: str) -> None:
    cause = death(line) or complaints(line)[0]
    assert kind(cause) == word


def test_a_terminal_only_shows_what_a_kernel_prints() -> None:
    text = "[    1.0] BUG: \x1b]0;owned\x07\u202eright\n"
    assert death(text) == r"BUG: \x1b]0;owned\x07\u202eright"
    assert last_line("\x9b2J") == r"\x9b2J"


def test_of_a_line_without_end_little_is_told() -> None:
    cause = death("BUG: " + "x" * 10**6)
    assert cause is not None
    assert len(cause) < 1000


def test_a_driver_s_messages_are_those_that_report_no_success() -> None:
    text = (
        "[    0.2] null_blk: module loaded\n[    1.5] null_blk: disk nb created\n"
        "[    1.4] null_blk: discard option is ignored without memory backing\n"
        "[    1.6] sd 0:0:0:0: null_blk: not a driver's line\n"
    )
    assert lines_of(text, ["null_blk"]) == (
        "null_blk: discard option is ignored without memory backing",
    )
    assert lines_of(text, ["scsi_debug"]) == ()
