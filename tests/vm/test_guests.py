# SPDX-License-Identifier: GPL-2.0-or-later
"""Real guests on real kernels: what the rest of the lab takes for granted."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from real import QUICK, job

from lab.base import cache
from lab.base.errors import GuestError, LabError
from lab.base.progress import Progress
from lab.guest import boot, retries
from lab.guest.boot import Boot
from lab.guest.orders import Orders
from lab.guest.qemu_command import Machine
from lab.guest.time_slices import Slot, TimeSlices
from lab.inputs import topology
from lab.inputs.terms import Engine
from lab.measure import host, sampling
from lab.measure.job import Testbed
from lab.measure.sampling import Sample

# What the kernel of the quick profile can have.
OWN = (QUICK.tree.rpartition(":")[2], QUICK.kernel)
POSSIBLE = [name for name in topology.known() if not topology.get(name).refusal(*OWN)]
LAB = Path(sys.executable).with_name("lab")
SHORT = ("--set", "seconds=1", "--set", "ramp_seconds=0")


@pytest.mark.parametrize("machine", POSSIBLE)
def test_a_guest_has_the_hardware_queues_of_its_topology(
    testbed: Testbed, machine: str, tmp_path: Path
) -> None:
    wanted = job(
        testbed, machine, "mq-deadline", "randread_burst", Engine.TCG, seconds=1, ramp_seconds=0
    )
    sample = retries.steadily(lambda: sampling.measure(wanted, tmp_path))
    assert sample.facts["hw_queues"] == str(topology.get(machine).hw_queues)
    assert sample.values["ios"] > 100


def test_dbench_runs_on_xfs(testbed: Testbed, tmp_path: Path) -> None:
    wanted = job(testbed, "raid64", "bfq", "dbench_xfs", Engine.TCG, clients=2, seconds=8)
    sample = retries.steadily(lambda: sampling.measure(wanted, tmp_path))
    assert sample.values["passes"] >= 1
    assert sample.facts["device/queue_depth"] == "8"
    assert sample.facts["queue/rotational"] == "1"


def test_guests_that_take_turns_do_not_notice(testbed: Testbed, tmp_path: Path) -> None:
    wanted = job(testbed, "nullb", "bfq", "randread_burst", Engine.TCG, seconds=3, ramp_seconds=0)

    def measured(slot: Slot, name: str) -> Sample:
        with slot:
            return sampling.measure(wanted, tmp_path / name, slot=slot)

    def both() -> list[Sample]:
        with TimeSlices(2) as slices, ThreadPoolExecutor(2) as pool:
            return list(pool.map(measured, slices.slots, ("one", "other")))

    for sample in retries.steadily(both):
        assert sample.values["runtime_s"] == pytest.approx(3, rel=0.1)
        assert sample.phases_s["workload"] > 2 * 3


def test_equal_deterministic_guests_are_equal_to_the_last_byte(
    testbed: Testbed, tmp_path: Path
) -> None:
    wanted = job(testbed, "nullb_mq", "bfq", "randwrite_uring", Engine.EXACT, ios=200, numjobs=2)
    outputs = []
    for run in ("first", "second"):
        sampling.measure(wanted, tmp_path / run)
        outputs.append([(tmp_path / run / name).read_text() for name in ("console.log", "results")])
    assert outputs[0] == outputs[1]


def test_engines_are_checked_and_a_kvm_that_boots_nothing_is_refused(testbed: Testbed) -> None:
    folder = cache.root() / "probe" / Engine.KVM
    cache.remove(folder)
    kvm = host.check_engine(Engine.KVM, testbed.probe_kernel, testbed.guest, Progress())
    console, results = folder / "console.log", folder / "results"
    came_up = console.exists() and "Hypervisor detected: KVM" in console.read_text()
    came_up = came_up and b"@end ok" in results.read_bytes()
    assert kvm.works == came_up
    report = host.Report(testbed.host.facts, (kvm,))
    assert host.chosen(report, None) is (Engine.KVM if came_up else Engine.TCG)
    if not came_up:
        with pytest.raises(LabError, match="the engine kvm does not work on this machine"):
            host.chosen(report, Engine.KVM)
    assert testbed.host.works(Engine.TCG)
    assert testbed.host.works(Engine.EXACT)


def run_guest(machine: Machine, orders: Orders) -> Boot:
    return retries.steadily(lambda: boot.run(machine, orders))


def machine_of(testbed: Testbed, folder: Path, name: str = "megasas", *parameters: str) -> Machine:
    usual = topology.get(name)
    hardware = usual.model_copy(
        update={"kernel_parameters": (*usual.kernel_parameters, *parameters)}
    )
    return Machine(testbed.probe_kernel, testbed.guest, hardware, Engine.TCG, folder)


def test_a_guest_that_panics_at_boot_is_reported_with_its_panic(
    testbed: Testbed, tmp_path: Path
) -> None:
    machine = machine_of(testbed, tmp_path, "megasas", "root=/dev/nowhere", "rootfstype=xfs")
    with pytest.raises(GuestError, match="Unable to mount root fs") as caught:
        run_guest(machine, Orders(("phase setup",), {"boot": 60, "setup": 10}))
    assert caught.value.outcome == "panic"
    assert caught.value.where == str(tmp_path / "console.log")


def test_a_guest_that_panics_at_work_is_reported_with_its_panic(
    testbed: Testbed, tmp_path: Path
) -> None:
    orders = Orders(("phase workload", "panic"), {"boot": 60, "agent": 10, "workload": 30})
    with pytest.raises(GuestError, match="sysrq triggered crash") as caught:
        run_guest(machine_of(testbed, tmp_path), orders)
    assert caught.value.outcome == "panic"


def test_a_guest_that_hangs_ends_at_the_deadline_of_its_phase(
    testbed: Testbed, tmp_path: Path
) -> None:
    orders = Orders(("phase workload", "hang"), {"boot": 60, "agent": 10, "workload": 3})
    with pytest.raises(GuestError, match="did not get through phase workload") as caught:
        run_guest(machine_of(testbed, tmp_path), orders)
    assert caught.value.outcome == "hang"
    assert not guests_using(tmp_path)


def test_a_guest_with_other_hardware_than_its_topology_is_refused(
    testbed: Testbed, tmp_path: Path
) -> None:
    wanted = topology.get("megasas")
    steps = ("phase setup", *wanted.setup_steps(16), "scheduler none", "facts")
    orders = Orders(steps, {"boot": 60, "agent": 10, "setup": 30})
    facts = run_guest(machine_of(testbed, tmp_path), orders).facts
    topology.require_match("megasas", wanted, "none", facts)
    more = wanted.model_copy(update={"hw_queues": 64})
    with pytest.raises(GuestError, match="hw_queues: wanted 64, the guest has 1"):
        topology.require_match("megasas", more, "none", facts)


def test_an_impossible_setting_names_the_step(testbed: Testbed, tmp_path: Path) -> None:
    wanted = topology.get("megasas")
    steps = ("phase setup", *wanted.setup_steps(16), "scheduler cfq")
    orders = Orders(steps, {"boot": 60, "agent": 10, "setup": 30})
    with pytest.raises(GuestError, match="does not take the scheduler cfq") as caught:
        run_guest(machine_of(testbed, tmp_path), orders)
    assert caught.value.outcome == "failed"


PANIC_PATCH = """\
--- a/block/blk-core.c
+++ b/block/blk-core.c
@@ -1,2 +1,9 @@
+#include <linux/init.h>
+#include <linux/panic.h>
+static int __init planted(void)
+{
+	panic("planted");
+}
+late_initcall(planted);
 // SPDX-License-Identifier: GPL-2.0
 /*
"""


def test_a_patched_kernel_that_panics_at_boot_fails_its_cell_and_no_other_thing(
    testbed: Testbed, results: Path, tmp_path: Path
) -> None:
    patch = tmp_path / "0001-panic.patch"
    patch.write_text(PANIC_PATCH)
    done = lab_run("--topology", "megasas", "--scheduler", "none", "--patch", str(patch))
    assert done.returncode == 3
    assert "Kernel panic - not syncing: planted" in done.stderr
    assert "Traceback" not in done.stderr


# --- the command, as a user runs it ---------------------------------------------------------------


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("LAB_RESULTS", str(tmp_path / "results"))
    yield tmp_path / "results"
    assert not guests_using(tmp_path), "a guest outlived the lab"


def lab_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LAB, "matrix", "--workload", "randread_burst", *SHORT, *arguments],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def start_lab(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [LAB, "matrix", "--workload", "randread_burst", *SHORT, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def guests_using(folder: Path) -> list[int]:
    """Process ids of live QEMUs that have folder in their command line."""
    pids = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if Path(line.split(" ")[0]).name.startswith("qemu-system") and str(folder) in line:
            pids.append(int(process.parent.name))
    return pids


def wait_for_guest(folder: Path) -> None:
    deadline = time.monotonic() + 120
    while not guests_using(folder):
        assert time.monotonic() < deadline, "no guest was started"
        time.sleep(0.2)


def wait_for_no_guest(folder: Path) -> None:
    deadline = time.monotonic() + 10
    while guests_using(folder):
        assert time.monotonic() < deadline, "the guest outlived the lab"
        time.sleep(0.1)


def test_a_second_run_measures_nothing_again(testbed: Testbed, results: Path) -> None:
    first = lab_run("--topology", "megasas", "--scheduler", "none")
    assert first.returncode == 0, first.stderr
    boots = outcomes(results)
    assert boots.count("ok") == 1
    again = lab_run("--topology", "megasas", "--scheduler", "none")
    assert outcomes(results) == boots
    assert iops_row(first.stdout) == iops_row(again.stdout)


def outcomes(results: Path) -> list[str]:
    """How the boots on record ended."""
    with closing(sqlite3.connect(results / "lab.sqlite")) as database:
        return [outcome for (outcome,) in database.execute("SELECT outcome FROM boots")]


def iops_row(output: str) -> str:
    match = re.search(r"^ *megasas +([\d,.]+)$", output, re.MULTILINE)
    assert match, output
    return match[1]


@pytest.mark.parametrize(
    ("sig", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_an_interrupted_run_leaves_no_guest_and_goes_on_later(
    testbed: Testbed, results: Path, sig: signal.Signals, status: int
) -> None:
    run = start_lab("--topology", "megasas", "--scheduler", "none")
    wait_for_guest(results)
    os.kill(run.pid, sig)
    output, _ = run.communicate(timeout=30)
    assert run.returncode == status, output
    wait_for_no_guest(results)
    again = lab_run("--topology", "megasas", "--scheduler", "none")
    assert again.returncode == 0, again.stderr
    # Nothing is left of what was cut off. A guest that failed afterwards stays on record.
    with closing(sqlite3.connect(results / "lab.sqlite")) as database:
        ends = dict(database.execute("SELECT id, outcome FROM boots"))
    assert {path.name for path in (results / "boots").iterdir()} == ends.keys()
    assert [*ends.values()].count("ok") == 1


def test_a_guest_whose_qemu_was_killed_is_booted_again(testbed: Testbed, results: Path) -> None:
    run = start_lab("--topology", "megasas", "--scheduler", "none", "--scheduler", "bfq")
    wait_for_guest(results)
    for guest in guests_using(results):
        os.kill(guest, signal.SIGKILL)
    output, _ = run.communicate(timeout=300)
    assert run.returncode == 0, output
    # virtme-ng does not tell how its QEMU ended.
    assert "FAILED: died" in output
    assert outcomes(results).count("ok") == 2


def test_a_shell_is_the_guest_of_a_cell_and_is_left_by_exit(testbed: Testbed) -> None:
    words = ["shell", "--topology", "nullb_mq", "--scheduler", "kyber"]
    with subprocess.Popen(
        [LAB, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as shell:
        assert shell.stdin
        assert shell.stdout
        said = ""
        while "The end: exit" not in said:
            line = shell.stdout.readline()
            assert line, said
            said += line
        shell.stdin.write("ls /sys/block/nb/mq | wc -l\ncat /sys/block/nb/queue/scheduler\nexit\n")
        shell.stdin.flush()
        said = shell.stdout.read()
        assert shell.wait(60) == 0
    assert re.search(r"^128\r?$", said, re.MULTILINE)
    assert "[kyber]" in said


def test_a_deterministic_boot_is_repeated_to_the_last_digit(
    testbed: Testbed, tmp_path: Path
) -> None:
    environment = {**os.environ, "LAB_RESULTS": str(tmp_path / "results")}

    def lab(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [LAB, *words], capture_output=True, text=True, env=environment, check=False
        )

    cell = ("--engine", "exact", "--topology", "nullb", "--scheduler", "none")
    assert lab("matrix", "--workload", "randread_burst", *cell).returncode == 0
    done = lab("rerun", "last")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "equal: all " in done.stdout
