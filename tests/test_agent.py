# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's agent as far as it can be tried outside a guest."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import guests
import pytest

from lab.base import toml
from lab.build.guest_root import AGENT, MORE_STEPS, GuestRoot
from lab.build.kernel import Kernel
from lab.guest import channel
from lab.guest.channel import Record
from lab.inputs import topology, workload
from lab.inputs.terms import Engine
from lab.measure import dbench
from lab.measure.cell import Task
from lab.measure.dbench import LoadFile
from lab.measure.job import Testbed, resolve
from lab.measure.matrix import SCHEDULERS

SCRIPT = AGENT.read_text()
TESTBED = Testbed(Kernel("k", "6.12", "t", (), "gcc"), GuestRoot("guest"), guests.report())
STEPS = set(re.findall(r"^step_(\w+)\(\)", SCRIPT, re.MULTILINE))
MORE = set(re.findall(r"^step_(\w+)\(\)", MORE_STEPS.read_text(), re.MULTILINE))
needs_busybox = pytest.mark.skipif(not shutil.which("busybox"), reason="busybox is not installed")


def orders_steps(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """All steps that any cell of the project's files can come to."""
    monkeypatch.setattr(dbench, "load_file", lambda: LoadFile("", "", {}))
    built, steps = guests.kernel("kernel"), set[str]()
    for machine in toml.names(topology.FOLDER):
        for work in toml.names(workload.FOLDER):
            for engine in Engine:
                cell = guests.cell(machine, SCHEDULERS[0], work, engine)
                steps |= set(resolve(Task(cell=cell, kernel=built), TESTBED).orders.steps)
    return steps


@pytest.mark.slow
def test_the_agent_knows_every_step_that_the_lab_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    verbs = {step.split()[0] for step in orders_steps(monkeypatch)}
    assert {"phase", "disk", "null_blk", "queue", "device", "scheduler", "facts"} <= verbs
    assert verbs <= STEPS | MORE


def test_every_kind_of_record_that_the_agent_sends_is_read() -> None:
    sent = set(re.findall(r"^[^#\n]*?\b(?:record|say) ([a-z]+) ", SCRIPT, re.MULTILINE))
    assert sent == {"phase", "file", "fail", "end"}
    for kind in sent:
        assert [*channel.Reader().feed(f"@{kind} x 0\n\n".encode())]


@needs_busybox
@pytest.mark.parametrize("script", [AGENT, MORE_STEPS], ids=["agent", "more_steps"])
def test_the_agent_is_valid_shell(script: Path) -> None:
    subprocess.run(["busybox", "sh", "-n", str(script)], check=True)


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
@pytest.mark.parametrize("script", [AGENT, MORE_STEPS], ids=["agent", "more_steps"])
def test_shellcheck_finds_no_error(script: Path) -> None:
    argv = ["shellcheck", "-s", "sh", "-S", "error", str(script)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def in_shell(tmp_path: Path, commands: str) -> list[Record]:
    """Run the agent's own functions on this host, with what would end a machine taken out."""
    functions, begin, _ = SCRIPT.partition("\nprepare\n")
    assert begin
    for place in ("/dev/port", "/dev/kmsg", "/proc/sysrq-trigger"):
        functions = functions.replace(place, "/dev/null")
    functions = functions.replace("poweroff", "true").replace("/sys/block", f"{tmp_path}/block")
    functions = functions.replace("/sys/kernel/debug/block", f"{tmp_path}/debug")
    functions = functions.replace("RUN=/run/lab", f"RUN={tmp_path}")
    assert f"RUN={tmp_path}\n" in functions
    results = tmp_path / "results"
    script = f"{functions}\nquit() {{ exit 1; }}\nsync() {{ :; }}\nhostname() {{ :; }}\n"
    script += f'exec 3>"{results}"\n{commands}\n'
    subprocess.run(["busybox", "sh", "-c", script], check=False, timeout=20)
    return [*channel.Reader().feed(results.read_bytes())]


@needs_busybox
@pytest.mark.parametrize(
    "payload", ["", "a\tb\n", "@end ok 0\n\n", "100% \\n 'quoted' \"$HOME\"", "é"]
)
def test_what_the_agent_writes_is_what_the_lab_reads(tmp_path: Path, payload: str) -> None:
    (tmp_path / "in").write_text(payload)
    records = in_shell(
        tmp_path, f'record file x.log <{tmp_path}/in; say phase next "$(cat {tmp_path}/in)"'
    )
    assert records[0] == Record("file", "x.log", payload.encode())
    assert (records[1].name, records[1].text) == ("next", payload.rstrip("\n"))


@needs_busybox
def test_a_step_that_fails_ends_the_cell_with_its_output(tmp_path: Path) -> None:
    records = in_shell(tmp_path, "logged mkfs sh -c 'echo no room >&2; exit 3'; say end ok ''")
    assert [(r.kind, r.name, r.text.strip()) for r in records] == [
        ("file", "mkfs.log", "no room"),
        ("fail", "mkfs", "sh ended with status 3"),
    ]


@needs_busybox
def test_dbench_makes_the_marks_of_a_run_of_one_job(tmp_path: Path) -> None:
    stubs = 'sleep() { :; }; hostname() { say phase mark ""; }; dbench() { echo "$@"; }'
    records = in_shell(tmp_path, f"{stubs}; step_dbench 4 10")
    assert [record.name for record in records] == ["mark", "mark", "dbench.log", "mark", "mark"]
    assert "-t 10" in records[2].text


@needs_busybox
@pytest.mark.parametrize(("set_to", "during", "later"), [("1", "0", "1"), ("0", "0", "0")])
def test_bfq_raises_no_client_of_dbench_for_being_new(
    tmp_path: Path, set_to: str, during: str, later: str
) -> None:
    raising = tmp_path / "block/sda/queue/iosched/low_latency"
    raising.parent.mkdir(parents=True)
    raising.write_text(f"{set_to}\n")
    # The second sleep ends when dbench has ended.
    stubs = f"sleep() {{ [ $(cat {raising}) = {set_to} ] || cat {tmp_path}/end; }}"
    stubs += f"; dbench() {{ cat {raising}; }}; mkfifo {tmp_path}/end; DISK=sda"
    ends = f"[ {set_to} = 0 ] || : >{tmp_path}/end; wait; say end ok $(cat {raising})"
    records = in_shell(tmp_path, f"{stubs}; step_dbench 8 1; {ends}")
    assert [(r.name, r.text.strip()) for r in records] == [("dbench.log", during), ("ok", later)]


@needs_busybox
@pytest.mark.parametrize(
    ("requests", "where"),
    [("ffff8881 {.op=WRITE, .state=idle}\n", "hctx1/dispatch:1 "), ("", "no queue")],
)
def test_io_that_does_not_end_is_told_with_where_requests_wait(
    tmp_path: Path, requests: str, where: str
) -> None:
    for name, text in (("hctx0", ""), ("hctx1", requests), ("sched", "")):
        file = (
            tmp_path / "debug/sda" / name / ("write0_fifo_list" if name == "sched" else "dispatch")
        )
        file.parent.mkdir(parents=True)
        file.write_text(text)
    (record,) = in_shell(tmp_path, "DISK=sda; step_watch 0; wait")
    assert (record.kind, record.name) == ("fail", "watch")
    assert record.text == f"after 0 s I/O has not ended; requests wait in: {where}"


@needs_busybox
def test_every_client_gets_the_tree(tmp_path: Path) -> None:
    rows = [
        "d clients",
        "d clients/client0",
        "d clients/client0/~dmtmp",
        "f clients/client0/~dmtmp/A.000 65637",
        "f clients/client0/empty 0",
    ]
    (tmp_path / "tree").write_text("\n".join(rows) + "\n")
    assert in_shell(tmp_path, "step_tree 3") == []
    for client in range(3):
        home = tmp_path / f"mnt/clients/client{client}"
        assert (home / "~dmtmp/A.000").stat().st_size == 65637
        assert (home / "empty").stat().st_size == 0
    assert not (tmp_path / "mnt/clients/client3").exists()


@needs_busybox
def test_a_disk_is_found_by_the_name_it_was_given(tmp_path: Path) -> None:
    for name in ("nba", "nb", "sda"):
        (tmp_path / "block" / name).mkdir(parents=True)
    text = 'find_disk name nb && say phase "$DISK" ""; find_disk name x || say phase none ""'
    records = in_shell(tmp_path, text)
    assert [record.name for record in records] == ["nb", "none"]


@pytest.mark.parametrize(
    "device", ["null_blk + md raid1 2", "null_blk + loop", "null_blk + dm linear DISK 0"]
)
def test_a_line_s_layers_are_steps_that_some_script_has(device: str) -> None:
    steps = {step.split()[0] for step in topology.get(device).setup_steps(64)}
    assert steps <= STEPS | MORE
    assert not STEPS & MORE
